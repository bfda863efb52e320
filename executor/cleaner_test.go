package executor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
)

// cleanable answers a cleaner: three batches of runs, and one open instance.
type cleanable struct {
	asked []dag.CleanBatch
	open  []dag.TaskInstanceKey
	now   time.Time
	done  func()

	failAt dag.CleanKind
	err    error
}

func (c *cleanable) Now(context.Context) (time.Time, error) { return c.now, nil }

func (c *cleanable) Clean(_ context.Context, b dag.CleanBatch) (dag.CleanedBatch, error) {
	c.asked = append(c.asked, b)
	if c.done != nil && b.Kind == dag.CleanEvents {
		c.done()
	}
	if b.Kind == c.failAt {
		return dag.CleanedBatch{}, c.err
	}
	return dag.CleanedBatch{Deleted: 10, After: b.After + 10, More: b.Kind == dag.CleanRuns && b.After < 20}, nil
}

func (c *cleanable) OpenInstances(_ context.Context, each func([]dag.TaskInstanceKey) error) error {
	return each(c.open)
}

func TestCleanerGoesBatchByBatch(t *testing.T) {
	t.Parallel()
	store := &cleanable{}
	before := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	n, err := NewCleaner(CleanerOptions{Store: store}).Clean(t.Context(), dag.CleanRuns, before, true)
	require.NoError(t, err)
	require.Equal(t, 30, n)
	require.Equal(t, []dag.CleanBatch{
		{Kind: dag.CleanRuns, Before: before, DryRun: true},
		{Kind: dag.CleanRuns, Before: before, DryRun: true, After: 10},
		{Kind: dag.CleanRuns, Before: before, DryRun: true, After: 20},
	}, store.asked)
}

func TestCleanerKeepsWhatHasNoLimit(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	store := &cleanable{now: now, done: cancel}
	clock := dagtest.NewClock(now)
	c := NewCleaner(CleanerOptions{Store: store, Clock: clock, Retention: Retention{dag.CleanEvents: 48 * time.Hour}})
	ended := make(chan struct{})
	go func() {
		c.Run(ctx, dag.CleanRuns, dag.CleanEvents)
		close(ended)
	}()
	clock.BlockUntil(1)
	clock.Advance(time.Hour)
	<-ended
	require.Equal(t, []dag.CleanBatch{{Kind: dag.CleanEvents, Before: now.Add(-48 * time.Hour)}}, store.asked)
}

// What an automatic clean did is told, also when it failed half way.
func TestCleanerTellsWhatItDid(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	away := errors.New("the database is away")
	clock := dagtest.NewClock(time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))
	type did struct {
		kind    dag.CleanKind
		deleted int
		err     error
	}
	var told []did
	c := NewCleaner(CleanerOptions{
		Store: &cleanable{failAt: dag.CleanEvents, err: away}, Clock: clock,
		Retention: Retention{dag.CleanRuns: time.Hour, dag.CleanEvents: time.Hour},
		Observe: func(kind dag.CleanKind, deleted int, err error) {
			if told = append(told, did{kind, deleted, err}); len(told) == 2 {
				cancel()
			}
		},
	})
	ended := make(chan struct{})
	go func() {
		c.Run(ctx, dag.CleanRuns, dag.CleanEvents)
		close(ended)
	}()
	clock.BlockUntil(1)
	clock.Advance(time.Hour)
	<-ended
	require.Equal(t, []did{{dag.CleanRuns, 30, nil}, {dag.CleanEvents, 0, away}}, told)
}

func TestCleanerDeletesOldLogs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	key := func(run, task string, index int) dag.TaskInstanceKey {
		return dag.TaskInstanceKey{DagID: "d", RunID: run, TaskID: task, MapIndex: index}
	}
	file := func(rel string, at time.Time) string {
		name := filepath.Join(dir, filepath.FromSlash(rel))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte("x"), 0o600))
		require.NoError(t, os.Chtimes(name, at, at))
		return name
	}
	gone := []string{file(LogPath(key("r1", "a", -1), 1), old), file(LogPath(key("r1", "m", 3), 2), old)}
	kept := []string{
		file(LogPath(key("r1", "sealed", -1), 1), old), // an open letter's
		file(LogPath(key("r2", "a", -1), 1), old.AddDate(0, 2, 0)),
		file("notes/of/somebody/else.log", old),
		file("dag_id=d/README", old),
	}
	c := NewCleaner(CleanerOptions{Store: &cleanable{open: []dag.TaskInstanceKey{key("r1", "sealed", -1)}}, LogsDir: dir})
	for _, dryRun := range []bool{true, false} {
		n, err := c.Clean(t.Context(), dag.CleanLogs, old.AddDate(0, 1, 0), dryRun)
		require.NoError(t, err)
		require.Equal(t, 2, n)
	}
	for _, name := range gone {
		require.NoFileExists(t, name)
		require.NoDirExists(t, filepath.Dir(name))
	}
	for _, name := range kept {
		require.FileExists(t, name)
	}
	n, err := NewCleaner(CleanerOptions{Store: &cleanable{}, LogsDir: filepath.Join(dir, "none")}).Clean(t.Context(), dag.CleanLogs, old, false)
	require.NoError(t, err)
	require.Zero(t, n)
}
