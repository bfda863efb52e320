package store_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/sqltest"
	"github.com/airlock-dag/airlock/sql/store"
)

// limited are three DAGs with every kind of limit in one small pool, and their
// runs.
func limited(t *testing.T, s *store.Store, runs int) {
	t.Helper()
	require.NoError(t, s.SetPool(t.Context(), dag.Pool{Name: "small", Slots: 5}))
	for i := range 3 {
		d := &dag.DAG{ID: fmt.Sprint("d", i), MaxActiveRuns: 4, MaxActiveTasks: 2, Timezone: "UTC"}
		for _, task := range []struct {
			id string
			up []string
		}{{"a", nil}, {"b", []string{"a"}}, {"c", []string{"a"}}, {"e", []string{"b"}}, {"f", []string{"c"}}, {"g", []string{"e", "f"}}} {
			d.Tasks = append(d.Tasks, dag.Task{
				ID: task.id, Operator: "bash", Queue: dag.DefaultQueue, Pool: "small", PoolSlots: 1, PriorityWeight: 1, WeightRule: "absolute",
				Upstream: task.up, TriggerRule: dag.AllSuccess, Retry: dag.RetryPolicy{Retries: 9},
			})
		}
		d.Tasks[0].MaxActiveTisPerDag, d.Tasks[5].MaxActiveTisPerDag, d.Tasks[1].MaxActiveTisPerDagrun = 2, 1, 1
		ids, err := s.SyncDAGs(t.Context(), []dag.DAGUpdate{{DAG: d}})
		require.NoError(t, err)
		for r := range runs {
			_, err := s.CreateRuns(t.Context(), []dag.NewRun{{
				Run:       dag.Run{DagID: d.ID, RunID: fmt.Sprint("r", r), Type: dag.RunManual, VersionID: ids[0], TriggeredBy: "test"},
				Instances: dag.NewInstances(d),
			}})
			require.NoError(t, err)
		}
	}
}

// While three processes schedule, and hand in results and decide what follows
// from them in one go, and a fourth clears, no committed moment shows more in use
// than a limit allows; and what they remember of runs and slots keeps none from
// its end.
func TestLimitsHoldAtEveryMoment(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		const runs = 6
		limited(t, open(t, dsn), runs)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		var over atomic.Bool
		var g sync.WaitGroup
		for i := range 3 {
			s := open(t, dsn)
			g.Go(func() { schedules(ctx, t, s, &over) })
			g.Go(func() {
				var results []dag.Result
				for n := 0; !over.Load() && ctx.Err() == nil; n++ {
					_, claims, _, err := s.ExchangeAndSchedule(ctx, results, dag.ClaimParams{WorkerID: fmt.Sprint("w", i), N: 3, Lease: time.Minute}, evaluate(s))
					if err != nil {
						t.Errorf("exchange: %v", err)
						return
					}
					results = results[:0]
					for k, c := range claims {
						at := time.Now().UTC()
						r := success(c, at)
						if (n+k)%6 == 0 {
							r.State, r.Spent, r.NextTryAt = dag.StateUpForRetry, dag.BudgetFailures, &at
						}
						results = append(results, r)
					}
				}
			})
		}
		desk := open(t, dsn)
		for cleared, live := 0, true; live; {
			require.NoError(t, ctx.Err(), "the runs have not ended")
			for what, limit := range map[string]int{
				"SUM(pool_slots) FROM task_instance WHERE pool = 'small' AND state IN ('queued', 'running', 'restarting')":                       5,
				"MAX(n) FROM (SELECT COUNT(*) AS n FROM dag_run WHERE state = 'running' AND clear_number = 0 GROUP BY dag_id) x":                 4,
				"MAX(n) FROM (SELECT COUNT(*) AS n FROM task_instance WHERE state IN ('queued', 'running') GROUP BY dag_run_id) x":               2,
				"MAX(n) FROM (SELECT COUNT(*) AS n FROM task_instance WHERE state IN ('queued', 'running') AND task_id = 'a' GROUP BY dag_id) x": 2,
				"MAX(n) FROM (SELECT COUNT(*) AS n FROM task_instance WHERE state IN ('queued', 'running') AND task_id = 'g' GROUP BY dag_id) x": 1,
			} {
				var n *int
				require.NoError(t, desk.DB().Reader().Get(&n, "SELECT "+what))
				if n != nil {
					require.LessOrEqual(t, *n, limit, what)
				}
			}
			if cleared < runs {
				_, err := desk.Clear(ctx, dag.ClearRequest{DagID: "d1", RunID: fmt.Sprint("r", cleared), Actor: "test"})
				require.NoError(t, err)
				cleared++
			}
			_, err := desk.Expired(ctx, 10)
			require.NoError(t, err)
			list, err := desk.Runs(ctx, dag.RunFilter{States: []dag.RunState{dag.RunQueued, dag.RunRunning}, Limit: 1})
			require.NoError(t, err)
			live = len(list) > 0 || cleared < runs
		}
		over.Store(true)
		g.Wait()
		broken, err := desk.Check(t.Context())
		require.NoError(t, err)
		require.Empty(t, broken)
	})
}
