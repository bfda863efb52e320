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

// The end of a lone task and the start of the next are three round trips beside
// the question for the time, which this store asks its own clock: the result, the
// run's row and the number of the pass together with BEGIN; the start; COMMIT.
func TestRoundTripsFromATaskToTheNext(t *testing.T) {
	t.Parallel()
	for _, server := range sqltest.Servers(t) {
		manyRuns(t, open(t, server.DSN), 1, 1)
		u, err := url.Parse(server.DSN)
		require.NoError(t, err)
		proxy := sqltest.CutAtCommit(t, u.Host, false)
		u.Host = proxy.Addr
		s, err := store.Open(t.Context(), u.String(), store.Options{MaxConns: 1, Clock: still{at: time.Now().UTC()}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Close() }) // before the proxy's, which waits for it
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
			require.Equal(t, 3, proxy.Trips()-before, next)
		}
	}
}
