//go:build unix

package transcode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// lockPoll is how often a taken lock is asked for again.
const lockPoll = 200 * time.Millisecond

// acquire takes the lock of a key, waiting while another process has it; busy
// is called once when it must wait. release removes the lock file and lets go.
// A process that dies lets go by dying. On a file system without locks it
// gives a release that does nothing: the guard is asked again before the rename.
func acquire(ctx context.Context, clock dag.Clock, path string, busy func()) (release func(), err error) {
	for first := true; ; first = false {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644) // workers of several users may share a catalogue
		if err != nil {
			return nil, fmt.Errorf("make the lock file: %w", err)
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil && sameFile(f, path):
			return func() {
				_ = os.Remove(path) // while it is held: nobody else can have it
				_ = f.Close()
			}, nil
		case err == nil: // its holder removed it between our open and our lock
			_ = f.Close()
			continue
		case errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOSYS):
			_ = f.Close()
			return func() {}, nil
		}
		_ = f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, fmt.Errorf("take the lock: %w", err)
		}
		if first && busy != nil {
			busy()
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-clock.After(lockPoll):
		}
	}
}

// tryAcquire takes the lock of a key if nobody has it; ok is false when somebody
// does, and where that cannot be known.
func tryAcquire(path string) (release func(), ok bool) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, false
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil || !sameFile(f, path) {
		_ = f.Close()
		return nil, false
	}
	return func() {
		_ = os.Remove(path)
		_ = f.Close()
	}, true
}

// sameFile tells whether the path still leads to the file that was locked.
func sameFile(f *os.File, path string) bool {
	a, errA := f.Stat()
	b, errB := os.Stat(path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}
