package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
)

// board keeps what workers tell of themselves, and what is said of queues.
type board struct {
	SchedulerStore
	WorkerStore
	said     chan string
	woke     chan time.Duration
	unserved []dag.UnservedQueue
}

func (b *board) NoteWorker(_ context.Context, w dag.WorkerNotice) error {
	b.said <- "here is " + w.ID + " for " + strings.Join(w.Queues, ",") + ", " + w.Alive.String()
	return nil
}

func (b *board) ForgetWorker(ctx context.Context, id string) error {
	b.said <- "gone is " + id
	return ctx.Err()
}

func (b *board) Unserved(_ context.Context, queuedFor time.Duration) ([]dag.UnservedQueue, error) {
	b.said <- "asked for " + queuedFor.String()
	return b.unserved, nil
}

func (b *board) WakeAsleep(_ context.Context, unchanged time.Duration) (int, error) {
	b.woke <- unchanged
	return 1, nil
}

// Both interfaces have these; nothing here asks for them.

func (b *board) CreateRuns(context.Context, []dag.NewRun) ([]dag.CreatedRun, error) { return nil, nil }

func (b *board) XCom(context.Context, string, string, string, string, *int) (json.RawMessage, error) {
	return nil, nil
}

func TestAWorkerSaysThatItIsThere(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	b := &board{said: make(chan string, 10)}
	w := NewWorker(WorkerOptions{Store: b, Clock: clock, ID: "w1", Queues: []string{"gpu", "io"}})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.notice(ctx) }()
	require.Equal(t, "here is w1 for gpu,io, 1m0s", <-b.said)
	clock.BlockUntil(1)
	clock.Advance(noticeEvery)
	require.Equal(t, "here is w1 for gpu,io, 1m0s", <-b.said)
	stop()
	require.Equal(t, "gone is w1", <-b.said, "as soon as it takes no more work")
	<-done

	NewWorker(WorkerOptions{Store: b, Clock: clock, ID: "test", OnlyRun: 7}).notice(ctx)
	require.Empty(t, b.said, "a test run's worker serves nobody")
}

// A round tells of queues that nobody serves, and wakes what is asleep.
func TestTheSchedulerGoesItsRounds(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	var log bytes.Buffer
	b := &board{said: make(chan string, 10), woke: make(chan time.Duration, 10), unserved: []dag.UnservedQueue{{Queue: "gpu", Tasks: 3, Workers: 2}, {Queue: "io", Tasks: 1}}}
	s := NewScheduler(SchedulerOptions{Store: b, Clock: clock, Warnings: slog.New(slog.NewTextHandler(&log, nil))})
	look := func(d time.Duration) int {
		clock.Advance(d)
		s.rounds(t.Context())
		n := len(b.said)
		require.Len(t, b.woke, n)
		for range n {
			require.Equal(t, "asked for 10s", <-b.said)
			require.Equal(t, time.Minute, <-b.woke)
			require.Len(t, s.o.Wake, 1, "the runs that it woke are to be looked at")
			<-s.o.Wake
		}
		return n
	}
	require.Zero(t, look(0), "a worker of this start may be on its way")
	require.Equal(t, 1, look(firstRound))
	require.Contains(t, log.String(), "3 tasks wait in the queue gpu, and no living worker takes from it")
	require.Contains(t, log.String(), "airlock worker --queues gpu")
	require.Contains(t, log.String(), "1 task waits in the queue io")
	require.Zero(t, look(59*time.Second))
	require.Equal(t, 1, look(time.Second), "once a minute")
	clock.Set(clock.Now().Add(-time.Hour))
	require.Equal(t, 1, look(0), "a clock that was set back does not silence it")

	s = NewScheduler(SchedulerOptions{Store: b, Clock: clock, OnlyRun: 7})
	require.Zero(t, look(0)+look(time.Hour))
}
