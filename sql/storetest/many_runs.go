package storetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// testRunsOfManyDAGs: what many DAGs are due for is made in one go, whatever
// stands in the way of one of them.
func testRunsOfManyDAGs(t *testing.T, b *bundle) {
	const n = 5
	first, second, third := minutely(1), minutely(2), minutely(3)
	dags, versions := make([]*dag.DAG, n), make([]int64, n)
	for i := range dags {
		dags[i] = oneDAG(fmt.Sprint("d", i), "a", "b<a")
		ids, err := b.s.SyncDAGs(t.Context(), []dag.DAGUpdate{{DAG: dags[i], Next: first}})
		require.NoError(t, err)
		versions[i] = ids[0]
	}
	ask := func(plan, next *dag.PlannedRun) []dag.NewRun {
		var runs []dag.NewRun
		for i, d := range dags {
			runs = append(runs, b.scheduled(d, versions[i], *plan, next))
		}
		return runs
	}
	made, err := b.s.CreateRuns(t.Context(), ask(first, second))
	require.NoError(t, err)
	for i, m := range made {
		require.False(t, m.Overtaken || m.Existed)
		require.Equal(t, dags[i].ID, m.Run.DagID)
		require.Equal(t, m.Run.ID, b.run(m.Run).ID)
		require.Equal(t, dag.StateNone, b.instance(m.Run, "b").State)
	}
	require.Equal(t, n, b.count("SELECT COUNT(*) FROM dag WHERE next_run_after = '"+second.RunAfter.Format("2006-01-02 15:04:05.000000")+"'"))
	latest, err := b.s.LatestScheduledRuns(t.Context(), []string{"d1", "d3", "none"})
	require.NoError(t, err)
	require.Len(t, latest, 2)
	require.Equal(t, made[3].Run.ID, latest["d3"].ID)

	// The same once more: all plans have moved on, and nothing is made.
	again, err := b.s.CreateRuns(t.Context(), ask(first, second))
	require.NoError(t, err)
	for _, m := range again {
		require.True(t, m.Overtaken)
	}
	require.Equal(t, n, b.count("SELECT COUNT(*) FROM dag_run"))

	// One of them has the run already, of another one the plan has changed: the
	// others go on.
	byHand := b.newRun(dags[0], versions[0], "by-hand")
	byHand.Run.LogicalDate = &second.LogicalDate
	_, err = b.s.CreateRuns(t.Context(), []dag.NewRun{byHand})
	require.NoError(t, err)
	runs := ask(second, third)
	runs[1].PlannedFor = third.RunAfter
	made, err = b.s.CreateRuns(t.Context(), runs)
	require.NoError(t, err)
	require.True(t, made[0].Existed)
	require.Equal(t, "by-hand", made[0].Run.RunID)
	require.True(t, made[1].Overtaken)
	for _, m := range made[2:] {
		require.False(t, m.Overtaken || m.Existed)
	}
	require.Equal(t, n+1+n-2, b.count("SELECT COUNT(*) FROM dag_run"))
	require.Equal(t, 2*(n+1+n-2), b.count("SELECT COUNT(*) FROM task_instance"))
	require.Equal(t, n-1, b.count("SELECT COUNT(*) FROM dag WHERE next_run_after = '"+third.RunAfter.Format("2006-01-02 15:04:05.000000")+"'"))
	b.sound()
}
