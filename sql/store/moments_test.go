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

// schedules runs passes until somebody says that it is over.
func schedules(ctx context.Context, t testing.TB, s *store.Store, over *atomic.Bool) {
	for !over.Load() && ctx.Err() == nil {
		if _, err := s.Schedule(ctx, dag.SchedulePass{Limit: 7}, evaluate(s)); err != nil {
			t.Errorf("schedule: %v", err)
			return
		}
	}
}

// While several processes fail, retry, seal, renew and succeed, a person lists,
// clears and checks from yet another one. No call fails, and no committed moment
// shows a broken promise.
func TestPromisesHoldAtEveryMoment(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		s := open(t, dsn)
		const runs = 25
		manyRuns(t, s, runs, 8)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		var over atomic.Bool
		var g sync.WaitGroup
		for i := range 2 {
			s := open(t, dsn)
			g.Go(func() { schedules(ctx, t, s, &over) })
			g.Go(func() {
				for n := 0; !over.Load() && ctx.Err() == nil; n++ {
					claims, err := s.Claim(ctx, dag.ClaimParams{WorkerID: fmt.Sprint("w", i), N: 9, Lease: time.Minute})
					if err != nil {
						t.Errorf("claim: %v", err)
						return
					}
					var leases []dag.Lease
					var results []dag.Result
					for k, c := range claims {
						leases = append(leases, dag.Lease{TaskInstanceID: c.ID, Fence: c.Fence})
						results = append(results, mixed(c, n+k))
					}
					if _, err := s.Renew(ctx, leases, time.Minute); err != nil {
						t.Errorf("renew: %v", err)
						return
					}
					if _, err := s.Apply(ctx, results); err != nil {
						t.Errorf("apply: %v", err)
						return
					}
				}
			})
		}
		desk := open(t, dsn)
		for round := 0; ctx.Err() == nil; round++ {
			broken, err := desk.Check(ctx)
			require.NoError(t, err)
			require.Empty(t, broken)
			_, err = desk.Letters(ctx, dag.LetterFilter{})
			require.NoError(t, err)
			if round < 15 {
				_, err = desk.Clear(ctx, dag.ClearRequest{DagID: "d", RunID: fmt.Sprintf("r%d", round%runs), Actor: "test", OnlyFailed: round%2 == 0})
				require.NoError(t, err)
				continue
			}
			live, err := desk.Runs(ctx, dag.RunFilter{States: []dag.RunState{dag.RunQueued, dag.RunRunning}, Limit: 1})
			require.NoError(t, err)
			if len(live) == 0 {
				break
			}
			// Cleared attempts whose worker was done before it knew.
			_, err = desk.Expired(ctx, 10)
			require.NoError(t, err)
		}
		over.Store(true)
		g.Wait()
		require.NoError(t, ctx.Err(), "the runs have not ended")
		var sealed, failed int
		require.NoError(t, desk.DB().Reader().Get(&sealed, "SELECT COUNT(*) FROM dead_letter WHERE status = 'sealed'"))
		require.NoError(t, desk.DB().Reader().Get(&failed, "SELECT COUNT(*) FROM task_instance WHERE state = 'failed'"))
		require.Equal(t, failed, sealed)
	})
}

// mixed ends an attempt in one of three ways.
func mixed(c dag.Claim, n int) dag.Result {
	at := time.Now().UTC()
	r := success(c, at)
	switch {
	case n%17 == 0:
		l := dag.Seal(dag.SealInput{TI: c.TaskInstance, Run: c.Run, Attempts: c.TryNumber, At: at})
		r.State, r.Letter, r.Spent = dag.StateFailed, &l, dag.BudgetFailures
	case n%5 == 0:
		r.State, r.Spent, r.NextTryAt = dag.StateUpForRetry, dag.BudgetFailures, &at
	}
	return r
}
