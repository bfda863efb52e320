package dag_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/airlock-dag/airlock/dag"
)

func TestEffectivePriority(t *testing.T) {
	t.Parallel()
	weigh := func(own int, by string) func(*dag.Task) {
		return func(t *dag.Task) { t.PriorityWeight, t.WeightRule = own, by }
	}
	// a -> b -> d, a -> c -> d: d counts once for a.
	diamond := func(by string) *dag.DAG {
		return dagOf(task("a", weigh(1, by)), task("b", weigh(10, by), after("a")),
			task("c", weigh(100, by), after("a")), task("d", weigh(1000, by), after("b", "c")))
	}
	require.Equal(t, map[string]int{"a": 1111, "b": 1010, "c": 1100, "d": 1000}, dag.EffectivePriority(diamond("downstream")))
	require.Equal(t, map[string]int{"a": 1111, "b": 1010, "c": 1100, "d": 1000}, dag.EffectivePriority(diamond("")))
	require.Equal(t, map[string]int{"a": 1, "b": 11, "c": 101, "d": 1111}, dag.EffectivePriority(diamond("upstream")))
	require.Equal(t, map[string]int{"a": 1, "b": 10, "c": 100, "d": 1000}, dag.EffectivePriority(diamond("absolute")))

	mixed := dagOf(task("a", weigh(1, "absolute")), task("b", weigh(10, "upstream"), after("a")), task("c", weigh(100, "downstream"), after("b")))
	require.Equal(t, map[string]int{"a": 1, "b": 11, "c": 100}, dag.EffectivePriority(mixed))

	huge := dagOf(task("a", weigh(math.MaxInt32, "")), task("b", weigh(5, ""), after("a")), task("c", weigh(math.MinInt32, "upstream")),
		task("e", weigh(-5, "upstream"), after("c")))
	require.Equal(t, map[string]int{"a": math.MaxInt32, "b": 5, "c": math.MinInt32, "e": math.MinInt32}, dag.EffectivePriority(huge))
	require.Empty(t, dag.EffectivePriority(dagOf()))
	cycle := dagOf(task("a", weigh(1, ""), after("b")), task("b", weigh(10, ""), after("a")))
	require.Equal(t, map[string]int{"a": 11, "b": 11}, dag.EffectivePriority(cycle), "no task counts itself")
}

// TestEffectivePriorityAgainstSets compares with plain sets, over DAGs that are
// larger than one block of bits.
func TestEffectivePriorityAgainstSets(t *testing.T) {
	t.Parallel()
	const n = 4500
	tasks := make([]dag.Task, n)
	for i := range tasks {
		tasks[i] = task(fmt.Sprintf("t%04d", i), func(t *dag.Task) { t.PriorityWeight = i % 7 })
		for _, back := range []int{3, 500, 4200} {
			if i >= back {
				tasks[i].Upstream = append(tasks[i].Upstream, fmt.Sprintf("t%04d", i-back))
			}
		}
	}
	d := dagOf(tasks...)
	got := dag.EffectivePriority(d)
	for _, i := range []int{0, 1, 299, 300, 4000, 4494, n - 1} {
		want := i % 7
		for _, id := range dag.DescendantIDs(d, tasks[i].ID) {
			want += d.Task(id).PriorityWeight
		}
		require.Equal(t, want, got[tasks[i].ID], i)
	}
}

func TestEffectivePriorityProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		d := drawDAG(r)
		got := dag.EffectivePriority(d)
		for i := range d.Tasks {
			tk := &d.Tasks[i]
			want := tk.PriorityWeight
			var more []string
			switch tk.WeightRule {
			case "downstream":
				more = dag.DescendantIDs(d, tk.ID)
			case "upstream":
				more = dag.AncestorIDs(d, tk.ID)
			}
			for _, id := range more {
				want += d.Task(id).PriorityWeight
			}
			if got[tk.ID] != want {
				r.Fatalf("%s: got %d, want %d", tk.ID, got[tk.ID], want)
			}
		}
	})
}

func TestNewInstances(t *testing.T) {
	t.Parallel()
	d := dagOf(
		task("a", func(t *dag.Task) { t.Retry.Retries, t.Queue, t.Pool, t.PoolSlots = 3, "gpu", "p", 2 }),
		dag.Task{ID: "b", Operator: "empty", Upstream: []string{"a"}, PriorityWeight: 4, Retry: dag.RetryPolicy{Retries: -1}},
	)
	require.Equal(t, []dag.NewInstance{
		{TaskID: "a", Operator: "bash", Queue: "gpu", Pool: "p", PoolSlots: 2, PriorityWeight: 5, MaxTries: 3},
		{TaskID: "b", Operator: "empty", Queue: "default", Pool: "default_pool", PoolSlots: 1, PriorityWeight: 4},
	}, dag.NewInstances(d))
}
