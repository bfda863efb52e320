package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// wide is a DAG of n independent tasks with room for all of them.
func wide(id string, n int) *dag.DAG {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("t%04d", i))
	}
	d := oneDAG(id, names...)
	d.MaxActiveTasks = n
	return d
}

func testClaimsAreNotShared(t *testing.T, b *bundle) {
	ctx := t.Context()
	require.NoError(t, b.s.SetPool(ctx, dag.Pool{Name: dag.DefaultPool, Slots: -1}))
	const tasks = 300
	b.trigger(wide("d", tasks), "r")
	require.Equal(t, tasks, b.pass().Queued)
	var mu sync.Mutex
	owner := map[int64]string{}
	var g sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		s := b.s
		if i%2 == 1 {
			s = b.open()
		}
		g.Go(func() {
			me := fmt.Sprint("w", i)
			for {
				got, err := s.Claim(ctx, dag.ClaimParams{WorkerID: me, N: 7, Lease: testLease})
				if err != nil || len(got) == 0 {
					errs[i] = err
					return
				}
				mu.Lock()
				for _, c := range got {
					if other, twice := owner[c.ID]; twice {
						errs[i] = fmt.Errorf("%s and %s both hold %d", other, me, c.ID)
					}
					owner[c.ID] = c.WorkerID
				}
				mu.Unlock()
			}
		})
	}
	g.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Len(t, owner, tasks)
	require.Equal(t, tasks, b.count("SELECT COUNT(*) FROM task_instance WHERE state = 'running' AND fence = 1 AND try_number = 1"))
	b.sound()
}

func testClaimOrder(t *testing.T, b *bundle) {
	ctx := t.Context()
	d := oneDAG("d", "a", "b", "c")
	d.Tasks[0].Queue, d.Tasks[1].PriorityWeight, d.Tasks[2].Queue = "gpu", 7, "gpu"
	d.Tasks[2].PriorityWeight = 3
	one, two := b.trigger(d, "r1"), b.trigger(d, "r2")
	b.pass()
	claim := func(p dag.ClaimParams) (out []string) {
		p.WorkerID, p.Lease = "w", testLease
		got, err := b.s.Claim(ctx, p)
		require.NoError(t, err)
		for _, c := range got {
			out = append(out, c.RunID+"."+c.TaskID)
		}
		return out
	}
	require.Empty(t, claim(dag.ClaimParams{N: 5, Queues: []string{"other"}}))
	require.Empty(t, claim(dag.ClaimParams{N: 0}))
	require.Equal(t, []string{"r1.c"}, claim(dag.ClaimParams{N: 1, Queues: []string{"gpu", "other"}}))
	require.Equal(t, []string{"r2.b", "r2.c"}, claim(dag.ClaimParams{N: 2, OnlyRun: two.ID}))
	require.Equal(t, []string{"r1.b", "r1.a", "r2.a"}, claim(dag.ClaimParams{N: 9}))
	require.Empty(t, claim(dag.ClaimParams{N: 9, OnlyRun: one.ID}))
}

func testLeases(t *testing.T, b *bundle) {
	ctx := t.Context()
	b.trigger(oneDAG("d", "a", "b", "c"), "r")
	b.pass()
	claims := b.claim(10)
	require.Len(t, claims, 3)
	lease := func(i int) dag.Lease { return dag.Lease{TaskInstanceID: claims[i].ID, Fence: claims[i].Fence} }
	mine := func(i int) bool {
		ok, err := b.s.StillMine(ctx, lease(i))
		require.NoError(t, err)
		return ok
	}
	b.clock.Advance(20 * time.Second)
	foreign := dag.Lease{TaskInstanceID: claims[2].ID, Fence: claims[2].Fence + 1}
	asked := []dag.Lease{lease(1), foreign, lease(0), {TaskInstanceID: 999999, Fence: 1}}
	gone, err := b.s.LostLeases(ctx, asked)
	require.NoError(t, err)
	require.Equal(t, []dag.Lease{foreign, {TaskInstanceID: 999999, Fence: 1}}, gone)
	lost, err := b.s.Renew(ctx, asked, testLease)
	require.NoError(t, err)
	require.ElementsMatch(t, []dag.Lease{foreign, {TaskInstanceID: 999999, Fence: 1}}, lost)
	expired, err := b.s.Expired(ctx, 10)
	require.NoError(t, err)
	require.Empty(t, expired)

	b.clock.Advance(11 * time.Second) // c's lease was 30 s and has not been renewed
	require.True(t, mine(0))
	require.False(t, mine(2))
	expired, err = b.s.Expired(ctx, 10)
	require.NoError(t, err)
	require.Len(t, expired, 1)
	require.Equal(t, claims[2].ID, expired[0].ID)
	require.Equal(t, "d", expired[0].Run.DagID)

	// The reaper may not take what is alive, whatever it believes.
	alive := b.result(claims[0], dag.StateUpForRetry)
	alive.Reaped, alive.Spent = true, dag.BudgetCrashes
	dead := b.result(expired[0], dag.StateUpForRetry)
	dead.Reaped, dead.Spent = true, dag.BudgetCrashes
	// Nor what it looked at long ago: it has waited for its transaction, and so
	// have the renewals.
	old := dead
	old.Attempt.EndDate = b.clock.Now().Add(-10 * time.Second)
	require.Equal(t, []dag.ApplyStatus{dag.StaleFence}, b.apply(old))
	require.Equal(t, []dag.ApplyStatus{dag.StaleFence, dag.Applied}, b.apply(alive, dead))
	require.Equal(t, []dag.ApplyStatus{dag.StaleFence}, b.apply(b.result(claims[2], dag.StateSuccess)), "the dead worker comes back too late")
	got := b.instance(claims[2].Run, "c")
	require.Equal(t, dag.StateUpForRetry, got.State)
	require.Equal(t, 1, got.CrashCount)
	require.Equal(t, 0, got.FailureCount)
	require.Equal(t, int64(2), got.Fence)

	// A lease that ended but was not taken over can be renewed.
	b.clock.Advance(time.Hour)
	lost, err = b.s.Renew(ctx, []dag.Lease{lease(0), lease(1), lease(2)}, testLease)
	require.NoError(t, err)
	require.Equal(t, []dag.Lease{lease(2)}, lost)
	require.True(t, mine(0))
	b.sound()
}

func testStaleInBatch(t *testing.T, b *bundle) {
	b.trigger(oneDAG("d", "a", "b", "c"), "r")
	b.pass()
	claims := b.claim(10)
	results := []dag.Result{b.result(claims[0], dag.StateSuccess), b.result(claims[1], dag.StateFailed), b.result(claims[2], dag.StateUpForRetry)}
	results[1].Fence++
	results[1].XComs = map[string]json.RawMessage{"k": raw("1")}
	results[1].Events = dag.TaskEvents(&dag.DAG{ID: "d"}, &dag.Task{ID: "b", Callbacks: dag.Callbacks{OnFailure: []dag.Callback{{Name: "log"}}}},
		claims[1].TaskInstance, claims[1].Run, dag.EventFailure, nil, nil, "", start)
	gone := results[0]
	gone.TaskInstanceID = 424242
	require.Equal(t, []dag.ApplyStatus{dag.Applied, dag.StaleFence, dag.Applied, dag.StaleFence}, b.apply(append(results, gone)...))
	require.Equal(t, map[string]dag.State{"a": dag.StateSuccess, "b": dag.StateRunning, "c": dag.StateUpForRetry}, b.states(claims[0].Run))
	for _, table := range []string{"dead_letter", "xcom", "callback_event"} {
		require.Zero(t, b.count("SELECT COUNT(*) FROM "+table), table)
	}
	require.Equal(t, 2, b.count("SELECT COUNT(*) FROM task_attempt"))
	b.sound()
}

func testApplyTwice(t *testing.T, b *bundle) {
	b.trigger(oneDAG("d", "a", "b"), "r")
	b.pass()
	claims := b.claim(10)
	results := []dag.Result{b.result(claims[0], dag.StateFailed), b.result(claims[1], dag.StateUpForRetry)}
	for range 3 {
		require.Equal(t, []dag.ApplyStatus{dag.Applied, dag.Applied}, b.apply(results...), "a lost answer is settled by asking again")
	}
	require.Equal(t, 1, b.count("SELECT COUNT(*) FROM dead_letter"))
	require.Equal(t, 2, b.count("SELECT COUNT(*) FROM task_attempt"))
	require.Equal(t, 1, b.instance(claims[1].Run, "b").FailureCount)
	other := results[0]
	other.Attempt.WorkerID = "another worker"
	require.Equal(t, []dag.ApplyStatus{dag.StaleFence}, b.apply(other))
	require.Equal(t, []dag.ApplyStatus{dag.Applied, dag.StaleFence}, b.apply(results[0], b.result(claims[0], dag.StateSuccess)))
	b.sound()
}

func testBudgets(t *testing.T, b *bundle) {
	run := b.trigger(oneDAG("d", "a"), "r")
	again := func(change func(r *dag.Result)) dag.TaskInstance {
		b.clock.Advance(10 * time.Minute)
		b.pass()
		c := b.claimTask("a")
		b.clock.Advance(time.Second)
		r := b.result(c, dag.StateUpForRetry)
		r.DelayCeiling, r.Delay = 20*time.Second, 7*time.Second
		change(&r)
		require.Equal(t, []dag.ApplyStatus{dag.Applied}, b.apply(r))
		return b.instance(run, "a")
	}
	ti := again(func(r *dag.Result) {})
	first := *ti.FirstFailedAt
	require.Equal(t, b.clock.Now(), first)
	require.Equal(t, []int{1, 1, 0}, []int{ti.TryNumber, ti.FailureCount, ti.CrashCount})
	require.Equal(t, b.clock.Now().Add(5*time.Minute), *ti.NextTryAt)
	ti = again(func(r *dag.Result) { r.Spent = dag.BudgetCrashes })
	require.Equal(t, []int{2, 1, 1}, []int{ti.TryNumber, ti.FailureCount, ti.CrashCount})
	ti = again(func(r *dag.Result) { r.Spent, r.SpendTry, r.ThrottledFor = dag.BudgetThrottling, false, 90*time.Second })
	require.Equal(t, []int{2, 1, 1}, []int{ti.TryNumber, ti.FailureCount, ti.CrashCount})
	require.Equal(t, 90*time.Second, ti.ThrottledFor)
	ti = again(func(r *dag.Result) {
		r.State, r.Spent, r.SpendTry, r.NextTryAt, r.Attempt.ErrorCode = dag.StateQueued, "", false, nil, ""
	})
	require.Equal(t, []int{2, 1, 1}, []int{ti.TryNumber, ti.FailureCount, ti.CrashCount})
	require.Equal(t, dag.StateQueued, ti.State)
	require.Nil(t, ti.StartDate)
	require.Equal(t, first, *ti.FirstFailedAt)
	c := b.claimTask("a")
	require.Equal(t, int64(5), c.Fence)
	b.apply(b.result(c, dag.StateSuccess))
	attempts, err := b.s.Attempts(t.Context(), c.TaskInstanceKey)
	require.NoError(t, err)
	var tries, fences []int
	for _, a := range attempts {
		tries, fences = append(tries, a.TryNumber), append(fences, int(a.Fence))
	}
	require.Equal(t, []int{1, 2, 3, 3}, tries, "a throttled attempt is kept and spends no number")
	require.Equal(t, []int{1, 2, 3, 5}, fences, "a hand-back is no attempt")
	require.Equal(t, 20*time.Second, attempts[0].DelayCeiling)
	require.Equal(t, 7*time.Second, attempts[0].Delay)
	b.sound()
}

func testReschedule(t *testing.T, b *bundle) {
	run := b.trigger(oneDAG("d", "sensor"), "r")
	b.pass()
	for range 3 {
		c := b.claimTask("sensor")
		require.Equal(t, 1, c.TryNumber, "every poke is the same try")
		require.Equal(t, start, *c.StartDate)
		r := b.result(c, dag.StateUpForReschedule)
		r.SpendTry, r.NextTryAt = false, ptr(b.clock.Now().Add(time.Minute))
		b.apply(r)
		require.Zero(t, b.pass().Queued)
		b.clock.Advance(time.Minute)
		require.Equal(t, 1, b.pass().Queued)
	}
	c := b.claimTask("sensor")
	b.apply(b.result(c, dag.StateSuccess))
	require.Equal(t, 1, b.count("SELECT COUNT(*) FROM task_attempt"))
	b.pass()
	require.Equal(t, dag.RunSuccess, b.run(run).State)
	b.sound()
}
