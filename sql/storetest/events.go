package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func testEvents(t *testing.T, b *bundle) {
	ctx := t.Context()
	b.trigger(oneDAG("d", "a"), "r")
	b.pass()
	c := b.claim(1)[0]
	r := b.result(c, dag.StateSuccess)
	for i := range 5 {
		r.Events = append(r.Events, dag.Event{
			DedupKey: fmt.Sprint("k", i), TaskInstanceKey: c.TaskInstanceKey, TryNumber: 1, Kind: dag.EventSuccess,
			Callback: dag.Callback{Name: "webhook", Args: map[string]any{"url": fmt.Sprint("http://x/<>&", i)}}, Context: raw(`{"state":"success"}`), CreatedAt: start,
		})
	}
	r.Events = append(r.Events, r.Events[0]) // the same event twice
	long := r.Events[1]
	long.DedupKey = strings.Repeat("k", 5000)
	long.Callback = dag.Callback{Name: "log"}
	r.Events = append(r.Events, long)
	b.apply(r)
	keys := func(owner string, n int) (out []string) {
		got, err := b.s.ClaimEvents(ctx, owner, n, time.Minute)
		require.NoError(t, err)
		for _, e := range got {
			out = append(out, e.DedupKey)
		}
		return out
	}
	got, err := b.s.ClaimEvents(ctx, "one", 2, time.Minute)
	require.NoError(t, err)
	require.Len(t, got, 2)
	first := r.Events[0]
	first.ID = got[0].ID
	require.Equal(t, first, got[0])
	require.Equal(t, "k1", got[1].DedupKey)
	rest := keys("two", 10)
	require.Equal(t, []string{"k2", "k3", "k4"}, rest[:3], "not what another dispatcher holds, and each once")
	require.Len(t, rest, 4)
	require.Less(t, len(rest[3]), 800)
	require.Empty(t, keys("three", 10))
	require.Empty(t, keys("three", 0))

	require.NoError(t, b.s.EventDelivered(ctx, got[0].ID))
	require.NoError(t, b.missed(got[1].ID, "HTTP 503", ptr(10*time.Second)))
	b.clock.Advance(11 * time.Second)
	again, err := b.s.ClaimEvents(ctx, "one", 10, time.Minute)
	require.NoError(t, err)
	require.Len(t, again, 1)
	require.Equal(t, "k1", again[0].DedupKey)
	require.Equal(t, 1, again[0].Attempts)
	require.NoError(t, b.missed(again[0].ID, "HTTP 400", nil))
	require.Equal(t, 1, b.count("SELECT COUNT(*) FROM callback_event WHERE status = 'dead' AND last_error = 'HTTP 400' AND attempts = 2"))
	require.NoError(t, b.s.EventDelivered(ctx, again[0].ID), "too late, and no error")
	require.Equal(t, 1, b.count("SELECT COUNT(*) FROM callback_event WHERE status = 'dead'"))

	b.clock.Advance(time.Minute) // the other dispatcher died with its four
	require.Equal(t, rest, keys("one", 10))
}

// missed records one failed delivery.
func (b *bundle) missed(id int64, cause string, wait *time.Duration) error {
	return b.s.EventsMissed(b.t.Context(), []dag.MissedDelivery{{EventID: id, Cause: cause, Wait: wait}})
}

// testMissedDeliveries: what did not work is recorded together, each event with an
// end of its own.
func testMissedDeliveries(t *testing.T, b *bundle) {
	ctx := t.Context()
	const n = 1000
	events := make([]dag.Event, n)
	for i := range events {
		events[i] = dag.Event{
			DedupKey: fmt.Sprint("k", i), TaskInstanceKey: dag.TaskInstanceKey{DagID: "d", RunID: "r", TaskID: "t", MapIndex: i}, Kind: dag.EventFailure,
			Callback: dag.Callback{Name: "webhook"}, Context: raw("{}"), CreatedAt: b.clock.Now(),
		}
	}
	require.NoError(t, b.s.PutEvents(ctx, events))
	got, err := b.s.ClaimEvents(ctx, "one", n, time.Minute)
	require.NoError(t, err)
	require.Len(t, got, n)
	require.NoError(t, b.s.EventDelivered(ctx, got[7].ID))
	missed := make([]dag.MissedDelivery, n)
	for i, e := range got { // of ten events one is dead, one put off, and the others fail; each is due at a second of its own
		missed[n-1-i] = dag.MissedDelivery{EventID: e.ID, Cause: "away", Wait: ptr(time.Duration(i) * time.Second), PutOff: i%10 == 1}
		if i%10 == 0 {
			missed[n-1-i] = dag.MissedDelivery{EventID: e.ID, Cause: "gone"}
		}
	}
	require.NoError(t, b.s.EventsMissed(ctx, nil))
	require.NoError(t, b.s.EventsMissed(ctx, missed))
	require.Equal(t, 100, b.count("SELECT COUNT(*) FROM callback_event WHERE status = 'dead' AND attempts = 1 AND last_error = 'gone' AND owner = ''"))
	require.Equal(t, 100, b.count("SELECT COUNT(*) FROM callback_event WHERE status = 'pending' AND attempts = 0 AND last_error = 'away' AND owner = ''"))
	require.Equal(t, 799, b.count("SELECT COUNT(*) FROM callback_event WHERE status = 'pending' AND attempts = 1 AND last_error = 'away' AND owner = ''"))
	require.Equal(t, 1, b.count("SELECT COUNT(*) FROM callback_event WHERE status = 'delivered' AND attempts = 1"), "it was there meanwhile")
	b.clock.Advance(21 * time.Second)
	due, err := b.s.ClaimEvents(ctx, "two", n, time.Minute)
	require.NoError(t, err)
	var keys []string
	for _, e := range due {
		keys = append(keys, e.DedupKey)
	}
	want := []string{"k1", "k2", "k3", "k4", "k5", "k6", "k8", "k9", "k11", "k12", "k13", "k14", "k15", "k16", "k17", "k18", "k19", "k21"}
	require.Equal(t, want, keys)
}

// testEventOrder: of one lane nothing is given to a dispatcher while an older
// event is in another's hands or waits for its next try; other lanes go on.
func testEventOrder(t *testing.T, b *bundle) {
	ctx := t.Context()
	b.trigger(oneDAG("d", "a"), "r")
	b.pass()
	c := b.claim(1)[0]
	r := b.result(c, dag.StateSuccess)
	event := func(key, receiver string) {
		r.Events = append(r.Events, dag.Event{
			DedupKey: key, TaskInstanceKey: c.TaskInstanceKey, TryNumber: 1, Kind: dag.EventSuccess,
			Callback: dag.Callback{Name: receiver}, Context: raw(`{}`), CreatedAt: start,
		})
	}
	event("a1", "a")
	event("a2", "a")
	event("b1", "b")
	event("a3", "a")
	b.apply(r)
	take := func(owner string, n int) (keys []string, ids []int64) {
		got, err := b.s.ClaimEvents(ctx, owner, n, time.Minute)
		require.NoError(t, err)
		for _, e := range got {
			keys, ids = append(keys, e.DedupKey), append(ids, e.ID)
		}
		return keys, ids
	}
	keys, first := take("one", 1)
	require.Equal(t, []string{"a1"}, keys)
	keys, second := take("two", 10)
	require.Equal(t, []string{"b1"}, keys, "a2 and a3 wait for a1")
	require.NoError(t, b.s.EventDelivered(ctx, second[0]))
	b.clock.Advance(time.Second)
	keys, _ = take("two", 10)
	require.Empty(t, keys)
	require.NoError(t, b.missed(first[0], "HTTP 503", ptr(10*time.Second)))
	b.clock.Advance(time.Second)
	keys, _ = take("two", 10)
	require.Empty(t, keys, "a1 waits for its next try")
	b.clock.Advance(10 * time.Second)
	keys, first = take("two", 1)
	require.Equal(t, []string{"a1"}, keys)
	keys, _ = take("two", 1)
	require.Equal(t, []string{"a2"}, keys, "who holds the older one keeps the order itself")
	b.clock.Advance(2 * time.Minute) // the dispatcher died with both
	keys, all := take("one", 10)
	require.Equal(t, []string{"a1", "a2", "a3"}, keys)
	require.Equal(t, first[0], all[0])
	for _, id := range all {
		require.NoError(t, b.s.EventDelivered(ctx, id))
	}
	require.Equal(t, 4, b.count("SELECT COUNT(*) FROM callback_event WHERE status = 'delivered'"))
}

// testEventsOfARun: who asks for the events of one run gets no others, in order and
// under the same leases as anybody.
func testEventsOfARun(t *testing.T, b *bundle) {
	ctx := t.Context()
	var events []dag.Event
	for _, k := range []dag.TaskInstanceKey{
		{DagID: "d", RunID: "other", TaskID: "t", MapIndex: -1}, {DagID: "d", RunID: "r", TaskID: "t", MapIndex: -1},
		{DagID: "e", RunID: "r", TaskID: "t", MapIndex: -1}, {DagID: "d", RunID: "r", MapIndex: -1}, {RunID: "a-circuit"},
	} {
		events = append(events, dag.Event{
			DedupKey: k.DagID + "/" + k.RunID + "/" + k.TaskID, TaskInstanceKey: k, Kind: dag.EventSuccess,
			Callback: dag.Callback{Name: "log"}, Context: raw("{}"), CreatedAt: b.clock.Now(),
		})
	}
	require.NoError(t, b.s.PutEvents(ctx, events))
	own := b.s.OutboxOf(dag.Run{DagID: "d", RunID: "r"})
	keys := func(claim func(context.Context, string, int, time.Duration) ([]dag.Event, error), owner string) (out []string) {
		got, err := claim(ctx, owner, 10, time.Minute)
		require.NoError(t, err)
		for _, e := range got {
			out = append(out, e.DedupKey)
		}
		return out
	}
	require.Equal(t, []string{"d/r/t", "d/r/"}, keys(own.ClaimEvents, "test"))
	require.Empty(t, keys(own.ClaimEvents, "test"), "nothing is left of its own")
	require.Equal(t, []string{"d/other/t", "e/r/t", "/a-circuit/"}, keys(b.s.ClaimEvents, "standalone"), "nobody touched the others")
	b.clock.Advance(2 * time.Minute)
	require.Len(t, keys(b.s.ClaimEvents, "standalone"), 5, "what it leaves is for everybody")
}

// testEventLease: a lease is renewed by its owner alone, and an event that is put
// off has had no failed delivery.
func testEventLease(t *testing.T, b *bundle) {
	ctx := t.Context()
	require.NoError(t, b.s.PutEvents(ctx, []dag.Event{{
		DedupKey: "a", TaskInstanceKey: dag.TaskInstanceKey{DagID: "d", RunID: "r", TaskID: "t", MapIndex: -1}, Kind: dag.EventRetry,
		Callback: dag.Callback{Name: "slack"}, Context: raw("{}"), CreatedAt: b.clock.Now(),
	}}))
	claim := func(owner string) []dag.Event {
		got, err := b.s.ClaimEvents(ctx, owner, 10, time.Minute)
		require.NoError(t, err)
		return got
	}
	id := claim("one")[0].ID
	held, err := b.s.RenewEvents(ctx, "two", []int64{id}, time.Minute)
	require.NoError(t, err)
	require.Empty(t, held)
	b.clock.Advance(50 * time.Second)
	held, err = b.s.RenewEvents(ctx, "one", []int64{id, id + 7}, time.Minute)
	require.NoError(t, err)
	require.Equal(t, []int64{id}, held)
	b.clock.Advance(50 * time.Second)
	require.Empty(t, claim("two"))
	b.clock.Advance(20 * time.Second)
	require.Len(t, claim("two"), 1, "its owner died: the lease ended")

	require.NoError(t, b.s.EventsMissed(ctx, []dag.MissedDelivery{{EventID: id, Cause: "429", Wait: ptr(time.Second), PutOff: true}}))
	require.Empty(t, claim("one"))
	b.clock.Advance(time.Second)
	again := claim("one")
	require.Len(t, again, 1)
	require.Zero(t, again[0].Attempts)
}

func testXComs(t *testing.T, b *bundle) {
	ctx := t.Context()
	d := oneDAG("d", "a", "m")
	d.Tasks[1].Expand = &dag.Expand{Names: []string{"x"}, Args: map[string]dag.ExpandSource{"x": {Literal: []any{"1"}}}}
	run := b.trigger(d, "r")
	b.pass()
	_, err := b.s.ExpandTask(ctx, run.ID, "m", []json.RawMessage{raw("{}"), raw("{}"), raw("{}")})
	require.NoError(t, err)
	b.pass()
	retry := b.claimTaskResult("a", func(c dag.Claim) dag.Result {
		r := b.result(c, dag.StateSuccess)
		r.XComs = map[string]json.RawMessage{"return_value": raw(`"` + c.TaskID + fmt.Sprint(c.MapIndex) + `"`), "k": raw("1")}
		if c.TaskID == "a" {
			r.State, r.Spent, r.NextTryAt = dag.StateUpForRetry, dag.BudgetFailures, ptr(b.clock.Now())
		}
		if c.MapIndex == 1 {
			r.XComs = nil
		}
		return r
	})
	get := func(task, key string, index *int) string {
		v, err := b.s.XCom(ctx, "d", "r", task, key, index)
		require.NoError(t, err)
		return string(v)
	}
	require.Equal(t, `"a-1"`, get("a", "return_value", nil))
	require.Equal(t, `["m0","m2"]`, get("m", "return_value", nil))
	require.Equal(t, `"m2"`, get("m", "return_value", ptr(2)))
	require.Empty(t, get("m", "return_value", ptr(1)))
	require.Empty(t, get("a", "nope", nil))
	require.Empty(t, get("nope", "k", nil))
	list, err := b.s.XComs(ctx, dag.XComFilter{DagID: "d", TaskID: "m"})
	require.NoError(t, err)
	require.Len(t, list, 4)
	require.Equal(t, dag.XComEntry{TaskInstanceKey: dag.TaskInstanceKey{DagID: "d", RunID: "r", TaskID: "m"}, Key: "k", Value: raw("1"), CreatedAt: b.clock.Now()}, list[0])

	b.pass()
	require.Equal(t, retry.ID, b.claimTask("a").ID)
	require.Empty(t, get("a", "k", nil), "a new attempt begins without what the last one left")
	require.Equal(t, `"m0"`, get("m", "return_value", ptr(0)))
	b.sound()
}

// claimTaskResult claims everything, applies a result for each and gives the
// claim of one task.
func (b *bundle) claimTaskResult(task string, result func(dag.Claim) dag.Result) (out dag.Claim) {
	b.t.Helper()
	for _, c := range b.claim(100) {
		require.Equal(b.t, []dag.ApplyStatus{dag.Applied}, b.apply(result(c)))
		if c.TaskID == task {
			out = c
		}
	}
	return out
}

func testNextWake(t *testing.T, b *bundle) {
	ctx := t.Context()
	wake := func() time.Time {
		at, err := b.s.NextWake(ctx, time.Time{}, 0)
		require.NoError(t, err)
		return at
	}
	require.Zero(t, wake())
	plan := &dag.PlannedRun{LogicalDate: start.Add(time.Hour), DataIntervalStart: start, DataIntervalEnd: start, RunAfter: start.Add(time.Hour)}
	d := oneDAG("d", "a")
	d.MaxActiveRuns = 1
	ids, err := b.s.SyncDAGs(ctx, []dag.DAGUpdate{{DAG: d, Next: plan}})
	require.NoError(t, err)
	require.Equal(t, start.Add(time.Hour), wake())
	for _, c := range []struct{ later, want time.Time }{
		{start, start.Add(time.Hour - time.Minute)},
		{start.Add(time.Hour - time.Minute), time.Time{}}, // it was there to be made
		{start.Add(2 * time.Hour), time.Time{}},
	} {
		at, err := b.s.NextWake(ctx, c.later, time.Minute)
		require.NoError(t, err)
		require.Equal(t, c.want, at)
	}
	_, err = b.s.CreateRuns(ctx, []dag.NewRun{b.newRun(d, ids[0], "r")})
	require.NoError(t, err)
	require.Equal(t, start, wake(), "the new run")
	at, err := b.s.NextWake(ctx, start, 0)
	require.NoError(t, err)
	require.Zero(t, at, "that was looked at, and hides nothing")
	b.pass()
	require.Zero(t, wake(), "the DAG has no room for its next run, and its task waits for a worker")
	rows, err := b.s.DueDAGs(ctx, b.clock.Now(), 10)
	require.NoError(t, err)
	require.Empty(t, rows)
	c := b.claim(1)[0]
	require.Equal(t, start.Add(testLease), wake(), "the lease")
	b.clock.Advance(time.Second)
	r := b.result(c, dag.StateUpForRetry)
	b.apply(r)
	require.Equal(t, b.clock.Now(), wake())
	b.pass()
	require.Equal(t, *r.NextTryAt, wake(), "the retry")
	_, err = b.s.SetPaused(ctx, "d", true)
	require.NoError(t, err)
	require.Zero(t, wake())
}
