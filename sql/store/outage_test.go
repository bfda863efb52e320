package store_test

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/sqltest"
	"github.com/airlock-dag/airlock/sql/store"
)

func evaluate(s *store.Store) store.Decide {
	return func(snap *dag.RunSnapshot, now time.Time) (dag.Decision, error) {
		d, err := s.Version(context.Background(), snap.Run.VersionID)
		if err != nil {
			return dag.Decision{}, err
		}
		return dag.Evaluate(d, snap, now), nil
	}
}

// manyRuns makes n runs of a DAG with a root, some parallel tasks and a join.
func manyRuns(t testing.TB, s *store.Store, n, width int) {
	t.Helper()
	d := &dag.DAG{ID: "d", MaxActiveRuns: n, MaxActiveTasks: width + 2, Timezone: "UTC"}
	add := func(id string, up ...string) {
		d.Tasks = append(d.Tasks, dag.Task{
			ID: id, Operator: "bash", Queue: dag.DefaultQueue, Pool: dag.DefaultPool, PoolSlots: 1, PriorityWeight: 1, WeightRule: "absolute",
			Upstream: up, TriggerRule: dag.AllSuccess, Retry: dag.RetryPolicy{Retries: 2},
		})
	}
	add("root")
	var middle []string
	for i := range width {
		middle = append(middle, fmt.Sprintf("p%d", i))
		add(middle[i], "root")
	}
	add("join", middle...)
	ids, err := s.SyncDAGs(t.Context(), []dag.DAGUpdate{{DAG: d}})
	require.NoError(t, err)
	require.NoError(t, s.SetPool(t.Context(), dag.Pool{Name: dag.DefaultPool, Slots: -1}))
	now, err := s.Now(t.Context())
	require.NoError(t, err)
	var runs []dag.NewRun
	for i := range n {
		runs = append(runs, dag.NewRun{
			Run:       dag.Run{DagID: "d", RunID: fmt.Sprintf("r%d", i), Type: dag.RunManual, RunAfter: now, VersionID: ids[0]},
			Instances: dag.NewInstances(d),
		})
	}
	_, err = s.CreateRuns(t.Context(), runs)
	require.NoError(t, err)
}

func success(c dag.Claim, at time.Time) dag.Result {
	return dag.Result{
		TaskInstanceID: c.ID, Fence: c.Fence, State: dag.StateSuccess, SpendTry: true,
		Attempt: dag.Attempt{WorkerID: c.WorkerID, StartDate: *c.StartDate, EndDate: at},
	}
}

func open(t testing.TB, dsn string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), dsn, store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	require.NoError(t, s.Migrate(t.Context()))
	return s
}

// drive lets several schedulers and workers, each with a store of its own,
// work until no run is left. Errors are handed to tolerate.
func drive(t *testing.T, dsn string, processes int, tolerate func(error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	var g sync.WaitGroup
	var over atomic.Bool
	for i := range processes {
		s := open(t, dsn)
		g.Go(func() { // a scheduler that reaps, too
			for ctx.Err() == nil && !over.Load() {
				if _, err := s.Schedule(ctx, dag.SchedulePass{Limit: 20}, evaluate(s)); err != nil {
					tolerate(err)
				}
				if expired, err := s.Expired(ctx, 20); err == nil {
					for _, c := range expired {
						r := success(c, time.Now().UTC())
						at := r.Attempt.EndDate
						r.State, r.Spent, r.Reaped, r.NextTryAt = dag.StateUpForRetry, dag.BudgetCrashes, true, &at
						if _, err := s.Apply(ctx, []dag.Result{r}); err != nil {
							tolerate(err)
						}
					}
				}
				runs, err := s.Runs(ctx, dag.RunFilter{States: []dag.RunState{dag.RunQueued, dag.RunRunning}, Limit: 1})
				if err == nil && len(runs) == 0 {
					over.Store(true)
				}
			}
		})
		g.Go(func() { // a worker that hands in and takes in one go
			var results []dag.Result
			for ctx.Err() == nil && !over.Load() {
				_, claims, err := s.Exchange(ctx, results, dag.ClaimParams{WorkerID: fmt.Sprint("x", i), N: 7, Lease: 2 * time.Second})
				if err != nil {
					tolerate(err)
					continue
				}
				results = nil
				for _, c := range claims {
					results = append(results, success(c, time.Now().UTC()))
				}
			}
		})
		g.Go(func() { // a worker
			for ctx.Err() == nil && !over.Load() {
				claims, err := s.Claim(ctx, dag.ClaimParams{WorkerID: fmt.Sprint("w", i), N: 13, Lease: 2 * time.Second})
				if err != nil {
					tolerate(err)
					continue
				}
				var results []dag.Result
				for _, c := range claims {
					results = append(results, success(c, time.Now().UTC()))
				}
				for len(results) > 0 && ctx.Err() == nil {
					if _, err = s.Apply(ctx, results); err == nil {
						break
					}
					tolerate(err)
				}
			}
		})
	}
	g.Wait()
	require.True(t, over.Load(), "the runs have not ended")
}

// sound proves that all runs succeeded, that every task ran exactly once unless
// it was reaped, and that no promise is broken.
func sound(t *testing.T, s *store.Store, runs, tasks int) {
	t.Helper()
	done, err := s.Runs(t.Context(), dag.RunFilter{States: []dag.RunState{dag.RunSuccess}, Limit: -1})
	require.NoError(t, err)
	require.Len(t, done, runs)
	var n int
	require.NoError(t, s.DB().Reader().Get(&n, "SELECT COUNT(*) FROM task_instance WHERE state = 'success'"))
	require.Equal(t, runs*tasks, n)
	require.NoError(t, s.DB().Reader().Get(&n, "SELECT COUNT(*) FROM task_attempt WHERE state = 'success'"))
	require.Equal(t, runs*tasks, n, "each ended once")
	broken, err := s.Check(t.Context())
	require.NoError(t, err)
	require.Empty(t, broken)
}

func TestSeveralProcessesShareADatabase(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		s := open(t, dsn)
		manyRuns(t, s, 30, 8)
		drive(t, dsn, 3, func(err error) { t.Errorf("not tolerated: %v", err) })
		sound(t, s, 30, 10)
	})
}

// The server is killed again and again under load: nothing is lost, nothing is
// done twice.
func TestServerKilledUnderLoad(t *testing.T) {
	t.Parallel()
	server := sqltest.StartMariaDB(t)
	dsn := server.Fresh(t)
	s := open(t, dsn)
	manyRuns(t, s, 60, 8)
	var failures atomic.Int32
	stop := make(chan struct{})
	var g sync.WaitGroup
	g.Go(func() {
		for range 3 {
			select {
			case <-stop:
				return
			case <-time.After(400 * time.Millisecond):
			}
			server.Kill()
			server.Restart(t)
		}
	})
	drive(t, dsn, 2, func(error) {
		failures.Add(1)
		time.Sleep(20 * time.Millisecond) // as a loop backs off
	})
	close(stop)
	g.Wait()
	sound(t, s, 60, 10)
}

// cutOff is a store behind a proxy that cuts the connection at a COMMIT once it
// is armed.
func cutOff(t testing.TB, dsn string, dropAnswer bool, conns int) (*store.Store, *sqltest.CutProxy) {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	proxy := sqltest.CutAtCommit(t, u.Host, dropAnswer)
	u.Host = proxy.Addr
	s, err := store.Open(t.Context(), u.String(), store.Options{MaxConns: conns})
	require.NoError(t, err)
	return s, proxy
}

// The answer to a COMMIT is lost: Apply asks again and tells the truth.
func TestApplyAfterALostCommit(t *testing.T) {
	t.Parallel()
	for _, server := range sqltest.Servers(t) {
		direct := open(t, server.DSN)
		manyRuns(t, direct, 1, 3)
		for _, dropAnswer := range []bool{true, false} {
			_, err := direct.Schedule(t.Context(), dag.SchedulePass{Limit: 1}, evaluate(direct))
			require.NoError(t, err)
			claims, err := direct.Claim(t.Context(), dag.ClaimParams{WorkerID: "w", N: 1, Lease: time.Minute})
			require.NoError(t, err)
			require.Len(t, claims, 1)
			s, proxy := cutOff(t, server.DSN, dropAnswer, 1)
			proxy.Arm()
			status, err := s.Apply(t.Context(), []dag.Result{success(claims[0], time.Now().UTC())})
			require.NoError(t, err)
			require.Equal(t, []dag.ApplyStatus{dag.Applied}, status)
			require.Equal(t, 1, proxy.Cuts(), "the answer was lost once")
			require.NoError(t, s.Close())
			var n int
			require.NoError(t, direct.DB().Reader().Get(&n, "SELECT COUNT(*) FROM task_attempt WHERE task_instance_id = ?", claims[0].ID))
			require.Equal(t, 1, n)
		}
	}
}

// A claim whose COMMIT is lost is asked for: what the database has is held, and
// nothing runs nowhere.
func TestClaimAfterALostCommit(t *testing.T) {
	t.Parallel()
	for _, server := range sqltest.Servers(t) {
		direct := open(t, server.DSN)
		manyRuns(t, direct, 3, 1)
		_, err := direct.Schedule(t.Context(), dag.SchedulePass{Limit: 3}, evaluate(direct))
		require.NoError(t, err)
		for _, dropAnswer := range []bool{true, false} {
			s, proxy := cutOff(t, server.DSN, dropAnswer, 1)
			proxy.Arm()
			claims, err := s.Claim(t.Context(), dag.ClaimParams{WorkerID: "w", N: 1, Lease: time.Minute})
			require.NoError(t, err)
			require.Equal(t, 1, proxy.Cuts())
			require.Equal(t, dropAnswer, len(claims) == 1, "applied and held, or not applied and not held")
			require.NoError(t, s.Close())
		}
		var running int
		require.NoError(t, direct.DB().Reader().Get(&running, "SELECT COUNT(*) FROM task_instance WHERE state = 'running'"))
		require.Equal(t, 1, running)
	}
}

// A claim of events whose COMMIT is lost is given back by the next one: were they
// left to their lease, younger events of their lanes would be told before them.
func TestEventsKeepTheirOrderAfterALostCommit(t *testing.T) {
	t.Parallel()
	for _, server := range sqltest.Servers(t) {
		direct := open(t, server.DSN)
		put := func(key string) {
			require.NoError(t, direct.PutEvents(t.Context(), []dag.Event{{
				DedupKey: key, TaskInstanceKey: dag.TaskInstanceKey{DagID: "d", RunID: "r", TaskID: "a", MapIndex: -1}, Kind: dag.EventRetry,
				Callback: dag.Callback{Name: "airlock.callbacks.log"},
			}}))
		}
		for i, dropAnswer := range []bool{true, false} {
			older, younger := fmt.Sprintf("%d older", i), fmt.Sprintf("%d younger", i)
			put(older)
			s, proxy := cutOff(t, server.DSN, dropAnswer, 1)
			proxy.Arm()
			_, err := s.ClaimEvents(t.Context(), "w", 10, time.Minute)
			require.Error(t, err)
			require.Equal(t, 1, proxy.Cuts())
			put(younger)
			got, err := s.ClaimEvents(t.Context(), "w", 10, time.Minute)
			require.NoError(t, err)
			require.Len(t, got, 2)
			require.Equal(t, []string{older, younger}, []string{got[0].DedupKey, got[1].DedupKey})
			again, err := s.ClaimEvents(t.Context(), "w", 10, time.Minute)
			require.NoError(t, err)
			require.Empty(t, again, "held, and not given back twice")
			for _, e := range got {
				require.NoError(t, s.EventDelivered(t.Context(), e.ID))
			}
			require.NoError(t, s.Close())
		}
	}
}

// Events that go with no state change are put once more after a lost COMMIT: their
// keys tell those that are there.
func TestEventsArePutAfterALostCommit(t *testing.T) {
	t.Parallel()
	for _, server := range sqltest.Servers(t) {
		direct := open(t, server.DSN)
		for i, dropAnswer := range []bool{true, false} {
			s, proxy := cutOff(t, server.DSN, dropAnswer, 1)
			proxy.Arm()
			require.NoError(t, s.PutEvents(t.Context(), []dag.Event{{
				DedupKey: fmt.Sprint(i), TaskInstanceKey: dag.TaskInstanceKey{DagID: "d", RunID: "r", TaskID: "a", MapIndex: -1}, Kind: dag.EventExecute,
				Callback: dag.Callback{Name: "airlock.callbacks.log"},
			}}))
			require.Equal(t, 1, proxy.Cuts())
			var n int
			require.NoError(t, direct.DB().Reader().GetContext(t.Context(), &n, "SELECT COUNT(*) FROM callback_event"))
			require.Equal(t, i+1, n)
			require.NoError(t, s.Close())
		}
	}
}
