package store_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/sqltest"
	"github.com/airlock-dag/airlock/sql/store"
)

// still is a clock that stands still, so that what was counted a moment ago
// never grows old.
type still struct {
	dag.SystemClock
	at time.Time
}

func (s still) Now() time.Time { return s.at }

// throughProxy opens a store whose statements a proxy counts, over runs that wait.
func throughProxy(t *testing.T, dsn string, runs, width int) (*store.Store, *sqltest.CutProxy) {
	t.Helper()
	manyRuns(t, open(t, dsn), runs, width)
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	proxy := sqltest.CutAtCommit(t, u.Host, false)
	u.Host = proxy.Addr
	s, err := store.Open(t.Context(), u.String(), store.Options{MaxConns: 1, Clock: still{at: time.Now().UTC()}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() }) // before the proxy's, which waits for it
	return s, proxy
}

// The end of a lone task and the start of the next are two round trips beside
// the question for the time, which this store asks its own clock: the result, the
// run's row and the number of the pass together with BEGIN; the start with COMMIT.
func TestRoundTripsFromATaskToTheNext(t *testing.T) {
	t.Parallel()
	for _, server := range sqltest.Servers(t) {
		s, proxy := throughProxy(t, server.DSN, 1, 1)
		p := dag.ClaimParams{WorkerID: "w", N: 1, Lease: time.Minute}
		claims, _, err := s.ScheduleAndClaim(t.Context(), dag.SchedulePass{Limit: 10}, p, evaluate(s))
		require.NoError(t, err)
		for _, next := range []string{"p0", "join"} {
			require.Len(t, claims, 1)
			before := proxy.Trips()
			_, claims, _, err = s.ExchangeAndSchedule(t.Context(), []dag.Result{success(claims[0], time.Now().UTC())}, p, evaluate(s))
			require.NoError(t, err)
			require.Len(t, claims, 1)
			require.Equal(t, next, claims[0].TaskID)
			require.Equal(t, 2, proxy.Trips()-before, next)
		}
	}
}

// Where others wait in the queue the next task is another run's, and it takes
// one round trip more: what is queued, with the look at the queue. The claim goes
// with COMMIT, and the run of what is claimed is not read: it is remembered.
func TestRoundTripsFromATaskToAnothers(t *testing.T) {
	t.Parallel()
	for _, server := range sqltest.Servers(t) {
		s, proxy := throughProxy(t, server.DSN, 3, 1)
		p := dag.ClaimParams{WorkerID: "w", N: 1, Lease: time.Minute}
		claims, _, err := s.ScheduleAndClaim(t.Context(), dag.SchedulePass{Limit: 10}, p, evaluate(s))
		require.NoError(t, err)
		for range 2 {
			require.Len(t, claims, 1)
			before, ended := proxy.Trips(), claims[0].RunID
			_, claims, _, err = s.ExchangeAndSchedule(t.Context(), []dag.Result{success(claims[0], time.Now().UTC())}, p, evaluate(s))
			require.NoError(t, err)
			require.Len(t, claims, 1)
			require.NotEqual(t, ended, claims[0].RunID)
			require.Equal(t, 3, proxy.Trips()-before)
			run, err := s.Run(t.Context(), claims[0].DagID, claims[0].RunID)
			require.NoError(t, err)
			run.TaskStates = nil
			require.Equal(t, run, claims[0].Run)
		}
	}
}
