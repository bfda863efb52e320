package executor

import (
	"context"
	"errors"
	"hash/maphash"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// CleanStore is what the cleaner needs of the state database.
type CleanStore interface {
	// Now is the state database's clock.
	Now(ctx context.Context) (time.Time, error)
	// Clean deletes one batch of history in one transaction.
	Clean(ctx context.Context, b dag.CleanBatch) (dag.CleanedBatch, error)
	// OpenInstances gives each the instances of open dead letters and of unfinished
	// runs, some at a time.
	OpenInstances(ctx context.Context, each func([]dag.TaskInstanceKey) error) error
}

// Retention says how long history is kept, by kind; a kind that is not there is
// kept for ever.
type Retention map[dag.CleanKind]time.Duration

// CleanerOptions is what a cleaner is made of.
type CleanerOptions struct {
	Store CleanStore
	Clock dag.Clock
	Log   *slog.Logger
	// Retention of the automatic clean.
	Retention Retention
	// Every is the time between two automatic cleans; default 1 h.
	Every time.Duration
	// LogsDir is where attempts' logs lie on this machine.
	LogsDir string
	// Observe, when not nil, is told how much of a kind an automatic clean deleted,
	// and whether it failed.
	Observe func(kind dag.CleanKind, deleted int, err error)
}

// firstClean is when a process cleans first: a start has better to do, and one
// that is restarted every hour must come to it too.
const firstClean = 5 * time.Minute

// Cleaner deletes history that is old enough, in small batches: a claim or a
// result never waits for more than one of them.
type Cleaner struct{ o CleanerOptions }

// NewCleaner makes a cleaner.
func NewCleaner(o CleanerOptions) *Cleaner {
	if o.Clock == nil {
		o.Clock = dag.SystemClock{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Every <= 0 {
		o.Every = time.Hour
	}
	return &Cleaner{o: o}
}

// Run cleans by the retention, now and again, until ctx ends. kinds restricts
// it: the logs lie where a worker runs, the rows are cleaned by schedulers.
func (c *Cleaner) Run(ctx context.Context, kinds ...dag.CleanKind) {
	wait := min(c.o.Every, firstClean)
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.o.Clock.After(wait):
		}
		wait = c.o.Every
		for _, kind := range kinds {
			age := c.o.Retention[kind]
			if age <= 0 {
				continue
			}
			now, err := c.o.Store.Now(ctx)
			n := 0
			if err == nil {
				n, err = c.Clean(ctx, kind, now.Add(-age), false)
			}
			if c.o.Observe != nil && ctx.Err() == nil {
				c.o.Observe(kind, n, err)
			}
			switch {
			case ctx.Err() != nil:
			case err != nil:
				c.o.Log.Warn("old history could not be deleted; it is tried again", "kind", string(kind), "error", err)
			case n > 0:
				c.o.Log.Info("deleted old history", "kind", string(kind), "deleted", n, "older_than", age.String())
			}
		}
	}
}

// Clean deletes all history of one kind that is older than an instant, batch by
// batch, and counts it. With dryRun it only counts.
func (c *Cleaner) Clean(ctx context.Context, kind dag.CleanKind, before time.Time, dryRun bool) (int, error) {
	if kind == dag.CleanLogs {
		return c.cleanLogs(ctx, before, dryRun)
	}
	total := 0
	batch := dag.CleanBatch{Kind: kind, Before: before, DryRun: dryRun}
	for {
		done, err := c.o.Store.Clean(ctx, batch)
		if err != nil {
			return total, err
		}
		total += done.Deleted
		if !done.More {
			return total, nil
		}
		batch.After = done.After
	}
}

// cleanLogs deletes the log files of this machine that were last written before
// an instant, but those of open dead letters and of unfinished runs, and the
// folders that become empty.
func (c *Cleaner) cleanLogs(ctx context.Context, before time.Time, dryRun bool) (int, error) {
	// Eight bytes for each: there may be a million. Two that are alike by chance
	// keep a file a while longer.
	seed := maphash.MakeSeed()
	stays := map[uint64]struct{}{}
	if err := c.o.Store.OpenInstances(ctx, func(open []dag.TaskInstanceKey) error {
		for _, k := range open {
			stays[maphash.String(seed, path.Dir(LogPath(k, 1)))] = struct{}{}
		}
		return nil
	}); err != nil {
		return 0, err
	}
	deleted := 0
	var folders []string
	err := filepath.WalkDir(c.o.LogsDir, func(file string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // another cleaner was here, or there are no logs yet
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		rel, err := filepath.Rel(c.o.LogsDir, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if e.IsDir() {
			if strings.HasPrefix(rel, "dag_id=") {
				folders = append(folders, file)
			}
			return nil
		}
		info, err := e.Info()
		if err != nil || !isAttemptLog(rel) || !info.ModTime().Before(before) {
			return nil //nolint:nilerr // it is gone already
		}
		if _, open := stays[maphash.String(seed, path.Dir(rel))]; open {
			return nil
		}
		deleted++
		if dryRun {
			return nil
		}
		return os.Remove(file) //nolint:gosec // the logs folder is Airlock's own
	})
	if !dryRun {
		for i := len(folders) - 1; i >= 0; i-- {
			_ = os.Remove(folders[i]) // one that is not empty stays
		}
	}
	return deleted, err
}

// isAttemptLog tells a file that LogPath names from whatever else lies there.
func isAttemptLog(rel string) bool {
	parts := strings.Split(rel, "/")
	return len(parts) >= 4 && strings.HasPrefix(parts[0], "dag_id=") && strings.HasPrefix(parts[len(parts)-1], "attempt=")
}
