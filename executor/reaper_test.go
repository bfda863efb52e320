package executor

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
)

// awayStore is a SchedulerStore that fails while away is set and counts how
// often it was asked for ended leases.
type awayStore struct {
	SchedulerStore
	CatalogStore
	WorkerStore
	away          *bool
	asked, reaped *int
}

func (s awayStore) CreateRuns(context.Context, []dag.NewRun) ([]dag.CreatedRun, error) {
	return nil, nil
}

func (s awayStore) XCom(context.Context, string, string, string, string, *int) (json.RawMessage, error) {
	return nil, nil
}

func awayScheduler(away *bool, asked, reaped *int) (*Scheduler, *dagtest.Clock) {
	clock := dagtest.NewClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	st := awayStore{away: away, asked: asked, reaped: reaped}
	return NewScheduler(SchedulerOptions{Store: st, Catalog: st, Results: st, Clock: clock, ReapDelay: 30 * time.Second}), clock
}

func (s awayStore) DueDAGs(context.Context, time.Time, int) ([]dag.DAGRow, error) {
	if *s.away {
		return nil, errRefused
	}
	return nil, nil
}

func (s awayStore) Expired(context.Context, int) ([]dag.Claim, error) {
	*s.asked++
	return []dag.Claim{claim(1, 1)}, nil
}

func (s awayStore) Now(context.Context) (time.Time, error) { return time.Time{}, nil }

func (s awayStore) Version(context.Context, int64) (*dag.DAG, error) { return echoDAG(""), nil }

func (s awayStore) Apply(_ context.Context, r []dag.Result) ([]dag.ApplyStatus, error) {
	*s.reaped += len(r)
	return make([]dag.ApplyStatus, len(r)), nil
}

func (s awayStore) Schedule(context.Context, dag.SchedulePass, func(*dag.RunSnapshot, time.Time) (dag.Decision, error)) (dag.ScheduleReport, error) {
	return dag.ScheduleReport{}, nil
}

// TestNoLeaseIsTakenOverJustAfterAnOutage: workers that lived through it get a
// lease's time to renew and to hand in their results.
func TestNoLeaseIsTakenOverJustAfterAnOutage(t *testing.T) {
	t.Parallel()
	away, asked, reaped := false, 0, 0
	s, clock := awayScheduler(&away, &asked, &reaped)
	pass := func(wantErr bool, wantAsked int) {
		t.Helper()
		_, err := s.Pass(t.Context())
		require.Equal(t, wantErr, err != nil)
		require.Equal(t, wantAsked, asked)
		clock.Advance(10 * time.Second)
	}
	pass(false, 1)
	away = true
	pass(true, 1)
	away = false
	pass(false, 1) // 10 s after the failure
	pass(false, 1)
	pass(false, 2) // 30 s
}

// TestNoLeaseIsTakenOverJustAfterAStandstill: a database that hangs gives no
// error, it only takes its time.
func TestNoLeaseIsTakenOverJustAfterAStandstill(t *testing.T) {
	t.Parallel()
	away, asked, reaped := false, 0, 0
	s, clock := awayScheduler(&away, &asked, &reaped)
	pass := func(wantReaped int, then time.Duration) {
		t.Helper()
		_, err := s.Pass(t.Context())
		require.NoError(t, err)
		require.Equal(t, wantReaped, reaped)
		clock.Advance(then)
	}
	pass(1, 10*time.Second)
	pass(2, 40*time.Second)
	pass(2, 10*time.Second) // 40 s after the last one: who lives may renew
	pass(2, 10*time.Second)
	pass(2, 10*time.Second)
	pass(3, 20*time.Second)
	// Where every pass takes that long, ended leases are found all the same.
	for range 10 {
		_, err := s.Pass(t.Context())
		require.NoError(t, err)
		clock.Advance(20 * time.Second)
	}
	require.Greater(t, reaped, 5)
}
