package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// many and few are what a large and a small DAG have ready, workers how many
// slots there are for them.
const (
	many    = 10_000
	few     = 3
	workers = 8
)

// triggerMapped makes a run of a DAG with one task that is expanded n times.
func (b *bundle) triggerMapped(id string, n int) {
	b.t.Helper()
	d := oneDAG(id, "m")
	d.MaxActiveTasks = 2 * n
	d.Tasks[0].Expand = &dag.Expand{Names: []string{"x"}, Args: map[string]dag.ExpandSource{"x": {Literal: []any{"1"}}}}
	run := b.trigger(d, "r")
	b.pass()
	payloads := make([]json.RawMessage, n)
	for i := range payloads {
		payloads[i] = raw(fmt.Sprintf(`{"x":%d}`, i))
	}
	did, err := b.s.ExpandTask(b.t.Context(), run.ID, "m", payloads)
	require.NoError(b.t, err)
	require.True(b.t, did)
}

// dags are the DAGs of claims, in their order by turn.
func dags(claims []dag.Claim) string {
	var out strings.Builder
	for _, c := range claims {
		out.WriteString(c.DagID)
	}
	return out.String()
}

func (b *bundle) succeed(claims []dag.Claim) {
	b.t.Helper()
	var results []dag.Result
	for _, c := range claims {
		results = append(results, b.result(c, dag.StateSuccess))
	}
	b.apply(results...)
}

// testFairClaims: the pool has room for everything, and the workers have not.
func testFairClaims(t *testing.T, b *bundle) {
	require.NoError(t, b.s.SetPool(t.Context(), dag.Pool{Name: dag.DefaultPool, Slots: -1}))
	b.triggerMapped("L", many)
	require.Equal(t, many, b.pass().Queued)
	first := b.claim(workers)
	require.Equal(t, "LLLLLLLL", dags(first), "nothing else is there yet")

	other := b.open() // another scheduler sees what comes now
	b.trigger(oneDAG("s", "a", "b", "c"), "r")
	report, err := other.Schedule(t.Context(), dag.SchedulePass{Limit: 100}, b.decide)
	require.NoError(t, err)
	require.Equal(t, few, report.Queued)
	b.succeed(first)
	// Turns 0 to 7 of the large one are claimed. The small one's are from there
	// on, beside those of the large one.
	require.Equal(t, "LsLsLsLL", dags(b.claim(workers)), "all of the small one in the second claim")
	b.sound()
}

// testFairTogether: both become ready in the same pass.
func testFairTogether(t *testing.T, b *bundle) {
	require.NoError(t, b.s.SetPool(t.Context(), dag.Pool{Name: dag.DefaultPool, Slots: 128}))
	b.triggerMapped("L", many)
	b.trigger(oneDAG("s", "a", "b", "c"), "r")
	require.Equal(t, 128, b.pass().Queued)
	require.Equal(t, few, b.count("SELECT COUNT(*) FROM task_instance WHERE dag_id = 's' AND state = 'queued'"))
	require.Equal(t, "LsLsLsLL", dags(b.claim(workers)))
	b.sound()
}

// testFairSlots: the pool is what is scarce, and what waits for it is more than
// a pass looks at.
func testFairSlots(t *testing.T, b *bundle) {
	require.NoError(t, b.s.SetPool(t.Context(), dag.Pool{Name: dag.DefaultPool, Slots: workers}))
	b.triggerMapped("L", many)
	require.Equal(t, workers, b.pass().Queued)
	first := b.claim(workers)
	require.Equal(t, "LLLLLLLL", dags(first))
	b.trigger(oneDAG("s", "a", "b", "c"), "r")
	require.Zero(t, b.pass().Queued, "all slots are in use")
	b.succeed(first)
	require.Equal(t, workers, b.pass().Queued)
	require.Equal(t, few, strings.Count(dags(b.claim(workers)), "s"), "with the first slots that come free")
	b.sound()
}

// testFairForBoth: neither of two DAGs that always have something ready waits
// for the other, however they come by it: one has all of it waiting, the other
// adds one whenever one has ended.
func testFairForBoth(t *testing.T, b *bundle) {
	require.NoError(t, b.s.SetPool(t.Context(), dag.Pool{Name: dag.DefaultPool, Slots: -1}))
	b.triggerMapped("L", 100)
	b.pass()
	for i := range 10 { // so that the small one meets the other in the middle of its work
		require.Equal(t, "L", dags(b.claim(1)), i)
	}
	d := oneDAG("s", "a")
	v := b.sync(d)
	add := func(n int) {
		_, err := b.s.CreateRuns(t.Context(), []dag.NewRun{b.newRun(d, v, fmt.Sprint("r", n))})
		require.NoError(t, err)
		b.pass()
	}
	add(0)
	var got strings.Builder
	for i := range 40 {
		c := b.claim(1)
		got.WriteString(dags(c))
		b.clock.Advance(time.Second)
		b.succeed(c)
		if c[0].DagID == "s" {
			add(i + 1)
		}
	}
	n := strings.Count(got.String(), "s")
	require.InDelta(t, 20, n, 1, "one slot, half of the time for each: %s", got.String())
	require.NotContains(t, got.String(), "LLL")
	require.NotContains(t, got.String(), "sss")
}

// testFairBelowPriority: a DAG's share counts between equals only.
func testFairBelowPriority(t *testing.T, b *bundle) {
	require.NoError(t, b.s.SetPool(t.Context(), dag.Pool{Name: dag.DefaultPool, Slots: 4}))
	urgent := oneDAG("u", "a", "b", "c", "d", "e")
	for i := range urgent.Tasks {
		urgent.Tasks[i].PriorityWeight = 2
	}
	b.trigger(oneDAG("p", "a", "b", "c"), "r")
	b.trigger(urgent, "r")
	require.Equal(t, 4, b.pass().Queued)
	claims := b.claim(9)
	require.Equal(t, "uuuu", dags(claims), "the first of its tasks does not let the other DAG come between")
	b.succeed(claims)
	require.Equal(t, 4, b.pass().Queued)
	require.Equal(t, "uppp", dags(b.claim(9)))
	b.sound()
}

// testFairChain: what follows from a result in its transaction, where nothing
// runs meanwhile, goes behind the result's own turn.
func testFairChain(t *testing.T, b *bundle) {
	const n = 20
	require.NoError(t, b.s.SetPool(t.Context(), dag.Pool{Name: dag.DefaultPool, Slots: -1}))
	names := []string{"t0"}
	for i := 1; i < n; i++ {
		names = append(names, fmt.Sprintf("t%d<t%d", i, i-1))
	}
	b.trigger(oneDAG("c", names...), "r")
	b.triggerMapped("L", n)
	b.pass()
	var got strings.Builder
	for claims := b.claim(1); len(claims) > 0; b.clock.Advance(time.Second) {
		got.WriteString(dags(claims))
		_, claims, _ = b.trade(1, b.result(claims[0], dag.StateSuccess))
	}
	require.Equal(t, strings.Repeat("cL", n), got.String(), "in turn")
	b.sound()
}

// testFullTaskHidesNothing: more instances than a pass looks at wait for a task
// that runs alone, and others wait behind them.
func testFullTaskHidesNothing(t *testing.T, b *bundle) {
	for name, limit := range map[string]func(*dag.Task){
		"p": func(task *dag.Task) { task.MaxActiveTisPerDag = 1 },
		"q": func(task *dag.Task) { task.MaxActiveTisPerDagrun = 1 },
	} {
		require.NoError(t, b.s.SetPool(t.Context(), dag.Pool{Name: name, Slots: 4}))
		d := oneDAG(name, "alone", "free")
		d.MaxActiveTasks = many
		for i := range d.Tasks {
			d.Tasks[i].Pool = name
			d.Tasks[i].Expand = &dag.Expand{Names: []string{"x"}, Args: map[string]dag.ExpandSource{"x": {Literal: []any{"1"}}}}
		}
		limit(&d.Tasks[0])
		run := b.trigger(d, "r")
		b.pass()
		payloads := make([]json.RawMessage, 2100)
		for i := range payloads {
			payloads[i] = raw(fmt.Sprintf(`{"x":%d}`, i))
		}
		expand := func(task string, n int) {
			did, err := b.s.ExpandTask(t.Context(), run.ID, task, payloads[:n])
			require.NoError(t, err)
			require.True(t, did)
		}
		expand("alone", len(payloads))
		require.Equal(t, 1, b.pass().Queued)
		expand("free", 7)
		require.Equal(t, 3, b.pass().Queued, "those that came just now are looked at first")
		b.succeed(b.claim(4))
		require.Equal(t, 4, b.pass().Queued, "one alone, and three that waited behind all of them")
		b.succeed(b.claim(4))
		require.Equal(t, 2, b.pass().Queued, "one alone, and the last")
		b.succeed(b.claim(2))
		_, err := b.s.SetPaused(t.Context(), name, true)
		require.NoError(t, err)
	}
	b.sound()
}
