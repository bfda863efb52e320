package dag_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func TestRetryAndRescheduleWhenDue(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) *time.Time { v := noon.Add(d); return &v }
	w := newWorld(dagOf(task("due"), task("exact"), task("later"), task("soon"), task("unsaid"), task("poke")))
	w.set(map[string]dag.State{
		"due": dag.StateUpForRetry, "exact": dag.StateUpForRetry, "later": dag.StateUpForRetry,
		"soon": dag.StateUpForReschedule, "unsaid": dag.StateUpForRetry, "poke": dag.StateUpForReschedule,
	})
	w.ti("due", -1).NextTryAt = at(-time.Microsecond)
	w.ti("exact", -1).NextTryAt = at(0)
	w.ti("later", -1).NextTryAt = at(time.Hour)
	w.ti("soon", -1).NextTryAt = at(time.Microsecond)
	w.ti("poke", -1).NextTryAt = at(-time.Hour)
	d := w.step(t)
	require.Equal(t, []string{"due scheduled", "exact scheduled", "poke scheduled", "unsaid scheduled"}, changes(d))
	require.Equal(t, noon.Add(time.Microsecond), d.NextAt, "the earliest that is still ahead")
	require.Equal(t, dag.RunRunning, d.State)
}

func TestRetryWaitsForAnUpstreamThatWasCleared(t *testing.T) {
	t.Parallel()
	w := newWorld(dagOf(task("u"), task("t", after("u"))))
	w.set(map[string]dag.State{"u": dag.StateRunning, "t": dag.StateUpForRetry})
	require.Empty(t, changes(w.step(t)))
	// It has begun: an upstream that fails now does not take it out of the retry loop.
	w.set(map[string]dag.State{"u": dag.StateFailed})
	require.Equal(t, []string{"t scheduled"}, changes(w.step(t)))
}

func TestRetryThatNothingCanReleaseGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(dagOf(task("u"), task("t", after("u"))))
	w.snap.Instances = w.snap.Instances[1:] // u's instance is gone
	w.ti("t", -1).State = dag.StateUpForRetry
	require.Equal(t, []string{"t scheduled"}, changes(w.step(t)))
}

func TestEmptyTasksNeedNoWorker(t *testing.T) {
	t.Parallel()
	log := []dag.Callback{{Name: "log"}}
	loud := func(c dag.Callbacks) func(*dag.Task) { return func(t *dag.Task) { t.Callbacks = c } }
	w := newWorld(dagOf(
		task("start", operatorIs("empty")),
		task("quiet", operatorIs("empty"), after("start"), loud(dag.Callbacks{OnFailure: log, OnRetry: log})),
		task("success", operatorIs("empty"), after("quiet"), loud(dag.Callbacks{OnSuccess: log})),
		task("execute", operatorIs("empty"), after("quiet"), loud(dag.Callbacks{OnExecute: log})),
		task("end", operatorIs("empty"), after("quiet"), func(t *dag.Task) { t.Upstream = []string{"execute", "success"} }),
	))
	require.Equal(t, []string{"execute scheduled", "quiet success", "start success", "success scheduled"}, changes(w.step(t)))
	w.set(map[string]dag.State{"execute": dag.StateSuccess, "success": dag.StateSuccess})
	d := w.step(t)
	require.Equal(t, []string{"end success"}, changes(d))
	require.Equal(t, dag.RunSuccess, d.State, "the run ends in the same call")
}

func TestMappedTaskIsExpandedWhenItsSourcesAreComplete(t *testing.T) {
	t.Parallel()
	d := dagOf(
		task("list"),
		task("each", after("list"), mappedOver("list")),
		task("sum", after("each")),
	)
	w := newWorld(d)
	require.Equal(t, []string{"list scheduled"}, changes(w.step(t)))
	require.Empty(t, w.decide().Expand)
	w.set(map[string]dag.State{"list": dag.StateSuccess})
	dec := w.step(t)
	require.Equal(t, []string{"each"}, dec.Expand)
	require.Empty(t, dec.Transitions)
	require.Equal(t, dag.RunRunning, dec.State, "sum waits, and that is no deadlock")

	w.expand("each", dag.StateNone, dag.StateNone)
	dec = w.step(t)
	require.Empty(t, dec.Expand)
	require.Equal(t, []string{"each[0] scheduled", "each[1] scheduled"}, changes(dec))
	w.ti("each", 0).State = dag.StateSuccess
	require.Empty(t, changes(w.step(t)), "one instance still runs")
	w.ti("each", 1).State = dag.StateSuccess
	require.Equal(t, []string{"sum scheduled"}, changes(w.step(t)))
}

func TestMappedTaskOverNothing(t *testing.T) {
	t.Parallel()
	d := dagOf(task("list"), task("each", after("list"), mappedOver("list")),
		task("strict", after("each")), task("lax", after("each"), rule(dag.AllDone)))
	w := newWorld(d).set(map[string]dag.State{"list": dag.StateSuccess, "each": dag.StateSkipped})
	require.Equal(t, []string{"lax scheduled", "strict skipped"}, changes(w.step(t)))
}

func TestUnexpandedTaskIsSkippedOrFailsWithItsUpstream(t *testing.T) {
	t.Parallel()
	d := dagOf(task("list"), task("each", after("list"), mappedOver("list")), task("sum", after("each")))
	for _, c := range []struct{ list, rest dag.State }{
		{dag.StateFailed, dag.StateUpstreamFailed}, {dag.StateSkipped, dag.StateSkipped},
	} {
		w := newWorld(d).set(map[string]dag.State{"list": c.list})
		dec := w.step(t)
		require.Empty(t, dec.Expand)
		require.Equal(t, c.rest, w.ti("each", -1).State)
		require.Equal(t, c.rest, w.ti("sum", -1).State)
	}
}

// TestMappedOverMappedWithAllDone is the media pipeline: what probe made of
// half the files is transcoded although the other half failed.
func TestMappedOverMappedWithAllDone(t *testing.T) {
	t.Parallel()
	d := dagOf(
		task("probe", mappedLiteral("a", "b")),
		task("transcode", after("probe"), mappedOver("probe"), rule(dag.AllDone)),
		task("eager", after("probe"), mappedOver("probe"), rule(dag.OneSuccess)),
	)
	w := newWorld(d)
	require.Equal(t, []string{"probe"}, w.decide().Expand, "a literal list has nothing to wait for")
	w.expand("probe", dag.StateSuccess, dag.StateRunning)
	require.Empty(t, w.decide().Expand, "one_success holds, but the values are not complete")
	w.ti("probe", 1).State = dag.StateFailed
	require.ElementsMatch(t, []string{"transcode", "eager"}, w.decide().Expand)
}

// TestMappedOverTheFilesOwnValuesStartsByItsRule: it does not wait for upstream
// tasks that its rule does not wait for.
func TestMappedOverTheFilesOwnValuesStartsByItsRule(t *testing.T) {
	t.Parallel()
	d := dagOf(task("a"), task("b"), task("each", after("a", "b"), mappedLiteral(1, 2), rule(dag.OneSuccess)))
	w := newWorld(d).set(map[string]dag.State{"a": dag.StateRunning, "b": dag.StateRunning})
	require.Empty(t, w.decide().Expand)
	w.set(map[string]dag.State{"a": dag.StateSuccess})
	require.Equal(t, []string{"each"}, w.decide().Expand)
}

// TestMappedOverATaskWithoutSuccess: there are no values when the source failed
// or was skipped, whatever the trigger rule thinks of that.
func TestMappedOverATaskWithoutSuccess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule       dag.TriggerRule
		list, each dag.State
	}{
		{dag.AllDone, dag.StateFailed, dag.StateUpstreamFailed},
		{dag.AllDone, dag.StateUpstreamFailed, dag.StateUpstreamFailed},
		{dag.AllDone, dag.StateSkipped, dag.StateSkipped},
		{dag.AllSkipped, dag.StateSkipped, dag.StateSkipped},
		{dag.AllSkipped, dag.StateFailed, dag.StateUpstreamFailed}, // the rule alone would skip it
		{dag.NoneSkipped, dag.StateFailed, dag.StateUpstreamFailed},
	} {
		d := dagOf(task("list"), task("slow"), task("each", after("list", "slow"), mappedOver("list"), rule(c.rule)))
		w := newWorld(d).set(map[string]dag.State{"list": c.list, "slow": dag.StateRunning})
		dec := w.step(t)
		require.Empty(t, dec.Expand)
		require.Equal(t, c.each, w.ti("each", -1).State, "%s, and the list is %s", c.rule, c.list)
	}
}

// TestMappedOverATaskThatWasNotExpanded: a mapped source of no values is skipped
// as a whole, and what is mapped over it with it.
func TestMappedOverATaskThatWasNotExpanded(t *testing.T) {
	t.Parallel()
	d := dagOf(task("probe", mappedLiteral()), task("transcode", after("probe"), mappedOver("probe"), rule(dag.AllDone)))
	w := newWorld(d).set(map[string]dag.State{"probe": dag.StateSkipped})
	require.Equal(t, []string{"transcode skipped"}, changes(w.step(t)))

	// Its values stand in the file: it has instances, which made nothing.
	d = dagOf(task("probe", mappedLiteral("a")), task("transcode", after("probe"), mappedOver("probe"), rule(dag.AllDone)))
	w = newWorld(d).set(map[string]dag.State{"probe": dag.StateUpstreamFailed})
	require.Equal(t, []string{"transcode"}, w.decide().Expand)
}

// TestMappedOverMappedWithoutSuccess: the values of the successful instances are
// an empty list, which is expanded to nothing.
func TestMappedOverMappedWithoutSuccess(t *testing.T) {
	t.Parallel()
	d := dagOf(task("probe", mappedLiteral("a", "b")), task("transcode", after("probe"), mappedOver("probe"), rule(dag.AllDone)))
	w := newWorld(d)
	require.Equal(t, []string{"probe"}, w.decide().Expand)
	w.expand("probe", dag.StateFailed, dag.StateFailed)
	require.Equal(t, []string{"transcode"}, w.decide().Expand)
}

func TestMappedInstancesBeyondTheirSourceAreRemoved(t *testing.T) {
	t.Parallel()
	d := dagOf(task("list", mappedLiteral(1, 2, 3)), task("each", after("list"), mappedOver("list")))
	w := newWorld(d)
	w.expand("list", dag.StateSuccess, dag.StateSuccess, dag.StateRemoved)
	w.expand("each", dag.StateNone, dag.StateNone, dag.StateNone)
	require.Equal(t, []string{"each[0] scheduled", "each[1] scheduled", "each[2] removed"}, changes(w.step(t)))
	w.ti("each", 0).State, w.ti("each", 1).State = dag.StateSuccess, dag.StateSuccess
	require.Equal(t, dag.RunSuccess, w.step(t).State, "removed instances do not count")
}

func TestInstanceOfATaskThatTheDAGNoLongerHas(t *testing.T) {
	t.Parallel()
	w := newWorld(dagOf(task("a")))
	w.set(map[string]dag.State{"a": dag.StateSuccess})
	w.add("gone", -1, dag.StateNone)
	w.add("ran", -1, dag.StateFailed)
	d := w.step(t)
	require.Equal(t, []string{"gone removed"}, changes(d))
	require.Equal(t, dag.RunSuccess, d.State)

	w = newWorld(dagOf(task("a"))).set(map[string]dag.State{"a": dag.StateSuccess})
	w.add("waits", -1, dag.StateUpForRetry)
	d = w.step(t)
	require.Equal(t, []string{"waits scheduled"}, changes(d), "begun: the worker seals it")
	require.Equal(t, dag.RunRunning, d.State)
}

func TestDependsOnPast(t *testing.T) {
	t.Parallel()
	yesterday := noon.Add(-24 * time.Hour)
	past := func(states map[string][]dag.State, ran ...string) *dag.PastRun {
		p := &dag.PastRun{Exists: true, LogicalDate: &yesterday, States: states, RanBefore: map[string]bool{}}
		for _, id := range ran {
			p.RanBefore[id] = true
		}
		return p
	}
	type states = map[string][]dag.State
	dependent := func(t *dag.Task) { t.DependsOnPast = true }
	waits := func(t *dag.Task) { t.DependsOnPast, t.WaitForDownstream = true, true }
	strictFirst := func(t *dag.Task) { t.DependsOnPast, t.IgnoreFirstDependsOnPast = true, false }
	cases := []struct {
		name   string
		option func(*dag.Task)
		past   *dag.PastRun
		starts bool
	}{
		{"not asked for", func(*dag.Task) {}, past(states{"a": {dag.StateFailed}}), true},
		{"nothing known", dependent, nil, true},
		{"no previous run", dependent, &dag.PastRun{}, true},
		{"success", dependent, past(states{"a": {dag.StateSuccess}}), true},
		{"skipped", dependent, past(states{"a": {dag.StateSkipped}}), true},
		{"failed", dependent, past(states{"a": {dag.StateFailed}}), false},
		{"upstream_failed", dependent, past(states{"a": {dag.StateUpstreamFailed}}), false},
		{"still running", dependent, past(states{"a": {dag.StateRunning}}), false},
		{"one mapped instance failed", dependent, past(states{"a": {dag.StateSuccess, dag.StateFailed}}), false},
		{"new task", dependent, past(states{}), true},
		{"new task that ran before", dependent, past(states{}, "a"), false},
		{"new task, first not ignored", strictFirst, past(states{}), false},
		{"downstream failed, not asked for", dependent, past(states{"a": {dag.StateSuccess}, "b": {dag.StateFailed}}), true},
		{"downstream failed", waits, past(states{"a": {dag.StateSuccess}, "b": {dag.StateFailed}}), false},
		{"downstream done", waits, past(states{"a": {dag.StateSuccess}, "b": {dag.StateSuccess}}), true},
		{"only wait_for_downstream", func(t *dag.Task) { t.WaitForDownstream = true }, past(states{"a": {dag.StateFailed}}), false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(dagOf(task("a", c.option), task("b", after("a"))))
			w.snap.Past = c.past
			d := w.step(t)
			require.Equal(t, dag.RunRunning, d.State, "waiting for the past is no deadlock")
			if c.starts {
				require.Equal(t, []string{"a scheduled"}, changes(d))
				require.True(t, d.NextAt.IsZero())
				return
			}
			require.Empty(t, changes(d))
			require.True(t, d.NextAt.After(noon), "looked at again")
		})
	}
}

func TestDependsOnPastBeforeTheTaskBegan(t *testing.T) {
	t.Parallel()
	yesterday := noon.Add(-24 * time.Hour)
	start := noon.Add(-time.Hour)
	d := dagOf(task("a", func(t *dag.Task) { t.DependsOnPast, t.StartDate = true, &start }))
	w := newWorld(d)
	w.snap.Past = &dag.PastRun{Exists: true, LogicalDate: &yesterday, States: map[string][]dag.State{"a": {dag.StateFailed}}}
	require.Empty(t, changes(w.step(t)), "without catchup the previous run counts")
	d.Catchup = true
	require.Equal(t, []string{"a scheduled"}, changes(w.step(t)))
}

func TestDependsOnPastDoesNotHoldUpASkip(t *testing.T) {
	t.Parallel()
	w := newWorld(dagOf(task("u"), task("a", after("u"), func(t *dag.Task) { t.DependsOnPast = true })))
	w.set(map[string]dag.State{"u": dag.StateSkipped})
	w.snap.Past = &dag.PastRun{Exists: true, States: map[string][]dag.State{"a": {dag.StateFailed}}}
	require.Equal(t, []string{"a skipped"}, changes(w.step(t)))
}

func TestTaskDates(t *testing.T) {
	t.Parallel()
	day := func(n int) *time.Time { v := time.Date(2026, 6, n, 0, 0, 0, 0, time.UTC); return &v }
	cases := []struct {
		name       string
		typ        dag.RunType
		logical    *time.Time
		runAfter   time.Time
		kind       dag.ScheduleKind
		start, end *time.Time
		want       string
	}{
		{"inside", dag.RunScheduled, day(10), *day(11), dag.ScheduleCronInterval, day(10), day(10), "a scheduled"},
		{"before the start", dag.RunScheduled, day(10), *day(11), dag.ScheduleCronInterval, day(11), nil, "a removed"},
		{"after the end", dag.RunScheduled, day(10), *day(11), dag.ScheduleCronInterval, nil, day(9), "a removed"},
		{"the tick counts with a trigger", dag.RunScheduled, day(10), *day(11), dag.ScheduleCronTrigger, day(11), nil, "a scheduled"},
		{"backfill chooses its dates", dag.RunBackfill, day(10), *day(20), dag.ScheduleCronTrigger, day(11), nil, "a scheduled"},
		{"backfill after the end", dag.RunBackfill, day(10), *day(20), dag.ScheduleCronTrigger, nil, day(9), "a removed"},
		{"by hand before the start", dag.RunManual, day(10), *day(20), dag.ScheduleNone, day(11), nil, "a scheduled"},
		{"by hand without a date", dag.RunManual, nil, *day(20), dag.ScheduleNone, nil, day(19), "a removed"},
		{"by hand, no date at all", dag.RunManual, nil, time.Time{}, dag.ScheduleNone, day(11), day(19), "a scheduled"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := dagOf(task("a", func(t *dag.Task) { t.StartDate, t.EndDate = c.start, c.end }), task("b", after("a")), task("c"))
			d.Schedule.Kind = c.kind
			w := newWorld(d)
			w.snap.Run.Type, w.snap.Run.LogicalDate, w.snap.Run.RunAfter = c.typ, c.logical, c.runAfter
			got := changes(w.step(t))
			require.Contains(t, got, c.want)
			if c.want == "a removed" {
				require.Contains(t, got, "b scheduled", "the rest goes on as if the task were not there")
			}
		})
	}
}

// What is above a task may be no part of the run, by its own dates: then the task
// has nothing to wait for, whatever its rule.
func TestATaskWhoseUpstreamIsNoPartOfTheRun(t *testing.T) {
	t.Parallel()
	for _, r := range dag.TriggerRules() {
		if r == dag.AllDoneSetupSuccess {
			continue // of teardowns
		}
		w := newWorld(dagOf(task("a"), task("b", after("a"), rule(r)))).set(map[string]dag.State{"a": dag.StateRemoved})
		require.Equal(t, []string{"b scheduled"}, changes(w.step(t)), r)
	}
}
