package executor

import (
	"context"
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
	away  *bool
	asked *int
}

func (s awayStore) DueDAGs(context.Context, int) ([]dag.DAGRow, error) {
	if *s.away {
		return nil, errRefused
	}
	return nil, nil
}

func (s awayStore) Expired(context.Context, int) ([]dag.Claim, error) {
	*s.asked++
	return nil, nil
}

func (s awayStore) Schedule(context.Context, dag.SchedulePass, func(*dag.RunSnapshot, time.Time) (dag.Decision, error)) (dag.ScheduleReport, error) {
	return dag.ScheduleReport{}, nil
}

// TestNoLeaseIsTakenOverJustAfterAnOutage: workers that lived through it get a
// lease's time to renew and to hand in their results.
func TestNoLeaseIsTakenOverJustAfterAnOutage(t *testing.T) {
	t.Parallel()
	away, asked := false, 0
	clock := dagtest.NewClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	s := NewScheduler(SchedulerOptions{Store: awayStore{away: &away, asked: &asked}, Clock: clock, ReapDelay: 30 * time.Second})
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
