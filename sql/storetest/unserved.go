package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// testUnserved: a queue is served while some worker's notice counts that takes from
// it, or from all.
func testUnserved(t *testing.T, b *bundle) {
	ctx := t.Context()
	d := oneDAG("d", "a", "b", "c")
	d.Tasks[2].Queue = "gpu"
	b.trigger(d, "r")
	unserved := func(queuedFor time.Duration) []dag.UnservedQueue {
		list, err := b.s.Unserved(ctx, queuedFor)
		require.NoError(t, err)
		return list
	}
	note := func(id string, queues ...string) {
		require.NoError(t, b.s.NoteWorker(ctx, dag.WorkerNotice{ID: id, Hostname: "h", Queues: queues, Concurrency: 4, Alive: time.Minute}))
	}
	require.Empty(t, unserved(0), "nothing is queued")
	b.pass()
	require.Equal(t, []dag.UnservedQueue{{Queue: dag.DefaultQueue, Tasks: 2}, {Queue: "gpu", Tasks: 1}}, unserved(0))
	stats, err := b.s.Stats(ctx)
	require.NoError(t, err)
	require.Equal(t, unserved(0), stats.Unserved)
	require.Empty(t, unserved(10*time.Second))
	b.clock.Advance(10 * time.Second)
	require.Len(t, unserved(10*time.Second), 2)

	note("cpu", dag.DefaultQueue, "io")
	require.Equal(t, []dag.UnservedQueue{{Queue: "gpu", Tasks: 1, Workers: 1}}, unserved(0))
	note("any")
	require.Empty(t, unserved(0))
	require.NoError(t, b.s.ForgetWorker(ctx, "any"))
	require.Len(t, unserved(0), 1)
	b.clock.Advance(50 * time.Second)
	note("cpu", dag.DefaultQueue, "io")
	b.clock.Advance(59 * time.Second)
	require.Len(t, unserved(0), 1, "it said so again")
	b.clock.Advance(2 * time.Second)
	require.Len(t, unserved(0), 2, "and has not since")
	require.Equal(t, 1, b.count("SELECT COUNT(*) FROM worker"))

	// What never said that it ends is forgotten by and by.
	b.clock.Advance(25 * time.Hour)
	note("new", "gpu")
	require.Equal(t, 1, b.count("SELECT COUNT(*) FROM worker"))
	claims, err := b.s.Claim(ctx, dag.ClaimParams{WorkerID: "new", N: 5, Lease: testLease, Queues: []string{"gpu"}})
	require.NoError(t, err)
	require.Len(t, claims, 1)
	require.Equal(t, []dag.UnservedQueue{{Queue: dag.DefaultQueue, Tasks: 2, Workers: 1}}, unserved(0))
}
