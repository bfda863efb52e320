package bundle_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// next waits for one signal; the test's own time limit ends it otherwise.
func next(t *testing.T, ch <-chan struct{}) {
	t.Helper()
	select {
	case _, ok := <-ch:
		require.True(t, ok, "the watch ended")
	case <-time.After(time.Minute):
		t.Fatal("no signal")
	}
}

// untilScan reads signals until a scan shows what is wanted.
func untilScan(t *testing.T, f *bundle.Folder, ch <-chan struct{}, want []string) {
	t.Helper()
	for !equal(scan(t, f), want) {
		next(t, ch)
	}
}

func equal(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestWatchTellsOfChanges(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	root := t.TempDir()
	write(t, root, "a.yml", "a: 1\n")
	f := bundle.NewFolder(root)
	ch := f.Watch(ctx, dag.SystemClock{}, 2*time.Second)

	write(t, root, "b.yml", "b: 1\n")
	untilScan(t, f, ch, []string{"a.yml", "b.yml"})
	// A new folder is watched too.
	write(t, root, "sub/c.yml", "c: 1\n")
	untilScan(t, f, ch, []string{"a.yml", "b.yml", "sub/c.yml"})
	// Editors write beside the file and rename.
	write(t, root, "b.yml.tmp", "b: 2\n")
	require.NoError(t, os.Rename(filepath.Join(root, "b.yml.tmp"), filepath.Join(root, "b.yml")))
	require.NoError(t, os.Remove(filepath.Join(root, "a.yml")))
	untilScan(t, f, ch, []string{"b.yml", "sub/c.yml"})

	stop()
	for range ch {
	}
}

// handClock moves only when the test says so.
type handClock struct{ ticks chan time.Time }

func (c handClock) Now() time.Time                       { return time.Time{} }
func (c handClock) After(time.Duration) <-chan time.Time { return c.ticks }

func TestWatchPollsWhereEventsAreMissing(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	clock := handClock{ticks: make(chan time.Time)}
	// A folder that does not exist gives no events.
	f := bundle.NewFolder(filepath.Join(t.TempDir(), "later"))
	ch := f.Watch(ctx, clock, time.Hour)
	clock.ticks <- time.Time{}
	next(t, ch)
	clock.ticks <- time.Time{}
	next(t, ch)
	stop()
	for range ch {
	}
}
