package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

// A drain's COMMIT is lost: its cursor tells whether the decisions are carried
// out, and whoever gives them again carries none out twice.
func TestDrainStepAfterALostCommit(t *testing.T) {
	t.Parallel()
	for _, server := range sqltest.Servers(t) {
		direct := open(t, server.DSN)
		manyRuns(t, direct, 2, 1)
		for range 2 {
			_, err := direct.Schedule(t.Context(), dag.SchedulePass{Limit: 10}, evaluate(direct))
			require.NoError(t, err)
			claims, err := direct.Claim(t.Context(), dag.ClaimParams{WorkerID: "w", N: 10, Lease: time.Minute})
			require.NoError(t, err)
			for _, c := range claims {
				at := time.Now().UTC()
				r := success(c, at)
				l := dag.Seal(dag.SealInput{TI: c.TaskInstance, Run: c.Run, Attempts: 1, At: at})
				r.State, r.Letter, r.Spent = dag.StateFailed, &l, dag.BudgetFailures
				_, err := direct.Apply(t.Context(), []dag.Result{r})
				require.NoError(t, err)
			}
		}
		for _, dropAnswer := range []bool{true, false} {
			id := map[bool]string{true: "answer", false: "request"}[dropAnswer]
			d, err := direct.NewDrain(t.Context(), dag.Drain{ID: id, Limit: 1, MaxReturns: 3, PauseShare: 1, Actor: "test"})
			require.NoError(t, err)
			page, err := direct.ReplayPage(t.Context(), dag.LetterFilter{Limit: 1, UpTo: d.MaxID}, id)
			require.NoError(t, err)
			require.Len(t, page, 1)
			step := dag.DrainStep{
				Other: dag.DrainStretch{Verdicts: []dag.ReplayVerdict{{Case: page[0], Decision: dag.DecisionReplayed}}, UpTo: page[0].Letter.ID, Last: true},
				GPU:   dag.DrainStretch{UpTo: page[0].Letter.ID, Last: true},
			}
			s, proxy := cutOff(t, server.DSN, dropAnswer, 1)
			proxy.Arm()
			res, err := s.DrainStep(t.Context(), id, step, "test")
			require.NoError(t, err)
			require.Equal(t, 1, proxy.Cuts())
			require.Equal(t, dropAnswer, res.Drain.State == dag.DrainDone, "applied and known, or not applied and known")
			res, err = s.DrainStep(t.Context(), id, step, "test")
			require.NoError(t, err)
			require.Equal(t, []any{dag.DrainDone, 1}, []any{res.Drain.State, res.Drain.Replayed})
			require.NoError(t, s.Close())
			var n int
			require.NoError(t, direct.DB().Reader().Get(&n, "SELECT COUNT(*) FROM dead_letter_audit WHERE drain_id = ?", id))
			require.Equal(t, 1, n)
		}
		broken, err := direct.Check(t.Context())
		require.NoError(t, err)
		require.Empty(t, broken)
	}
}
