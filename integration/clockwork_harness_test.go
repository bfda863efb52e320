package integration

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/app"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
	"github.com/airlock-dag/airlock/dag/dagtest"
	"github.com/airlock-dag/airlock/dag/load"
	"github.com/airlock-dag/airlock/executor"
	"github.com/airlock-dag/airlock/sql/store"
)

// files is a DAGs folder in memory.
type files map[string]string

func (f files) Scan() ([]bundle.File, error) {
	var out []bundle.File
	for name, text := range f {
		out = append(out, bundle.File{Path: name, Data: []byte(text)})
	}
	slices.SortFunc(out, func(a, b bundle.File) int { return cmpText(a.Path, b.Path) })
	return out, nil
}

func (f files) Watch(ctx context.Context, _ dag.Clock, _ time.Duration) <-chan struct{} {
	ch := make(chan struct{})
	context.AfterFunc(ctx, func() { close(ch) })
	return ch
}

func cmpText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

// clockwork drives real schedulers on a real state database by a clock that the
// test moves: it looks when the tables say that something is due.
type clockwork struct {
	t     *testing.T
	dsn   string
	files files
	clock *dagtest.Clock
	store *store.Store
	// schedulers look at the same time.
	schedulers []*executor.Scheduler
	// work, when set, does what a worker would after each look, and tells whether
	// it has more to do.
	work func() bool
	// passes counts looks; a simulation that stops moving fails.
	passes int
}

// step is how far the clock moves between two looks when there is more to do.
const step = 20 * time.Millisecond

func newClockwork(t *testing.T, dsn string, now time.Time, f files) *clockwork {
	t.Helper()
	c := &clockwork{t: t, dsn: dsn, files: f, clock: dagtest.NewClock(now)}
	c.start(1)
	return c
}

// start opens the database anew with n schedulers, as a restart does, and reads
// the DAG files.
func (c *clockwork) start(n int) {
	c.t.Helper()
	c.schedulers = nil
	for range n {
		s, err := store.Open(c.t.Context(), c.dsn, store.Options{Clock: c.clock})
		require.NoError(c.t, err)
		c.t.Cleanup(func() { _ = s.Close() })
		require.NoError(c.t, s.Migrate(c.t.Context()))
		c.store = s
		c.schedulers = append(c.schedulers, executor.NewScheduler(executor.SchedulerOptions{
			Store: s, Catalog: s, Results: s, Settings: s, Clock: c.clock, Rand: dag.SystemRand{},
		}))
		c.sync()
	}
}

// sync reads the DAG files, as the catalog does now and then.
func (c *clockwork) sync() load.Result {
	c.t.Helper()
	lookup := func(string) (string, bool) { return "", false }
	catalog := executor.NewCatalog(executor.CatalogOptions{
		Source: c.files, Catalog: c.store, Store: c.store, Clock: c.clock,
		Load: load.Options{Specs: app.Operators().Specs(), LookupEnv: lookup, DefaultTimezone: "UTC", Now: c.clock.Now},
	})
	res, err := catalog.Sync(c.t.Context())
	require.NoError(c.t, err)
	require.Empty(c.t, res.Problems)
	return res
}

// look lets every scheduler make one pass, all at the same time. It tells whether
// a scheduler did something, and whether a worker has more to do.
func (c *clockwork) look() (busy, working bool) {
	c.t.Helper()
	c.passes++
	answers := make([]bool, len(c.schedulers))
	errs := make([]error, len(c.schedulers))
	var all sync.WaitGroup
	for i, s := range c.schedulers {
		all.Go(func() { answers[i], errs[i] = s.Pass(c.t.Context()) })
	}
	all.Wait()
	require.NoError(c.t, errors.Join(errs...))
	return slices.Contains(answers, true), c.work != nil && c.work()
}

// until runs the schedulers to an instant. The clock goes from one thing that
// is due to the next.
func (c *clockwork) until(end time.Time) {
	c.t.Helper()
	for still := 0; c.clock.Now().Before(end); {
		busy, working := c.look()
		if working {
			c.clock.Advance(step)
			continue
		}
		if busy {
			still = 0
		}
		next, err := c.store.NextWake(c.t.Context(), time.Time{}, executor.Lead)
		require.NoError(c.t, err)
		if next.IsZero() || next.After(end) {
			c.clock.Set(end)
			return
		}
		if next.After(c.clock.Now()) {
			c.clock.Set(next)
			still = 0
			continue
		}
		// Something is due at once: what a pass did may let more happen.
		c.clock.Advance(step)
		still++
		require.Less(c.t, still, 200, "the scheduler does not get on at %s", next)
	}
}

// runs lists the runs of a DAG in the order of their logical dates,
// those without one first. Those that were made ahead and are not due are left
// out: they are plans.
func (c *clockwork) runs(dagID string) []dag.Run {
	c.t.Helper()
	runs, err := c.store.Runs(c.t.Context(), dag.RunFilter{DagID: dagID, Limit: -1})
	require.NoError(c.t, err)
	runs = slices.DeleteFunc(runs, func(r dag.Run) bool {
		return r.State == dag.RunQueued && r.StartDate == nil && r.QueuedAt.Before(r.RunAfter)
	})
	slices.SortFunc(runs, func(a, b dag.Run) int {
		return cmpDates(a.LogicalDate, b.LogicalDate)
	})
	return runs
}

func cmpDates(a, b *time.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	default:
		return a.Compare(*b)
	}
}

// planned are the plans that runs were made from.
func planned(runs []dag.Run) []dag.PlannedRun {
	var out []dag.PlannedRun
	for _, r := range runs {
		out = append(out, dag.PlannedRun{
			LogicalDate: *r.LogicalDate, DataIntervalStart: *r.DataIntervalStart, DataIntervalEnd: *r.DataIntervalEnd, RunAfter: r.RunAfter,
		})
	}
	return out
}

func sqliteFile(t *testing.T) string {
	t.Helper()
	// A simulation is about what is decided, not about the disk: where memory can
	// hold files, its thousands of commits wait for no disk.
	const memory = "/dev/shm"
	if dir, err := os.MkdirTemp(memory, "airlock-clockwork-"); err == nil { //nolint:usetesting // that one is on a disk
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		return "sqlite:///" + filepath.Join(dir, "airlock.db")
	}
	return "sqlite:///" + filepath.Join(t.TempDir(), "airlock.db")
}
