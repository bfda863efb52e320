package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/store"
)

func testLife(t *testing.T, b *bundle) {
	ctx := t.Context()
	run := b.trigger(oneDAG("d", "a", "b<a"), "manual__1")
	require.Equal(t, map[string]dag.State{"a": dag.StateNone, "b": dag.StateNone}, b.states(run))
	report := b.pass()
	require.Equal(t, start, report.Now)
	require.Equal(t, 1, report.Queued)
	require.Equal(t, map[string]dag.State{"a": dag.StateQueued, "b": dag.StateNone}, b.states(run))
	require.Equal(t, dag.RunRunning, b.run(run).State)
	require.Empty(t, b.pass().Runs, "nothing changed, nothing to look at")

	claims := b.claim(10)
	require.Len(t, claims, 1)
	c := claims[0]
	require.Equal(t, run.ID, c.Run.ID)
	require.Equal(t, dag.StateRunning, c.State)
	require.Equal(t, int64(1), c.Fence)
	require.Equal(t, 1, c.TryNumber)
	require.Equal(t, 2, c.MaxTries)
	require.Equal(t, "w1", c.WorkerID)
	require.Equal(t, start, *c.StartDate)
	require.Equal(t, start.Add(testLease), *c.LeaseUntil)
	stored := b.instance(run, "a")
	require.Equal(t, c.TaskInstance, stored, "what the worker holds is what the table holds")
	b.sound()

	b.clock.Advance(time.Second)
	r := b.result(c, dag.StateSuccess)
	r.XComs = map[string]json.RawMessage{"return_value": raw(`{"n":1}`)}
	r.Attempt.Detail = raw(`{"encoder":"x"}`)
	require.Equal(t, []dag.ApplyStatus{dag.Applied}, b.apply(r))
	attempts, err := b.s.Attempts(ctx, c.TaskInstanceKey)
	require.NoError(t, err)
	require.Equal(t, []dag.Attempt{{
		TaskInstanceID: c.ID, TryNumber: 1, Fence: 1, State: dag.StateSuccess, WorkerID: "w1", Hostname: "h1",
		StartDate: start, EndDate: start.Add(time.Second), LogPath: "x/y.log", Detail: raw(`{"encoder":"x"}`),
	}}, attempts)

	b.finish(succeed)
	done := b.run(run)
	require.Equal(t, dag.RunSuccess, done.State)
	require.Equal(t, dag.ReasonSuccess, done.Reason)
	require.Equal(t, map[dag.State]int{dag.StateSuccess: 2}, done.TaskStates)
	require.Equal(t, start.Add(time.Second), *done.EndDate)
	require.Equal(t, start, *done.StartDate)
	b.sound()

	list, err := b.s.Runs(ctx, dag.RunFilter{DagID: "d", States: []dag.RunState{dag.RunSuccess}, Types: []dag.RunType{dag.RunManual}, Since: &start})
	require.NoError(t, err)
	require.Len(t, list, 1)
	list, err = b.s.Runs(ctx, dag.RunFilter{DagID: "d", Until: &start})
	require.NoError(t, err)
	require.Empty(t, list)
	_, err = b.s.Run(ctx, "d", "nope")
	require.Equal(t, dag.ErrNotFound, dag.CodeOf(err))
}

func testDates(t *testing.T, b *bundle) {
	d := oneDAG("d", "a")
	n := b.newRun(d, b.sync(d), "r")
	day := time.Date(2026, 3, 29, 1, 30, 0, 1000, time.UTC)
	n.Run.LogicalDate, n.Run.DataIntervalStart, n.Run.DataIntervalEnd = &day, ptr(day.Add(-time.Hour)), ptr(day.In(time.FixedZone("x", 7200)))
	n.Run.RunAfter = day.Add(999 * time.Microsecond)
	n.Run.Conf, n.Run.Note = raw(`{"b":1,"a":[1.10,"ü"]}`), "note"
	got, err := b.s.CreateRuns(t.Context(), []dag.NewRun{n})
	require.NoError(t, err)
	stored := b.run(got[0].Run)
	require.Equal(t, day, *stored.LogicalDate)
	require.Equal(t, day.Add(-time.Hour), *stored.DataIntervalStart)
	require.Equal(t, day, *stored.DataIntervalEnd)
	require.Equal(t, day.Add(999*time.Microsecond), stored.RunAfter)
	require.Equal(t, start, *stored.QueuedAt)
	require.Nil(t, stored.StartDate)
	require.Equal(t, `{"b":1,"a":[1.10,"ü"]}`, string(stored.Conf))
	require.Equal(t, "note", stored.Note)
	var text string
	require.NoError(t, b.s.DB().Reader().Get(&text, "SELECT CONCAT('', logical_date) FROM dag_run"))
	require.Equal(t, "2026-03-29 01:30:00.000001", text, "a person can read it")
}

func testUniqueRuns(t *testing.T, b *bundle) {
	d := oneDAG("d", "a", "b")
	v := b.sync(d)
	first := b.newRun(d, v, "r1")
	first.Run.LogicalDate = &start
	sameID, sameDate, other := b.newRun(d, v, "r1"), b.newRun(d, v, "r2"), b.newRun(d, v, "R1")
	sameDate.Run.LogicalDate = &start
	got, err := b.s.CreateRuns(t.Context(), []dag.NewRun{first, sameID, sameDate, other})
	require.NoError(t, err)
	require.Equal(t, []bool{false, true, true, false}, []bool{got[0].Existed, got[1].Existed, got[2].Existed, got[3].Existed})
	require.Equal(t, got[0].Run.ID, got[1].Run.ID)
	require.Equal(t, "r1", got[2].Run.RunID)
	require.Equal(t, 2, b.count("SELECT COUNT(*) FROM dag_run"))
	require.Equal(t, 4, b.count("SELECT COUNT(*) FROM task_instance"))

	latest, err := b.s.LatestScheduledRun(t.Context(), "d")
	require.NoError(t, err)
	require.Nil(t, latest)
	for i, typ := range []dag.RunType{dag.RunScheduled, dag.RunBackfill} {
		n := b.newRun(d, v, fmt.Sprint("s", i))
		n.Run.Type, n.Run.LogicalDate = typ, ptr(start.Add(-time.Hour*time.Duration(i+1)))
		_, err := b.s.CreateRuns(t.Context(), []dag.NewRun{n})
		require.NoError(t, err)
	}
	latest, err = b.s.LatestScheduledRun(t.Context(), "d")
	require.NoError(t, err)
	require.Equal(t, "s0", latest.RunID)
}

// scheduled asks for the run that a plan tells of, as a scheduler does.
func (b *bundle) scheduled(d *dag.DAG, v int64, plan dag.PlannedRun, next *dag.PlannedRun) dag.NewRun {
	n := b.newRun(d, v, "scheduled__"+plan.RunAfter.Format(time.RFC3339))
	n.Run.Type, n.Run.LogicalDate, n.Run.RunAfter = dag.RunScheduled, &plan.LogicalDate, plan.RunAfter
	n.AdvanceNext, n.PlannedFor, n.Next = true, plan.RunAfter, next
	return n
}

func minutely(i int) *dag.PlannedRun {
	at := start.Truncate(time.Minute).Add(time.Duration(i) * time.Minute)
	return &dag.PlannedRun{LogicalDate: at, DataIntervalStart: at, DataIntervalEnd: at, RunAfter: at}
}

func testTwoSchedulersMakeOneRun(t *testing.T, b *bundle) {
	d := oneDAG("d", "a")
	ids, err := b.s.SyncDAGs(t.Context(), []dag.DAGUpdate{{DAG: d, Next: minutely(0)}})
	require.NoError(t, err)
	one, two := b.s, b.open()
	const minutes = 20
	for i := range minutes {
		plan, next := *minutely(i), minutely(i+1)
		var g sync.WaitGroup
		made := make([]dag.CreatedRun, 2)
		errs := make([]error, 2)
		for n, s := range []interface {
			CreateRuns(ctx context.Context, runs []dag.NewRun) ([]dag.CreatedRun, error)
		}{one, two} {
			g.Go(func() {
				got, err := s.CreateRuns(t.Context(), []dag.NewRun{b.scheduled(d, ids[0], plan, next)})
				if errs[n] = err; err == nil {
					made[n] = got[0]
				}
			})
		}
		g.Wait()
		require.NoError(t, errors.Join(errs...))
		require.NotEqual(t, made[0].Overtaken, made[1].Overtaken, "one was first, the other was told so")
	}
	require.Equal(t, minutes, b.count("SELECT COUNT(*) FROM dag_run"))
	require.Equal(t, minutes, b.count("SELECT COUNT(DISTINCT logical_date) FROM dag_run"))
	require.Equal(t, minutes, b.count("SELECT COUNT(*) FROM task_instance"))
	rows, err := b.s.DAGRows(t.Context(), dag.DAGFilter{})
	require.NoError(t, err)
	require.Equal(t, minutely(minutes), rows[0].Next)

	// A run that a backfill made already: the plan moves on all the same.
	n := b.newRun(d, ids[0], "backfill__x")
	n.Run.Type, n.Run.LogicalDate = dag.RunBackfill, &minutely(minutes).LogicalDate
	_, err = b.s.CreateRuns(t.Context(), []dag.NewRun{n})
	require.NoError(t, err)
	got, err := b.s.CreateRuns(t.Context(), []dag.NewRun{b.scheduled(d, ids[0], *minutely(minutes), minutely(minutes+1))})
	require.NoError(t, err)
	require.True(t, got[0].Existed)
	rows, err = b.s.DAGRows(t.Context(), dag.DAGFilter{})
	require.NoError(t, err)
	require.Equal(t, minutely(minutes+1), rows[0].Next)
}

func testSchedulersShareRuns(t *testing.T, b *bundle) {
	d := oneDAG("d", "a")
	d.MaxActiveRuns = 100
	v := b.sync(d)
	var runs []dag.NewRun
	for i := range 40 {
		runs = append(runs, b.newRun(d, v, fmt.Sprint("r", i)))
	}
	_, err := b.s.CreateRuns(t.Context(), runs)
	require.NoError(t, err)
	var g sync.WaitGroup
	looked := make([]map[int64]bool, 2)
	errs := make([]error, 2)
	for n, s := range []*store.Store{b.s, b.open()} {
		looked[n] = map[int64]bool{}
		g.Go(func() {
			for range 20 {
				report, err := s.Schedule(t.Context(), dag.SchedulePass{Limit: 5}, b.decide)
				if errs[n] = err; err != nil {
					return
				}
				for _, r := range report.Runs {
					looked[n][r.Run.ID] = true
				}
			}
		})
	}
	g.Wait()
	require.NoError(t, errors.Join(errs...))
	for id := range looked[0] {
		require.False(t, looked[1][id], "a run was decided by both")
	}
	require.Equal(t, 40, len(looked[0])+len(looked[1]))
	require.Equal(t, 40, b.count("SELECT COUNT(*) FROM task_instance WHERE state = 'queued'"))
}

func testRunLimits(t *testing.T, b *bundle) {
	ctx := t.Context()
	d := oneDAG("d", "a")
	d.MaxActiveRuns = 2
	v := b.sync(d)
	var runs []dag.NewRun
	for i := range 4 {
		runs = append(runs, b.newRun(d, v, fmt.Sprint("r", i)))
	}
	later := b.newRun(d, v, "later")
	later.Run.RunAfter = start.Add(time.Hour)
	made, err := b.s.CreateRuns(ctx, append(runs, later))
	require.NoError(t, err)
	state := func(i int) dag.RunState { return b.run(made[i].Run).State }
	report := b.pass()
	require.Len(t, report.Runs, 2)
	require.Equal(t, 4, report.Looked, "also those that have to wait: behind them others may be due")
	require.Equal(t, []dag.RunState{dag.RunRunning, dag.RunRunning, dag.RunQueued, dag.RunQueued, dag.RunQueued},
		[]dag.RunState{state(0), state(1), state(2), state(3), state(4)})
	require.Empty(t, b.pass().Runs)

	c := b.claim(1)
	b.apply(b.result(c[0], dag.StateSuccess))
	b.pass() // r0 ends and wakes r2
	b.pass()
	require.Equal(t, []dag.RunState{dag.RunSuccess, dag.RunRunning, dag.RunRunning, dag.RunQueued},
		[]dag.RunState{state(0), state(1), state(2), state(3)})
	rows, err := b.s.DAGRows(ctx, dag.DAGFilter{})
	require.NoError(t, err)
	require.Equal(t, 4, rows[0].ActiveRuns)

	// A new version with more room lets the rest start.
	wide := oneDAG("d", "a")
	wide.MaxActiveRuns = 10
	b.sync(wide)
	b.pass()
	require.Equal(t, []dag.RunState{dag.RunRunning, dag.RunQueued}, []dag.RunState{state(3), state(4)})
	b.finish(succeed)
	require.Equal(t, dag.RunQueued, state(4), "its day has not come")
	b.clock.Advance(time.Hour)
	b.finish(succeed)
	require.Equal(t, dag.RunSuccess, state(4))
	b.sound()
}

func testFailingDecision(t *testing.T, b *bundle) {
	good := b.trigger(oneDAG("good", "a"), "r")
	bad := b.trigger(oneDAG("bad", "a"), "r")
	wrong := b.trigger(oneDAG("wrong", "a"), "r")
	boom := errors.New("boom")
	decide := func(s *dag.RunSnapshot, now time.Time) (dag.Decision, error) {
		switch s.Run.DagID {
		case "bad":
			return dag.Decision{}, boom
		case "wrong":
			return dag.Decision{State: dag.RunRunning, Transitions: []dag.Transition{{TaskInstanceID: s.Instances[0].ID, From: dag.StateNone, To: dag.StateRunning}}}, nil
		}
		return b.decide(s, now)
	}
	report, err := b.s.Schedule(t.Context(), dag.SchedulePass{Limit: 10}, decide)
	require.NoError(t, err)
	require.Len(t, report.Runs, 3)
	for _, r := range report.Runs {
		switch r.Run.DagID {
		case "bad":
			require.ErrorIs(t, r.Err, boom)
		case "wrong":
			require.ErrorContains(t, r.Err, "table of transitions")
		default:
			require.NoError(t, r.Err)
		}
	}
	require.Equal(t, dag.StateQueued, b.states(good)["a"])
	require.Equal(t, dag.StateNone, b.states(bad)["a"])
	require.Equal(t, dag.StateNone, b.states(wrong)["a"])
	require.Empty(t, b.pass().Runs)
	b.clock.Advance(time.Minute)
	require.Len(t, b.pass().Runs, 2)
	require.Equal(t, dag.StateQueued, b.states(bad)["a"])
}

func testTimeout(t *testing.T, b *bundle) {
	d := oneDAG("d", "a", "b", "c<a")
	d.DagrunTimeout, d.MaxActiveTasks = time.Hour, 1
	d.Callbacks.OnFailure = []dag.Callback{{Name: "log"}}
	run := b.trigger(d, "r")
	b.pass()
	c := b.claim(1)[0]
	require.Equal(t, 1, b.count("SELECT COUNT(*) FROM task_instance WHERE state = 'scheduled'"))
	b.clock.Advance(time.Hour + time.Second)
	b.pass()
	got := b.run(run)
	require.Equal(t, dag.RunFailed, got.State)
	require.Equal(t, dag.ReasonTimedOut, got.Reason)
	require.Equal(t, map[dag.State]int{dag.StateSkipped: 3}, got.TaskStates)
	require.Equal(t, []dag.ApplyStatus{dag.StaleFence}, b.apply(b.result(c, dag.StateSuccess)), "its worker may write no more")
	attempts, err := b.s.Attempts(t.Context(), c.TaskInstanceKey)
	require.NoError(t, err)
	require.Len(t, attempts, 1)
	require.Equal(t, dag.StateSkipped, attempts[0].State)
	events, err := b.s.ClaimEvents(t.Context(), "d", 10, time.Minute)
	require.NoError(t, err)
	require.Len(t, events, 1)
	require.Empty(t, events[0].TaskID)
	b.sound()
}

func testConsecutiveFailures(t *testing.T, b *bundle) {
	d := oneDAG("d", "a")
	d.MaxConsecutiveFailedDagRuns = 2
	end := func(state dag.State) bool {
		b.clock.Advance(time.Minute)
		b.trigger(d, "r"+b.clock.Now().Format("1504"))
		b.finish(func(dag.Claim) dag.State { return state })
		rows, err := b.s.DAGRows(t.Context(), dag.DAGFilter{})
		require.NoError(t, err)
		return rows[0].IsPaused
	}
	require.False(t, end(dag.StateFailed))
	require.False(t, end(dag.StateSuccess))
	require.False(t, end(dag.StateFailed))
	require.True(t, end(dag.StateFailed), "two in a row")
	log, err := b.s.Audit(t.Context(), dag.AuditFilter{Action: "pause"})
	require.NoError(t, err)
	require.Len(t, log, 1)
	require.Equal(t, "d", log[0].Subject)
	require.JSONEq(t, `{"reason":"max_consecutive_failed_dag_runs","failed_runs":2}`, string(log[0].Detail))
}

func testPast(t *testing.T, b *bundle) {
	ctx := t.Context()
	old := oneDAG("d", "a")
	old.Tasks[0].DependsOnPast = true
	v := b.sync(old)
	d := oneDAG("d", "a", "fresh")
	d.Tasks[0].DependsOnPast, d.Tasks[1].DependsOnPast = true, true
	v2 := b.sync(d)
	var pasts []*dag.PastRun
	decide := func(s *dag.RunSnapshot, now time.Time) (dag.Decision, error) {
		pasts = append(pasts, s.Past)
		return b.decide(s, now)
	}
	for i, c := range []struct {
		d *dag.DAG
		v int64
	}{{old, v}, {d, v2}} {
		n := b.newRun(c.d, c.v, fmt.Sprint("r", i))
		n.Run.LogicalDate = ptr(start.Add(time.Duration(i) * time.Hour))
		_, err := b.s.CreateRuns(ctx, []dag.NewRun{n})
		require.NoError(t, err)
	}
	_, err := b.s.Schedule(ctx, dag.SchedulePass{Limit: 10}, decide)
	require.NoError(t, err)
	require.Len(t, pasts, 2)
	require.Equal(t, &dag.PastRun{States: map[string][]dag.State{}, RanBefore: map[string]bool{}}, pasts[0])
	require.Equal(t, &dag.PastRun{Exists: true, LogicalDate: &start, States: map[string][]dag.State{"a": {dag.StateNone}}, RanBefore: map[string]bool{}}, pasts[1])
	require.Equal(t, map[string]dag.State{"a": dag.StateNone, "fresh": dag.StateQueued}, b.states(dag.Run{DagID: "d", RunID: "r1"}))
	b.finish(succeed)
	b.finish(succeed)
	require.Equal(t, dag.StateSuccess, b.states(dag.Run{DagID: "d", RunID: "r1"})["a"], "the end of the first run woke the second")
	b.sound()
}
