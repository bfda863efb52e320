package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

// The COMMIT of results, of what follows from them and of claims is lost: whether
// it was carried out or not, the results are, what was claimed is told, and
// nothing is claimed without its worker's knowing.
func TestExchangeAndScheduleAfterALostCommit(t *testing.T) {
	t.Parallel()
	for _, server := range sqltest.Servers(t) {
		direct := open(t, server.DSN)
		manyRuns(t, direct, 4, 2)
		_, err := direct.Schedule(t.Context(), dag.SchedulePass{Limit: 10}, evaluate(direct))
		require.NoError(t, err)
		claims, err := direct.Claim(t.Context(), dag.ClaimParams{WorkerID: "w", N: 2, Lease: time.Minute})
		require.NoError(t, err)
		require.Len(t, claims, 2)
		for i, dropAnswer := range []bool{true, false} {
			s, proxy := cutOff(t, server.DSN, dropAnswer, 2)
			decide := evaluate(s)
			proxy.Arm()
			status, next, report, err := s.ExchangeAndSchedule(t.Context(), []dag.Result{success(claims[i], time.Now().UTC())},
				dag.ClaimParams{WorkerID: "w", N: 1, Lease: time.Minute}, decide)
			require.NoError(t, err)
			require.Equal(t, 1, proxy.Cuts())
			require.Equal(t, []dag.ApplyStatus{dag.Applied}, status)
			require.True(t, report.Left, "somebody has to look what followed")
			require.Equal(t, dropAnswer, len(next) == 1)
			held, err := direct.Held(t.Context(), "w")
			require.NoError(t, err)
			require.Len(t, held, 2-i, "one more was claimed, and then none")
			for _, c := range next {
				require.True(t, slices.ContainsFunc(held, func(h dag.Claim) bool { return h.ID == c.ID && h.Fence == c.Fence }))
			}
			require.NoError(t, s.Close())
		}
		broken, err := direct.Check(t.Context())
		require.NoError(t, err)
		require.Empty(t, broken)
	}
}

// The COMMIT of a pass that takes what it finds is lost: it says so, and gives
// what was claimed exactly when it was.
func TestScheduleAndClaimAfterALostCommit(t *testing.T) {
	t.Parallel()
	for _, server := range sqltest.Servers(t) {
		direct := open(t, server.DSN)
		manyRuns(t, direct, 1, 2)
		for _, dropAnswer := range []bool{false, true} {
			s, proxy := cutOff(t, server.DSN, dropAnswer, 2)
			decide := evaluate(s)
			proxy.Arm()
			claims, _, err := s.ScheduleAndClaim(t.Context(), dag.SchedulePass{Limit: 10}, dag.ClaimParams{WorkerID: "w", N: 1, Lease: time.Minute}, decide)
			require.ErrorIs(t, err, dag.ErrOutcomeUnknown)
			require.Equal(t, 1, proxy.Cuts())
			held, err := direct.Held(t.Context(), "w")
			require.NoError(t, err)
			require.Equal(t, dropAnswer, len(held) == 1)
			require.Len(t, claims, len(held))
			for i := range claims {
				require.Equal(t, held[i].ID, claims[i].ID)
				require.Equal(t, held[i].Fence, claims[i].Fence)
			}
			require.NoError(t, s.Close())
		}
		broken, err := direct.Check(t.Context())
		require.NoError(t, err)
		require.Empty(t, broken)
	}
}
