package bundle

import (
	"context"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/airlock-dag/airlock/dag"
)

// settle is how long the folder must be quiet before a change is told: an
// editor writes a file in several steps, git a folder in hundreds.
const settle = 200 * time.Millisecond

// maxSettle ends the waiting when the folder never becomes quiet.
const maxSettle = 5 * time.Second

// Watch gives a signal when something below the root may have changed, until
// ctx is done; then the channel is closed. Signals come from the operating
// system where it offers them, and in any case every poll, because editors,
// network file systems and mounts lose events. One signal may stand for many
// changes; the reader scans and compares.
func (f *Folder) Watch(ctx context.Context, clock dag.Clock, poll time.Duration) <-chan struct{} {
	out := make(chan struct{}, 1)
	w := &watch{folder: f, clock: clock, poll: poll, out: out}
	go w.run(ctx)
	return out
}

type watch struct {
	folder *Folder
	clock  dag.Clock
	poll   time.Duration
	out    chan struct{}
	fsn    *fsnotify.Watcher // nil where the system has none to give
}

func (w *watch) run(ctx context.Context) {
	defer close(w.out)
	if fsn, err := fsnotify.NewWatcher(); err == nil {
		w.fsn = fsn
		defer func() { _ = fsn.Close() }()
	}
	w.addFolders()
	var events chan fsnotify.Event
	var errs chan error
	if w.fsn != nil {
		events, errs = w.fsn.Events, w.fsn.Errors
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.clock.After(w.poll):
			w.addFolders() // a folder that was removed and made again is watched again
			w.signal()
		case _, ok := <-events:
			if !ok || !w.waitQuiet(ctx, events) {
				return
			}
			w.addFolders()
			w.signal()
		case _, ok := <-errs:
			if !ok {
				return
			}
			w.signal() // events were lost: anything may have changed
		}
	}
}

// waitQuiet reads events until none comes for the settling time. It is false
// when the watch is over.
func (w *watch) waitQuiet(ctx context.Context, events <-chan fsnotify.Event) bool {
	end := w.clock.After(maxSettle)
	for {
		select {
		case <-ctx.Done():
			return false
		case _, ok := <-events:
			if !ok {
				return false
			}
		case <-w.clock.After(settle):
			return true
		case <-end:
			return true
		}
	}
}

// addFolders watches every folder below the root. Adding one twice does
// nothing; one that cannot be watched is left to the poll.
func (w *watch) addFolders() {
	if w.fsn == nil {
		return
	}
	root, err := filepath.EvalSymlinks(w.folder.root) // WalkDir does not follow its root
	if err != nil {
		return
	}
	_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // a folder that cannot be read is not watched
		}
		if d.IsDir() {
			if p != root && (d.Name() == "__pycache__" || len(d.Name()) > 1 && d.Name()[0] == '.') {
				return filepath.SkipDir
			}
			_ = w.fsn.Add(p)
		}
		return nil
	})
}

// signal leaves one signal for the reader; one that waits already is enough.
func (w *watch) signal() {
	select {
	case w.out <- struct{}{}:
	default:
	}
}
