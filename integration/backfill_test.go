package integration

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

// backfill makes one of a DAG of the folder.
func (c *clockwork) backfill(b dag.Backfill) (dag.Backfill, []dag.BackfillRun, error) {
	c.t.Helper()
	rows, err := c.store.DAGRows(c.t.Context(), dag.DAGFilter{IDs: []string{b.DagID}})
	require.NoError(c.t, err)
	d, err := c.store.Version(c.t.Context(), rows[0].VersionID)
	require.NoError(c.t, err)
	runs, err := executor.PlanBackfill(d, rows[0].VersionID, b, c.clock.Now())
	require.NoError(c.t, err)
	return c.store.CreateBackfill(c.t.Context(), b, runs, false)
}

// begun are the days of a DAG's runs in the order in which they started.
func begun(runs []dag.Run) []int {
	runs = slices.DeleteFunc(slices.Clone(runs), func(r dag.Run) bool { return r.StartDate == nil })
	slices.SortStableFunc(runs, func(a, b dag.Run) int { return a.StartDate.Compare(*b.StartDate) })
	var days []int
	for _, r := range runs {
		days = append(days, r.LogicalDate.Day())
	}
	return days
}

func daysBetween(a, b int) []int {
	var out []int
	for ; a <= b; a++ {
		out = append(out, a)
	}
	return out
}

func TestBackfill(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		now := date(2026, 6, 28, 12, 0)
		c := newClockwork(t, dsn, now, oneFile("bash", `"0 0 * * *"`, "  start_date: 2026-06-28\n  catchup: false\n  max_active_runs: 1\n"))
		most := 0
		c.work = c.worker(&most)

		c.until(now.Add(time.Second))
		require.Equal(t, []int{28}, begun(c.runs("d")))
		ask := dag.Backfill{
			DagID: "d", From: date(2026, 6, 1, 0, 0), To: date(2026, 6, 25, 0, 0), MaxActiveRuns: 3,
			Reprocess: dag.ReprocessNone, Actor: "test",
		}
		made, dates, err := c.backfill(ask)
		require.NoError(t, err)
		require.Len(t, dates, 25)
		require.Equal(t, 25, made.RunStates[dag.RunQueued])
		_, _, err = c.backfill(ask)
		require.Equal(t, dag.ErrConflict, dag.CodeOf(err), "one at a time")

		// The DAG's own limit of one counts none of them: a run by hand starts though
		// 22 older ones wait.
		c.look()
		running := func() (n int) {
			for _, r := range c.runs("d") {
				if r.State == dag.RunRunning {
					n++
				}
			}
			return n
		}
		require.Equal(t, 3, running())
		c.trigger("by_hand")
		c.clock.Advance(step)
		c.look()
		require.Equal(t, 4, running())
		c.until(now.Add(5 * time.Minute))
		require.Equal(t, 4, most, "three of the backfill and one beside it")
		var backfilled []dag.Run
		for _, r := range c.runs("d") {
			require.Equal(t, dag.RunSuccess, r.State, r.RunID)
			if r.Type == dag.RunBackfill {
				backfilled = append(backfilled, r)
			}
		}
		require.Equal(t, daysBetween(1, 25), begun(backfilled), "in order")
		list, err := c.store.Backfills(t.Context(), "d")
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.True(t, list[0].Complete())
		require.Equal(t, map[dag.RunState]int{dag.RunSuccess: 25}, list[0].RunStates)
		require.Equal(t, ask.From, list[0].From)
		require.Equal(t, 3, list[0].MaxActiveRuns)

		// Again, backwards, all that is there: none leaves them, completed redoes them.
		ask.RunBackwards, ask.MaxActiveRuns = true, 1
		ask.To = date(2026, 6, 28, 0, 0)
		ask.From = date(2026, 6, 22, 0, 0)
		made, dates, err = c.backfill(ask)
		require.NoError(t, err)
		require.Equal(t, 5, made.Skipped, "22 to 25, and 28 which the schedule made")
		require.Equal(t, dag.BackfillExists, dates[0].Action)
		c.until(c.clock.Now().Add(time.Minute))
		ask.Reprocess = dag.ReprocessCompleted
		again := c.clock.Now()
		made, _, err = c.backfill(ask)
		require.NoError(t, err)
		require.Equal(t, 7, made.RunStates[dag.RunQueued])
		c.until(c.clock.Now().Add(time.Minute))
		redone := slices.DeleteFunc(c.runs("d"), func(r dag.Run) bool { return r.LogicalDate == nil || r.StartDate.Before(again) })
		require.Equal(t, []int{28, 27, 26, 25, 24, 23, 22}, begun(redone))
		for _, r := range redone {
			require.Equal(t, dag.RunBackfill, r.Type)
			require.Equal(t, dag.RunSuccess, r.State)
		}
		problems, err := c.store.Check(t.Context())
		require.NoError(t, err)
		require.Empty(t, problems)

		// The schedule goes on, though its last run is a backfill's now.
		c.until(date(2026, 6, 29, 0, 1))
		last := c.runs("d")[len(c.runs("d"))-1]
		require.Equal(t, date(2026, 6, 29, 0, 0), *last.LogicalDate)
		require.Equal(t, dag.RunScheduled, last.Type)
	})
}

// trigger makes a run by hand, without a logical date.
func (c *clockwork) trigger(runID string) {
	c.t.Helper()
	rows, err := c.store.DAGRows(c.t.Context(), dag.DAGFilter{})
	require.NoError(c.t, err)
	nr, err := executor.ManualRun(c.t.Context(), c.store, rows[0], executor.ManualRunRequest{RunID: runID, Now: c.clock.Now()})
	require.NoError(c.t, err)
	_, err = c.store.CreateRuns(c.t.Context(), []dag.NewRun{nr})
	require.NoError(c.t, err)
}

// The first run of a backfill looks at nothing before it; the others wait for
// the one before, in the order of their dates.
func TestBackfillThatDependsOnThePast(t *testing.T) {
	t.Parallel()
	now := date(2026, 6, 28, 12, 0)
	f := files{"d.yml": `d:
  schedule: "0 0 * * *"
  start_date: 2026-06-28
  is_paused_upon_creation: false
  tasks:
    a: {operator: bash, bash_command: "true", depends_on_past: true}
`}
	c := newClockwork(t, sqliteFile(t), now, f)
	// A run before the range that never ended well would hold the first.
	failing := true
	c.work = c.workerThat(func(dag.Claim) dag.State {
		if failing {
			return dag.StateFailed
		}
		return dag.StateSuccess
	})
	_, _, err := c.backfill(dag.Backfill{DagID: "d", From: date(2026, 6, 3, 0, 0), To: date(2026, 6, 3, 0, 0), MaxActiveRuns: 5, Reprocess: dag.ReprocessNone})
	require.NoError(t, err)
	c.until(now.Add(time.Minute))
	require.Equal(t, dag.RunFailed, c.runs("d")[0].State)
	failing = false
	_, _, err = c.backfill(dag.Backfill{DagID: "d", From: date(2026, 6, 4, 0, 0), To: date(2026, 6, 8, 0, 0), MaxActiveRuns: 5, Reprocess: dag.ReprocessNone})
	require.NoError(t, err)
	c.until(c.clock.Now().Add(time.Minute))
	var ends []time.Time
	for _, r := range c.runs("d")[1:6] {
		require.Equal(t, dag.RunSuccess, r.State, r.RunID)
		ends = append(ends, *r.EndDate)
	}
	require.True(t, slices.IsSortedFunc(ends, time.Time.Compare))
}
