package executor

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag/dagtest"
)

func TestFleetClockGoesByTheDatabase(t *testing.T) {
	t.Parallel()
	here := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	clock := dagtest.NewClock(here)
	c := &fleetClock{Clock: clock, log: slog.New(slog.DiscardHandler)}
	ask := func(ahead, took time.Duration) {
		asked := c.Now()
		database := clock.Now().Add(ahead + took/2)
		clock.Advance(took)
		c.learn(database, asked, c.Now())
	}
	ask(0, time.Second)
	require.Equal(t, clock.Now(), c.Now(), "what may be right is left alone")
	ask(5*time.Minute, 2*time.Second)
	require.Equal(t, 5*time.Minute-time.Second, c.Now().Sub(clock.Now()), "as far as is sure: the answer took two seconds")
	ask(5*time.Minute, 10*time.Millisecond)
	require.Equal(t, 5*time.Minute-5*time.Millisecond, c.Now().Sub(clock.Now()), "a quick answer tells more")
	ask(-3*time.Minute, 0)
	require.Equal(t, -3*time.Minute, c.Now().Sub(clock.Now()))
}

// setClock is a clock that can be set, beside one that cannot.
type setClock struct {
	*dagtest.Clock
	steady *dagtest.Clock
}

func (c setClock) Elapsed() time.Duration { return time.Duration(c.steady.Now().UnixNano()) }

func TestAClockThatIsSetIsNoticed(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	c := setClock{dagtest.NewClock(at), dagtest.NewClock(at)}
	j := jumps{clock: c}
	pass := func(steady, wall time.Duration) time.Duration {
		c.steady.Advance(steady)
		c.Clock.Set(c.Now().Add(wall))
		return j.look()
	}
	require.Zero(t, pass(0, 0))
	require.Zero(t, pass(time.Hour, time.Hour), "time passed")
	require.Equal(t, -time.Hour, pass(time.Second, time.Second-time.Hour))
	require.Zero(t, pass(time.Second, time.Second), "it is said once")
	require.Equal(t, 24*time.Hour, pass(time.Second, 24*time.Hour+time.Second))
	require.Zero(t, pass(time.Second, 2*time.Second), "what keeps the time right is no jump")
}
