package cli_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
	"github.com/airlock-dag/airlock/dag/timetable"
	"github.com/airlock-dag/airlock/sql/store"
)

// TestARunMadeAhead: what a person sees of a run of the schedule shortly before
// its time, and of one that was taken back.
func TestARunMadeAhead(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/hello.yml": hello})
	two := time.Date(2026, 1, 1, 2, 0, 0, 0, time.UTC) // the first tick
	h.clock = dagtest.NewClock(two.Add(-time.Second))
	h.ok("dags", "unpause", "hello")
	st, err := store.Open(t.Context(), "sqlite:///"+filepath.Join(h.path("home"), "airlock.db"), store.Options{Clock: h.clock})
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })
	rows, err := st.DAGRows(t.Context(), dag.DAGFilter{IDs: []string{"hello"}})
	require.NoError(t, err)
	plan, after := rows[0].Next, two.AddDate(0, 0, 1)
	require.Equal(t, two, plan.RunAfter)
	d, err := st.Version(t.Context(), rows[0].VersionID)
	require.NoError(t, err)
	made, err := st.CreateRuns(t.Context(), []dag.NewRun{{
		Run: dag.Run{
			DagID: "hello", RunID: timetable.RunID(dag.RunScheduled, *plan), Type: dag.RunScheduled, LogicalDate: &plan.LogicalDate,
			DataIntervalStart: &plan.DataIntervalStart, DataIntervalEnd: &plan.DataIntervalEnd, RunAfter: plan.RunAfter, VersionID: rows[0].VersionID,
		},
		Instances: dag.NewInstances(d), AdvanceNext: true, PlannedFor: plan.RunAfter,
		Next: &dag.PlannedRun{LogicalDate: after, DataIntervalStart: after, DataIntervalEnd: after, RunAfter: after},
	}})
	require.NoError(t, err)
	require.False(t, made[0].Overtaken)

	runs := h.list("dags", "list-runs", "hello")
	require.Equal(t, []any{"queued"}, column(runs, "state"))
	require.Nil(t, runs[0]["start_date"])
	require.Equal(t, []any{"2026-01-01T02:00:00Z", "2026-01-02T02:00:00Z"}, column(h.list("dags", "next-execution", "hello", "-n", "2"), "logical_date"))
	require.NotContains(t, h.ok("tasks", "states-for-dag-run", "hello", made[0].Run.RunID).stdout, "queued", "its tasks are not")

	h.ok("dags", "pause", "hello")
	require.Empty(t, h.list("dags", "list-runs", "hello"))
	require.Equal(t, []any{"2026-01-01T02:00:00Z"}, column(h.list("dags", "next-execution", "hello"), "logical_date"))
	require.Contains(t, fmt.Sprint(h.list("dags", "list")[0]["next_run"]), "run_after:2026-01-01T02:00:00Z")
	h.ok("db", "check")
}
