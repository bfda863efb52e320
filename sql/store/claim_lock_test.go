package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/sqltest"
	"github.com/airlock-dag/airlock/sql/store"
)

// A claim looks at the runs of what it claims, and waits for nobody who holds one:
// that may be a pass over many.
func TestAClaimWaitsForNoRun(t *testing.T) {
	t.Parallel()
	for _, server := range sqltest.Servers(t) {
		s := open(t, server.DSN)
		manyRuns(t, s, 2, 1)
		_, err := s.Schedule(t.Context(), dag.SchedulePass{Limit: 10}, evaluate(s))
		require.NoError(t, err)
		tx, err := sqltest.Open(t, server.DSN).Writer().BeginTxx(t.Context(), nil)
		require.NoError(t, err)
		defer func() { _ = tx.Rollback() }()
		var ids []int64
		require.NoError(t, tx.Select(&ids, "SELECT id FROM dag_run FOR UPDATE"))
		require.Len(t, ids, 2)
		repeated := false
		other, err := store.Open(t.Context(), server.DSN, store.Options{OnRepeat: func(string) { repeated = true }})
		require.NoError(t, err)
		defer func() { _ = other.Close() }()
		claims, err := other.Claim(t.Context(), dag.ClaimParams{WorkerID: "w", N: 2, Lease: time.Minute})
		require.NoError(t, err)
		require.Len(t, claims, 2)
		require.False(t, repeated, "it waited for a lock until that was refused")
	}
}
