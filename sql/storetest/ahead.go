package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// early is how long before its time a test makes a run.
const early = 1500 * time.Millisecond

// planFor is the plan for the i-th minute, with an interval of its own.
func planFor(i int) *dag.PlannedRun {
	p := minutely(i)
	p.DataIntervalStart = p.RunAfter.Add(-time.Minute)
	return p
}

// ahead stores DAGs whose run is due in a minute, and makes it shortly before.
func (b *bundle) ahead(dags ...*dag.DAG) []dag.Run {
	b.t.Helper()
	b.clock.Set(planFor(1).RunAfter.Add(-early))
	var runs []dag.NewRun
	for _, d := range dags {
		ids, err := b.s.SyncDAGs(b.t.Context(), []dag.DAGUpdate{{DAG: d, Next: planFor(1)}})
		require.NoError(b.t, err)
		n := b.scheduled(d, ids[0], *planFor(1), planFor(2))
		n.Run.DataIntervalStart, n.Run.DataIntervalEnd = &planFor(1).DataIntervalStart, &planFor(1).DataIntervalEnd
		runs = append(runs, n)
	}
	made, err := b.s.CreateRuns(b.t.Context(), runs)
	require.NoError(b.t, err)
	out := make([]dag.Run, len(made))
	for i, m := range made {
		require.False(b.t, m.Existed || m.Overtaken)
		out[i] = m.Run
	}
	return out
}

// next is the plan that is stored of a DAG.
func (b *bundle) next(dagID string) *dag.PlannedRun {
	b.t.Helper()
	rows, err := b.s.DAGRows(b.t.Context(), dag.DAGFilter{IDs: []string{dagID}})
	require.NoError(b.t, err)
	require.Len(b.t, rows, 1)
	return rows[0].Next
}

// due are the DAGs whose run may be made by now.
func (b *bundle) due() (ids []string) {
	b.t.Helper()
	rows, err := b.s.DueDAGs(b.t.Context(), b.clock.Now(), 10)
	require.NoError(b.t, err)
	for _, r := range rows {
		ids = append(ids, r.DagID)
	}
	return ids
}

// nothingOf tells that nothing is left of the runs of a DAG.
func (b *bundle) nothingOf(dagID string) {
	b.t.Helper()
	require.Zero(b.t, b.count("SELECT COUNT(*) FROM dag_run WHERE dag_id = ?", dagID))
	require.Zero(b.t, b.count("SELECT COUNT(*) FROM task_instance WHERE dag_id = ?", dagID))
}

func testAheadWaits(t *testing.T, b *bundle) {
	ctx := t.Context()
	run := b.ahead(oneDAG("d", "a", "b<a"))[0]
	at := run.RunAfter
	require.True(t, run.QueuedAt.Before(at))
	wake, err := b.s.NextWake(ctx, b.clock.Now(), early)
	require.NoError(t, err)
	require.Equal(t, at, wake, "at the very instant")
	b.sound()

	b.clock.Set(at.Add(-time.Microsecond))
	require.Empty(t, b.pass().Runs)
	// Somebody lets the scheduler look at all runs of the DAG: still not.
	b.behind("UPDATE dag_run SET next_eval_at = updated_at")
	require.Empty(t, b.pass().Runs)
	require.Empty(t, b.claim(10))
	require.Nil(t, b.run(run).StartDate)
	latest, err := b.s.LatestScheduledRun(ctx, "d")
	require.NoError(t, err)
	require.Nil(t, latest, "it is the next, not the latest")
	planned, err := b.s.LatestScheduledRuns(ctx, []string{"d"})
	require.NoError(t, err)
	require.Equal(t, run.ID, planned["d"].ID, "the schedule goes on behind it")
	want := map[string]dag.PlannedRun{"d": *run.Planned()}
	for _, ids := range [][]string{nil, {"d", "none"}} {
		ahead, err := b.s.RunsAhead(ctx, ids)
		require.NoError(t, err)
		require.Equal(t, want, ahead, "what runs next")
	}
	none, err := b.s.RunsAhead(ctx, []string{"none"})
	require.NoError(t, err)
	require.Empty(t, none)

	b.clock.Set(at)
	report := b.pass()
	require.Len(t, report.Runs, 1)
	require.True(t, report.Runs[0].Started)
	require.Equal(t, 1, report.Queued)
	require.Equal(t, at, *b.run(run).StartDate)
	latest, err = b.s.LatestScheduledRun(ctx, "d")
	require.NoError(t, err)
	require.Equal(t, run.ID, latest.ID)
	none, err = b.s.RunsAhead(ctx, nil)
	require.NoError(t, err)
	require.Empty(t, none, "it has started")
	b.finish(func(dag.Claim) dag.State { return dag.StateSuccess })
	require.Equal(t, dag.RunSuccess, b.run(run).State)
	require.Zero(t, b.pass().TakenBack)
	b.sound()
}

func testAheadTakenBack(t *testing.T, b *bundle) {
	ctx := t.Context()
	ids := []string{"paused", "gone", "edited", "moved", "left"}
	var dags []*dag.DAG
	for _, id := range ids {
		dags = append(dags, oneDAG(id, "a", "b<a"))
	}
	runs := b.ahead(dags...)
	_, err := b.s.SetPaused(ctx, "paused", true)
	require.NoError(t, err)
	require.NoError(t, b.s.MarkStale(ctx, []string{"gone"}, "the file is gone"))
	edited, moved := oneDAG("edited", "a", "c<a"), oneDAG("moved", "a", "b<a")
	moved.FileLoc = "elsewhere.yml"
	versions, err := b.s.SyncDAGs(ctx, []dag.DAGUpdate{{DAG: edited, Next: planFor(1)}, {DAG: moved, Next: planFor(7)}, {DAG: dags[4], Next: planFor(2)}})
	require.NoError(t, err)
	for _, id := range ids[:4] {
		b.nothingOf(id)
	}
	require.Equal(t, planFor(1), b.next("paused"))
	require.Equal(t, planFor(1), b.next("gone"))
	require.Equal(t, planFor(1), b.next("edited"))
	require.Equal(t, planFor(7), b.next("moved"), "another schedule counts at once")
	require.Equal(t, planFor(2), b.next("left"), "what did not change is let be")
	b.sound()

	// Who asked before that, and comes after it, makes nothing of a DAG that is off.
	late := []dag.NewRun{b.scheduled(dags[0], runs[0].VersionID, *planFor(1), planFor(2)), b.scheduled(dags[1], runs[1].VersionID, *planFor(1), planFor(2))}
	for _, list := range [][]dag.NewRun{late, late[:1], late[1:]} {
		made, err := b.s.CreateRuns(ctx, list)
		require.NoError(t, err)
		for _, m := range made {
			require.True(t, m.Overtaken)
		}
	}

	// The time comes: only what is left starts.
	b.clock.Set(planFor(1).RunAfter)
	report := b.pass()
	require.Len(t, report.Runs, 1)
	require.Equal(t, "left", report.Runs[0].Run.DagID)
	require.Equal(t, []string{"edited"}, b.due())
	_, err = b.s.CreateRuns(ctx, []dag.NewRun{b.scheduled(edited, versions[0], *planFor(1), planFor(2))})
	require.NoError(t, err)
	require.Equal(t, 1, b.count("SELECT COUNT(*) FROM task_instance WHERE dag_id = 'edited' AND task_id = 'c'"))

	// A DAG that is paused after that keeps what has started, and gets its plan back.
	_, err = b.s.SetPaused(ctx, "left", true)
	require.NoError(t, err)
	require.Equal(t, dag.RunRunning, b.run(runs[4]).State)
	_, err = b.s.SetPaused(ctx, "paused", false)
	require.NoError(t, err)
	require.Equal(t, []string{"paused"}, b.due())
	b.sound()
}

// testAheadKeepsHistory: a clock that was set back makes runs that have begun
// look as if they had been made ahead.
func testAheadKeepsHistory(t *testing.T, b *bundle) {
	ctx := t.Context()
	d := oneDAG("d", "a")
	run := b.ahead(d)[0]
	b.clock.Set(run.RunAfter)
	b.finish(func(dag.Claim) dag.State { return dag.StateSuccess })
	ended := b.run(run)
	require.Equal(t, dag.RunSuccess, ended.State)
	b.clock.Advance(-time.Hour)
	for _, requeue := range []string{
		"UPDATE dag_run SET state = 'queued', queued_at = ?, start_date = NULL, end_date = NULL, clear_number = 1, is_replay = 0",
		"UPDATE dag_run SET state = 'queued', queued_at = ?, start_date = NULL, end_date = NULL, clear_number = 0, is_replay = 1",
		"UPDATE dag_run SET state = 'queued', queued_at = ?, start_date = NULL, end_date = NULL, clear_number = 0, is_replay = 0",
	} {
		b.raw(requeue, b.clock.Now().Format("2006-01-02 15:04:05.000000"))
		for _, paused := range []bool{true, false} {
			_, err := b.s.SetPaused(ctx, "d", paused)
			require.NoError(t, err)
		}
		require.Equal(t, 1, b.count("SELECT COUNT(*) FROM task_instance WHERE state = 'success'"))
		require.Equal(t, 1, b.count("SELECT COUNT(*) FROM dag_run"))
		require.Equal(t, planFor(2), b.next("d"))
	}
}

// testAheadIsNotTheNewest: a clean keeps the run that the next is planned from,
// should the one that was made ahead be taken back.
func testAheadIsNotTheNewest(t *testing.T, b *bundle) {
	ctx := t.Context()
	d := oneDAG("d", "a")
	first := b.ahead(d)[0]
	b.clock.Set(first.RunAfter)
	b.finish(func(dag.Claim) dag.State { return dag.StateSuccess })
	b.clock.Set(planFor(2).RunAfter.Add(-early))
	made, err := b.s.CreateRuns(ctx, []dag.NewRun{b.scheduled(d, first.VersionID, *planFor(2), planFor(3))})
	require.NoError(t, err)
	deleted, _ := b.clean(dag.CleanRuns, b.clock.Now(), 10, false)
	require.Zero(t, deleted)
	_, err = b.s.SetPaused(ctx, "d", true)
	require.NoError(t, err)
	latest, err := b.s.LatestScheduledRun(ctx, "d")
	require.NoError(t, err)
	require.Equal(t, first.ID, latest.ID)
	_, err = b.s.SetPaused(ctx, "d", false)
	require.NoError(t, err)
	_, err = b.s.CreateRuns(ctx, []dag.NewRun{b.scheduled(d, first.VersionID, *planFor(2), planFor(3))})
	require.NoError(t, err)
	b.clock.Set(made[0].Run.RunAfter)
	b.finish(func(dag.Claim) dag.State { return dag.StateSuccess })
	deleted, _ = b.clean(dag.CleanRuns, b.clock.Now(), 10, false)
	require.Equal(t, 1, deleted, "once the next has run")
	b.sound()
}

func testAheadWithoutRoom(t *testing.T, b *bundle) {
	ctx := t.Context()
	d := oneDAG("d", "a")
	d.MaxActiveRuns = 1
	b.ahead(d)
	byHand, err := b.s.CreateRuns(ctx, []dag.NewRun{b.newRun(d, b.runVersion("d"), "by-hand")})
	require.NoError(t, err)
	require.Len(t, b.pass().Runs, 1, "there is room for it: the other is not due")
	b.clock.Set(planFor(1).RunAfter)
	report := b.pass()
	require.Equal(t, 1, report.TakenBack)
	require.Empty(t, report.Runs)
	require.Equal(t, planFor(1), b.next("d"))
	require.Equal(t, 1, b.count("SELECT COUNT(*) FROM dag_run"))
	require.Equal(t, 1, b.count("SELECT COUNT(*) FROM task_instance"))
	require.Empty(t, b.due(), "at its limit no run is made")
	require.Zero(t, b.pass().TakenBack)
	b.finish(func(dag.Claim) dag.State { return dag.StateSuccess })
	require.Equal(t, dag.RunSuccess, b.run(byHand[0].Run).State)
	require.Equal(t, []string{"d"}, b.due())
	b.sound()
}

// runVersion is the version that a DAG has now.
func (b *bundle) runVersion(dagID string) int64 {
	b.t.Helper()
	rows, err := b.s.DAGRows(b.t.Context(), dag.DAGFilter{IDs: []string{dagID}})
	require.NoError(b.t, err)
	return rows[0].VersionID
}

// testAheadLongOver: everybody died just after the run was made.
func testAheadLongOver(t *testing.T, b *bundle) {
	ctx := t.Context()
	var dags []*dag.DAG
	for i, catchup := range []bool{true, false, false, false} {
		d := oneDAG(fmt.Sprint("d", i), "a")
		d.Catchup = catchup
		dags = append(dags, d)
	}
	runs := b.ahead(dags...)
	// d2 has no later tick. Of d3 a later run was made already.
	replan := func(id string, plan *dag.PlannedRun) {
		rows, err := b.s.DAGRows(ctx, dag.DAGFilter{IDs: []string{id}})
		require.NoError(t, err)
		require.NoError(t, b.s.ReplacePlan(ctx, rows[0], plan))
	}
	replan("d2", nil)
	b.clock.Set(planFor(10).RunAfter.Add(time.Second))
	replan("d3", planFor(10))
	_, err := b.s.CreateRuns(ctx, []dag.NewRun{b.scheduled(dags[3], runs[3].VersionID, *planFor(10), planFor(11))})
	require.NoError(t, err)

	report := b.pass()
	require.Equal(t, 2, report.TakenBack)
	var started []string
	for _, r := range report.Runs {
		require.True(t, r.Started)
		started = append(started, r.Run.DagID+" "+r.Run.RunAfter.Format("15:04"))
	}
	require.ElementsMatch(t, []string{"d0 12:01", "d2 12:01", "d3 12:10"}, started, "each tick, the only one, the latest")
	require.Equal(t, planFor(1), b.next("d1"), "its scheduler finds the latest tick")
	require.ElementsMatch(t, []string{"d0", "d1", "d3"}, b.due())
	b.sound()
}

func testAheadGivesWay(t *testing.T, b *bundle) {
	ctx := t.Context()
	dags := []*dag.DAG{oneDAG("date", "a"), oneDAG("id", "a"), oneDAG("test", "a"), oneDAG("late", "a")}
	runs := b.ahead(dags...)
	hand := func(i int, id string) dag.NewRun {
		n := b.newRun(dags[i], runs[i].VersionID, id)
		n.Run.LogicalDate = &planFor(1).LogicalDate
		return n
	}
	made, err := b.s.CreateRuns(ctx, []dag.NewRun{hand(0, "by-hand"), hand(1, runs[1].RunID)})
	require.NoError(t, err)
	tested, err := b.s.CreateTestRun(ctx, hand(2, "test"), "ann")
	require.NoError(t, err)
	b.clock.Set(planFor(1).RunAfter)
	tooLate, err := b.s.CreateRuns(ctx, []dag.NewRun{hand(3, "by-hand")})
	require.NoError(t, err)
	require.True(t, tooLate[0].Existed, "the schedule's own is due")
	for i, m := range append(made, tested) {
		require.False(t, m.Existed)
		require.Equal(t, dag.RunManual, b.run(m.Run).Type)
		require.Equal(t, planFor(1), b.next(dags[i].ID))
		require.Equal(t, 1, b.count("SELECT COUNT(*) FROM dag_run WHERE dag_id = ?", dags[i].ID))
		// The tick counts as made.
		again, err := b.s.CreateRuns(ctx, []dag.NewRun{b.scheduled(dags[i], runs[i].VersionID, *planFor(1), planFor(2))})
		require.NoError(t, err)
		require.True(t, again[0].Existed)
		require.Equal(t, planFor(2), b.next(dags[i].ID))
	}
	b.sound()
}

func testEndLetsNextBeMade(t *testing.T, b *bundle) {
	ctx := t.Context()
	for i, c := range []struct {
		next *dag.PlannedRun
		left bool
	}{{planFor(0), true}, {planFor(60), false}, {nil, false}} {
		d := oneDAG(fmt.Sprint("d", i), "a")
		ids, err := b.s.SyncDAGs(ctx, []dag.DAGUpdate{{DAG: d, Next: c.next}})
		require.NoError(t, err)
		for _, id := range []string{"beside", "alone"} {
			_, err = b.s.CreateRuns(ctx, []dag.NewRun{b.newRun(d, ids[0], id)})
			require.NoError(t, err)
			b.pass()
			claims := b.claim(10)
			require.Len(t, claims, 1)
			if id == "beside" {
				_, _, report := b.trade(0, b.result(claims[0], dag.StateSuccess))
				require.Equal(t, c.left, report.Left, "d%d", i)
				continue
			}
			b.apply(b.result(claims[0], dag.StateSuccess))
			require.Equal(t, c.left, b.pass().Left, "d%d", i)
		}
	}
	b.sound()
}
