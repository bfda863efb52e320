package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	h.sameNext("hello", "2026-01-01T02:00:00Z")
	require.NotContains(t, h.ok("tasks", "states-for-dag-run", "hello", made[0].Run.RunID).stdout, "queued", "its tasks are not")

	h.ok("dags", "pause", "hello")
	require.Empty(t, h.list("dags", "list-runs", "hello"))
	require.Equal(t, []any{"2026-01-01T02:00:00Z"}, column(h.list("dags", "next-execution", "hello"), "logical_date"))
	h.sameNext("hello", "2026-01-01T02:00:00Z")
	h.ok("db", "check")
}

// sameNext tells that every command names the same next run of a DAG; "" is none.
func (h *house) sameNext(dagID, want string) {
	h.t.Helper()
	next, listed, shown := []any{want}, "run_after:"+want, "next_run\t"+strings.NewReplacer("T", " ", "Z", "").Replace(want)+"\n"
	if want == "" {
		next, listed, shown = []any{}, "<nil>", "next_run\t-\n"
	}
	require.Equal(h.t, next, column(h.list("dags", "next-execution", dagID), "run_after"))
	rows := h.list("dags", "list")
	i := slices.Index(column(rows, "dag_id"), any(dagID))
	require.GreaterOrEqual(h.t, i, 0)
	require.Contains(h.t, fmt.Sprint(rows[i]["next_run"]), listed)
	require.Contains(h.t, h.ok("dags", "show", dagID, "-o", "plain").stdout, shown)
}

// TestTheNextRunIsTheSameEverywhere: what is listed, shown and foretold is what a
// scheduler would make, also where the stored plan is of another time or version.
func TestTheNextRunIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	const text = `
%s:
  schedule: "%s"
  catchup: false
  default_args: {start_date: 2026-01-01}
  tasks: {a: {operator: empty}}
`
	h := newHouse(t, map[string]string{"dags/d.yml": fmt.Sprintf(text, "d", "0 2 * * *")})
	h.clock = dagtest.NewClock(time.Date(2026, 1, 5, 1, 0, 0, 0, time.UTC))
	h.sameNext("d", "2026-01-04T02:00:00Z") // unseen: without catchup the latest tick is made at once
	h.ok("dags", "unpause", "d")
	st, err := store.Open(t.Context(), "sqlite:///"+filepath.Join(h.path("home"), "airlock.db"), store.Options{Clock: h.clock})
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })
	rows, err := st.DAGRows(t.Context(), dag.DAGFilter{IDs: []string{"d"}})
	require.NoError(t, err)
	five := time.Date(2026, 1, 5, 2, 0, 0, 0, time.UTC)
	require.NoError(t, st.ReplacePlan(t.Context(), rows[0], &dag.PlannedRun{LogicalDate: five, DataIntervalStart: five, DataIntervalEnd: five, RunAfter: five}))
	h.sameNext("d", "2026-01-05T02:00:00Z")

	// Nobody ran for days: of the ticks that were missed only the latest is made.
	h.clock = dagtest.NewClock(time.Date(2026, 1, 9, 1, 0, 0, 0, time.UTC))
	h.sameNext("d", "2026-01-08T02:00:00Z")

	// The file is newer than what a scheduler has seen.
	h.write("dags/d.yml", fmt.Sprintf(text, "d", "30 0 * * *"))
	h.sameNext("d", "2026-01-09T00:30:00Z")

	require.NoError(t, os.Remove(h.path("dags/d.yml")))
	h.write("dags/new.yml", fmt.Sprintf(text, "new", "0 3 * * *"))
	h.ok("dags", "trigger", "new") // brings the database in step with the folder
	h.sameNext("d", "")
	require.Contains(t, h.run("dags", "next-execution", "d").stderr, "d starts no new runs")
}
