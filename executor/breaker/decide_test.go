package breaker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/breaker"
)

var noon = time.Date(2026, 6, 10, 12, 0, 0, 0, time.UTC)

func policy() dag.CircuitPolicy {
	return dag.CircuitPolicy{
		FailureRate: 0.5, MinimumCalls: 4, Window: time.Minute, OpenFor: 30 * time.Second, Probes: 2, Alert: []dag.Callback{{Name: "log"}},
	}
}

func closed() dag.Circuit { return dag.Circuit{Name: "packager", State: dag.CircuitClosed} }

func settle(c dag.Circuit, calls, failures int, now time.Time) dag.Circuit {
	return breaker.Settle(c, dag.CircuitWindow{Calls: calls, Failures: failures}, breaker.Ended{}, policy(), now)
}

func TestItOpensOnAShareOfEnoughCalls(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		calls, failures int
		want            dag.CircuitState
	}{
		{0, 0, dag.CircuitClosed},
		{1, 1, dag.CircuitClosed}, // one task is not the dependency
		{3, 3, dag.CircuitClosed},
		{4, 1, dag.CircuitClosed},
		{4, 2, dag.CircuitOpen},
		{100, 49, dag.CircuitClosed},
		{100, 50, dag.CircuitOpen},
	} {
		got := settle(closed(), c.calls, c.failures, noon)
		require.Equalf(t, c.want, got.State, "%d of %d", c.failures, c.calls)
		if c.want == dag.CircuitOpen {
			require.Equal(t, 1, got.Openings)
			require.Equal(t, noon, *got.OpenedAt)
			require.Equal(t, noon.Add(30*time.Second), *got.RetryAt)
		}
	}
	require.Equal(t, "50 of 100 calls failed within 1m0s", settle(closed(), 100, 50, noon).Reason)
}

func TestAnOpenBreakerLetsNothingThroughUntilProbesAreDue(t *testing.T) {
	t.Parallel()
	c := settle(closed(), 4, 4, noon)
	same, a := breaker.Ask(c, policy(), noon.Add(29*time.Second), time.Minute)
	require.False(t, a.Go)
	require.Equal(t, noon.Add(30*time.Second), a.Until)
	require.Equal(t, c, same)

	c, a = breaker.Ask(c, policy(), noon.Add(30*time.Second), time.Minute)
	require.Equal(t, breaker.Answer{Go: true, Probe: true}, a)
	require.Equal(t, dag.CircuitHalfOpen, c.State)
	c, a = breaker.Ask(c, policy(), noon.Add(31*time.Second), time.Minute)
	require.True(t, a.Go)
	_, a = breaker.Ask(c, policy(), noon.Add(32*time.Second), time.Minute)
	require.False(t, a.Go, "two probes are under way")
	require.Equal(t, noon.Add(47*time.Second), a.Until)
	_, a = breaker.Ask(c, policy(), noon.Add(91*time.Second), time.Minute)
	require.True(t, a.Go, "their workers may be dead")
}

// halfOpen is a breaker with both probes under way since an instant.
func halfOpen(since time.Time) dag.Circuit {
	c := settle(closed(), 4, 4, noon)
	for range 2 {
		c, _ = breaker.Ask(c, policy(), since, time.Minute)
	}
	c.ChangedAt = since // as the store does
	return c
}

func probe(c dag.Circuit, phase time.Time, end breaker.End, now time.Time) dag.Circuit {
	return breaker.Settle(c, dag.CircuitWindow{}, breaker.Ended{Probes: []breaker.Probe{{Phase: phase, End: end}}}, policy(), now)
}

func TestProbesDecide(t *testing.T) {
	t.Parallel()
	since := noon.Add(time.Minute)
	c := probe(halfOpen(since), since, breaker.Success, since)
	require.Equal(t, dag.CircuitHalfOpen, c.State, "one of two")
	require.Equal(t, dag.CircuitClosed, probe(c, since, breaker.Success, since).State)

	again := probe(c, since, breaker.Failure, since)
	require.Equal(t, dag.CircuitOpen, again.State)
	require.Equal(t, 1, again.Openings, "the same opening")
	require.Equal(t, noon, *again.OpenedAt)
	require.Equal(t, since.Add(30*time.Second), *again.RetryAt)

	n := probe(halfOpen(since), since, breaker.Neutral, since)
	require.Equal(t, []int{1, 0}, []int{n.Probes, n.Successes}, "its place is free, and nothing is known")
	require.Equal(t, dag.CircuitHalfOpen, n.State)
	late := probe(halfOpen(since), noon, breaker.Failure, since)
	require.Equal(t, halfOpen(since).Probes, late.Probes, "what an earlier phase let through says nothing")
	require.Equal(t, dag.CircuitHalfOpen, late.State)
}

func TestAPersonDecides(t *testing.T) {
	t.Parallel()
	c := breaker.OpenByHand(closed(), "maintenance", noon)
	require.True(t, c.ByHand)
	require.Equal(t, 1, c.Openings)
	_, a := breaker.Ask(c, policy(), noon.Add(24*time.Hour), time.Minute)
	require.False(t, a.Go, "it stays open until it is closed by hand")
	require.Equal(t, dag.CircuitOpen, settle(c, 100, 0, noon).State)
	require.Equal(t, 1, breaker.OpenByHand(c, "still", noon).Openings)
	c = breaker.CloseByHand(c, "done")
	require.Equal(t, dag.CircuitClosed, c.State)
	require.False(t, c.ByHand)
	require.Nil(t, c.OpenedAt)
}

func TestWhoWasToldOfTheOpeningIsToldOfTheClosing(t *testing.T) {
	t.Parallel()
	open := settle(closed(), 4, 4, noon)
	told := dag.CircuitEvents(closed(), open, noon)
	require.Len(t, told, 1)
	other := policy()
	other.Alert = []dag.Callback{{Name: "webhook"}} // the file was changed meanwhile
	since := noon.Add(time.Minute)
	c, _ := breaker.Ask(open, other, since, time.Minute)
	c.ChangedAt = since
	for range 2 {
		c = breaker.Settle(c, dag.CircuitWindow{}, breaker.Ended{Probes: []breaker.Probe{{Phase: since, End: breaker.Success}}}, other, since)
	}
	require.Equal(t, dag.CircuitClosed, c.State)
	done := dag.CircuitEvents(open, c, since)
	require.Len(t, done, 1)
	require.Equal(t, told[0].Callback, done[0].Callback)
	require.Equal(t, told[0].TaskInstanceKey, done[0].TaskInstanceKey, "one lane: the opening is told first")
	require.NotEqual(t, told[0].DedupKey, done[0].DedupKey)
	require.Equal(t, told, dag.CircuitEvents(closed(), open, noon), "made again it is the same event")
}

// Whatever happens in whatever order: a breaker alerts once for each opening
// and once for each closing, in turn, and never more probes are under way than
// the policy has.
func TestAnyHistoryAlertsOncePerOpening(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c, now := closed(), noon
		alerts := map[string]int{}
		last := dag.EventCircuitClose
		step := func(next dag.Circuit) {
			if next.State != c.State {
				next.ChangedAt = now
			}
			for _, e := range dag.CircuitEvents(c, next, now) {
				alerts[e.DedupKey]++
				require.Equal(t, 1, alerts[e.DedupKey])
				require.NotEqual(t, last, e.Kind, "openings and closings take turns")
				last = e.Kind
			}
			require.LessOrEqual(t, next.Probes, policy().Probes)
			require.Equal(t, next.State == dag.CircuitClosed, next.OpenedAt == nil)
			c = next
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1:
				next, _ := breaker.Ask(c, policy(), now, time.Minute)
				step(next)
			case 2:
				calls := rapid.IntRange(0, 8).Draw(t, "calls")
				step(settle(c, calls, rapid.IntRange(0, calls).Draw(t, "failures"), now))
			case 3:
				end := breaker.End(rapid.IntRange(0, 2).Draw(t, "end"))
				step(probe(c, c.ChangedAt, end, now))
			case 4:
				step(breaker.OpenByHand(c, "by hand", now))
			case 5:
				step(breaker.CloseByHand(c, "by hand"))
			}
		}
		openings := 0
		for range alerts {
			openings++
		}
		require.LessOrEqual(t, openings, 2*c.Openings)
	})
}
