package retry_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/retry"
)

// draws gives fixed values and counts how often it was asked.
type draws struct {
	value float64
	asked int
}

func (d *draws) Float64() float64 { d.asked++; return d.value }

func attempt(k int) retry.Attempt {
	return retry.Attempt{DagID: "media", TaskID: "probe", TryNumber: k, Failures: k}
}

func TestManyRetriesStayWithinTheCap(t *testing.T) {
	t.Parallel()
	p := dag.RetryPolicy{Retries: 1000, Delay: 5 * time.Minute, Exponential: 2, MaxDelay: time.Hour}
	uncapped := p
	uncapped.MaxDelay = 0
	for k, base := range map[int]time.Duration{1: 5 * time.Minute, 2: 10 * time.Minute, 3: 20 * time.Minute, 4: 40 * time.Minute} {
		d := retry.Next(p, attempt(k), nil)
		require.Equal(t, base, d.Base, k)
		require.GreaterOrEqual(t, d.Delay, min(base, time.Hour), k)
		require.LessOrEqual(t, d.Delay, min(2*base, time.Hour), k)
	}
	for _, k := range []int{5, 6, 60, 63, 64, 65, 400, 999, 1100, math.MaxInt32, math.MaxInt} {
		require.Equal(t, time.Hour, retry.Next(p, attempt(k), nil).Delay, k)
		d := retry.Next(uncapped, attempt(k), nil).Delay
		require.Positive(t, d, k)
		require.LessOrEqual(t, d, retry.Limit, k)
	}
	for _, k := range []int{0, -1, math.MinInt} {
		require.Equal(t, retry.Next(p, attempt(1), nil), retry.Next(p, attempt(k), nil), "an attempt number below 1 counts as 1")
	}
}

func TestOddNumbersNeverBreakTheFormula(t *testing.T) {
	t.Parallel()
	for _, m := range []float64{math.Inf(1), math.Inf(-1), math.NaN(), -3, 0, 1, 1e308, 5e-324, 0.5} {
		for _, delay := range []time.Duration{0, -time.Second, 1, time.Hour, math.MaxInt64, math.MinInt64} {
			for _, k := range []int{1, 2, 1 << 40} {
				d := retry.AirflowDelay(retry.AirflowInput{Try: k, Delay: delay, Exponential: m})
				require.GreaterOrEqual(t, d.Delay, time.Duration(0))
				if m > 0 && m != 1 {
					require.LessOrEqual(t, d.Delay, retry.Limit)
				}
			}
		}
	}
}

func TestClassCeilings(t *testing.T) {
	t.Parallel()
	seconds := func(s ...int) []time.Duration {
		out := make([]time.Duration, len(s))
		for i := range s {
			out[i] = time.Duration(s[i]) * time.Second
		}
		return out
	}
	cases := map[string]struct {
		class dag.ClassPolicy
		want  []time.Duration
	}{
		"cpu.metadata":  {dag.ClassPolicy{MaxRetries: 15, BackoffBase: 2 * time.Second, BackoffMax: 60 * time.Second}, seconds(2, 4, 8, 16, 32, 60, 60)},
		"gpu.transcode": {dag.ClassPolicy{MaxRetries: 3, BackoffBase: 10 * time.Second, BackoffMax: 600 * time.Second}, seconds(10, 20, 40)},
		"io.upload":     {dag.ClassPolicy{MaxRetries: 8, BackoffBase: 2 * time.Second, BackoffMax: 120 * time.Second}, seconds(2, 4, 8, 16, 32, 64, 120, 120)},
	}
	for name, c := range cases {
		for i, want := range c.want {
			c.class.Jitter = dag.JitterNone
			d := retry.Next(dag.RetryPolicy{Class: &c.class}, attempt(i+1), nil)
			require.Equal(t, want, d.Delay, "%s retry %d", name, i+1)
			require.Equal(t, "class:none", d.Source)
		}
	}
}

func TestDrawEnds(t *testing.T) {
	t.Parallel()
	const s = time.Second
	cases := []struct {
		name     string
		class    dag.ClassPolicy
		k        int
		previous time.Duration
		lo, hi   time.Duration
	}{
		{"full", dag.ClassPolicy{BackoffBase: 10 * s, BackoffMax: 600 * s, Jitter: dag.JitterFull}, 3, 0, 0, 40 * s},
		{"full is the default", dag.ClassPolicy{BackoffBase: 10 * s, BackoffMax: 600 * s}, 1, 0, 0, 10 * s},
		{"full above a floor", dag.ClassPolicy{BackoffBase: 10 * s, BackoffMax: 600 * s, MinDelay: 3 * s, Jitter: dag.JitterFull}, 1, 0, 3 * s, 10 * s},
		{"a floor above the ceiling lifts it", dag.ClassPolicy{BackoffBase: s, BackoffMax: 600 * s, MinDelay: 5 * s, Jitter: dag.JitterFull}, 1, 0, 5 * s, 5 * s},
		{"equal", dag.ClassPolicy{BackoffBase: 10 * s, BackoffMax: 600 * s, Jitter: dag.JitterEqual}, 2, 0, 10 * s, 20 * s},
		{"drawn after the cap", dag.ClassPolicy{BackoffBase: 10 * s, BackoffMax: 60 * s, Jitter: dag.JitterEqual}, 500, 0, 30 * s, 60 * s},
		{"decorrelated, first", dag.ClassPolicy{BackoffBase: 10 * s, BackoffMax: 600 * s, Jitter: dag.JitterDecorrelated}, 1, 0, 10 * s, 30 * s},
		{"decorrelated, later", dag.ClassPolicy{BackoffBase: 10 * s, BackoffMax: 600 * s, Jitter: dag.JitterDecorrelated}, 2, 25 * s, 10 * s, 75 * s},
		{"decorrelated, capped", dag.ClassPolicy{BackoffBase: 10 * s, BackoffMax: 60 * s, Jitter: dag.JitterDecorrelated}, 9, math.MaxInt64, 10 * s, 60 * s},
		{"no cap given", dag.ClassPolicy{BackoffBase: 10 * s, Jitter: dag.JitterFull}, 1000, 0, 0, 24 * time.Hour},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := attempt(c.k)
			a.PreviousDelay = c.previous
			low, high := &draws{value: 0}, &draws{value: math.Nextafter(1, 0)}
			got := retry.Next(dag.RetryPolicy{Class: &c.class}, a, low)
			require.Equal(t, c.lo, got.Delay)
			require.Equal(t, c.hi, got.Ceiling)
			require.LessOrEqual(t, low.asked, 1, "drawn at most once")
			got = retry.Next(dag.RetryPolicy{Class: &c.class}, a, high)
			require.InDelta(t, float64(c.hi), float64(got.Delay), float64(time.Millisecond))
			require.LessOrEqual(t, got.Delay, c.hi)
		})
	}
}

func TestAnyPolicyStaysWithinItsCap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := dag.ClassPolicy{
			BackoffBase: time.Duration(rapid.Int64().Draw(t, "base")),
			BackoffMax:  time.Duration(rapid.Int64().Draw(t, "max")),
			MinDelay:    time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "min")),
			Jitter:      rapid.SampledFrom([]dag.Jitter{"", dag.JitterFull, dag.JitterEqual, dag.JitterDecorrelated, dag.JitterNone}).Draw(t, "jitter"),
		}
		a := attempt(rapid.Int().Draw(t, "k"))
		a.PreviousDelay = time.Duration(rapid.Int64().Draw(t, "previous"))
		d := retry.Next(dag.RetryPolicy{Class: &c}, a, &draws{value: rapid.Float64Range(0, 1).Draw(t, "draw")})
		limit := c.BackoffMax
		if limit <= 0 {
			limit = retry.Limit
		}
		require.GreaterOrEqual(t, d.Delay, c.MinDelay)
		require.LessOrEqual(t, d.Delay, max(limit, c.MinDelay))
		require.LessOrEqual(t, d.Delay, d.Ceiling)
	})
}

func TestNarrowedByCode(t *testing.T) {
	t.Parallel()
	class := dag.ClassPolicy{MaxRetries: 8, BackoffBase: 2 * time.Second, BackoffMax: 2 * time.Minute, Jitter: dag.JitterNone}
	p := dag.RetryPolicy{
		Retries: 8, Class: &class,
		ByCode: map[string]dag.ClassPolicy{"HTTP_429": {MaxRetries: 3, BackoffBase: 30 * time.Second}},
	}
	a := attempt(2)
	require.Equal(t, 4*time.Second, retry.Next(p, a, nil).Delay)
	a.ErrorCode = "HTTP_429"
	require.Equal(t, time.Minute, retry.Next(p, a, nil).Delay, "30 s doubled once, the rest of the queue's policy")
	require.Equal(t, 2*time.Second, class.BackoffBase, "the queue's policy is left alone")

	p.ByCode["HTTP_404"] = dag.ClassPolicy{BackoffBase: time.Second, Jitter: dag.JitterNone}
	a.ErrorCode = "HTTP_404"
	require.Equal(t, 2*time.Second, retry.Next(p, a, nil).Delay, "a complete entry is taken as it is")

	p.Class = nil
	p.Delay = 5 * time.Second
	a.ErrorCode = "EXIT_CODE"
	require.Equal(t, "airflow", retry.Next(p, a, nil).Source)
	a.ErrorCode = "HTTP_429"
	require.Equal(t, "class:full", retry.Next(p, a, nil).Source)
}

func TestRetryAfterIsKeptAndCapped(t *testing.T) {
	t.Parallel()
	a := attempt(1)
	a.RetryAfter = 90 * time.Second
	p := dag.RetryPolicy{Delay: time.Second}
	d := retry.Next(p, a, nil)
	require.Equal(t, 90*time.Second, d.Delay)
	require.Equal(t, "retry_after", d.Source)
	a.RetryAfter = 48 * time.Hour
	require.Equal(t, time.Hour, retry.Next(p, a, nil).Delay)
	p.MaxThrottleTime = 2 * time.Hour
	require.Equal(t, 2*time.Hour, retry.Next(p, a, nil).Delay)
}

func TestPlan(t *testing.T) {
	t.Parallel()
	end := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := dag.RetryPolicy{Retries: 3, Delay: 5 * time.Minute, Exponential: 2}
	plan := retry.Plan(p, "daily_sales", "extract", &end, end)
	require.Len(t, plan, 3)
	var due time.Duration
	for i, seconds := range []int{330, 934, 1337} { // bases 300, 600, 1200 and their hashes
		want := time.Duration(seconds) * time.Second
		due += want
		require.Equal(t, i+1, plan[i].Retry)
		require.Equal(t, want, plan[i].Min)
		require.Equal(t, end.Add(due), plan[i].Due)
		require.Equal(t, plan[i].Due, plan[i].EarliestDue)
		require.Equal(t, 24*time.Hour, plan[i].Cap)
	}

	p = dag.RetryPolicy{Retries: 3, Class: &dag.ClassPolicy{BackoffBase: 2 * time.Second, BackoffMax: 5 * time.Second, Jitter: dag.JitterEqual}}
	plan = retry.Plan(p, "d", "t", nil, end)
	require.Equal(t, []time.Duration{time.Second, 2 * time.Second, 2500 * time.Millisecond},
		[]time.Duration{plan[0].Min, plan[1].Min, plan[2].Min})
	require.Equal(t, end.Add(11*time.Second), plan[2].Due, "2 + 4 + 5")
	require.Equal(t, end.Add(5500*time.Millisecond), plan[2].EarliestDue)

	require.Empty(t, retry.Plan(dag.RetryPolicy{Retries: -1}, "d", "t", nil, end))
	require.Len(t, retry.Plan(dag.RetryPolicy{Retries: math.MaxInt, Delay: time.Second, Exponential: 2}, "d", "t", nil, end), 10_000)
}

func BenchmarkAirflowDelay(b *testing.B) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	in := retry.AirflowInput{DagID: "daily_sales", TaskID: "extract", LogicalDate: &at, Try: 20, Delay: time.Minute, Exponential: 1.5}
	for b.Loop() {
		retry.AirflowDelay(in)
	}
}
