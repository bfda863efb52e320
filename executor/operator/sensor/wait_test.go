package sensor_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/airlock-dag/airlock/executor/operator/operatortest"
	"github.com/airlock-dag/airlock/executor/operator/sensor"
)

// TestExponentialWaits has values that Python computed by Airflow's formula, for
// task work of DAG demo.
func TestExponentialWaits(t *testing.T) {
	t.Parallel()
	even := operatortest.LogicalDate()
	odd := even.Add(123456 * time.Microsecond)
	for _, c := range []struct {
		poke, timeout, elapsed, maxWait float64
		start                           time.Time
		reschedule                      bool
		count                           int
		want                            float64
	}{
		{60, 604800, 0, 0, even, false, 1, 46},
		{60, 604800, 0, 0, even, false, 2, 84},
		{60, 604800, 0, 0, even, false, 3, 234},
		{60, 604800, 0, 0, even, false, 8, 4043},
		{60, 604800, 0, 0, even, false, 200, 604800},
		{60, 604800, 0, 0, even, true, 1, 46},
		{60, 604800, 45.5, 0, even, true, 1, 46},
		{60, 604800, 100, 0, even, true, 1, 84},
		{60, 604800, 5000, 0, even, true, 1, 2851},
		{60, 604800, 604000, 0, even, true, 1, 800},
		{60, 604800, 5000, 300, odd, true, 1, 300},
		{0.25, 100, 0, 0, odd, false, 5, 2},
		{0, 604800, 5000, 0, even, true, 1, 1},
		{1.5, 1000.5, 999.9, 0, even, true, 1, 1.5},
		{3600, 604800, 0, 0, odd, true, 1, 3574},
	} {
		set := sensor.Settings{
			PokeInterval: secs(c.poke), Timeout: secs(c.timeout), MaxWait: secs(c.maxWait), Reschedule: c.reschedule, Exponential: true,
		}
		got := set.Wait(sensor.Look{DagID: "demo", TaskID: "work", Start: c.start, Elapsed: secs(c.elapsed), Count: c.count})
		require.InDelta(t, c.want, got.Seconds(), 1e-9, "%+v", c)
	}
}

func TestPlainWaits(t *testing.T) {
	t.Parallel()
	require.Equal(t, time.Minute, sensor.Settings{PokeInterval: time.Minute, MaxWait: time.Second}.Wait(sensor.Look{}), "max_wait is for exponential waits")
	require.Equal(t, 100*time.Millisecond, sensor.Settings{}.Wait(sensor.Look{}), "never in circles")
}

// TestWaitsAreBounded: whatever the settings, a wait is at least a tenth of a
// second, and not past the timeout.
func TestWaitsAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		set := sensor.Read(map[string]any{
			"poke_interval": rapid.Float64Range(0, 1e6).Draw(r, "poke"), "timeout": rapid.Float64Range(0, 1e6).Draw(r, "timeout"),
			"mode": rapid.SampledFrom([]string{"poke", "reschedule"}).Draw(r, "mode"), "exponential_backoff": true,
			"max_wait": rapid.Float64Range(0, 1e6).Draw(r, "max"),
		})
		elapsed := secs(rapid.Float64Range(0, set.Timeout.Seconds()).Draw(r, "elapsed"))
		wait := set.Wait(sensor.Look{Elapsed: elapsed, Count: rapid.IntRange(0, math.MaxInt32).Draw(r, "count")})
		if wait < 100*time.Millisecond {
			r.Fatalf("waits %s", wait)
		}
		if limit := max(set.Timeout-elapsed+time.Second, 100*time.Millisecond); wait > limit {
			r.Fatalf("waits %s of %s", wait, limit)
		}
		if set.MaxWait > 0 && wait > max(set.MaxWait, 100*time.Millisecond) {
			r.Fatalf("waits %s, at most %s", wait, set.MaxWait)
		}
	})
}

func TestReadTakesAnyNumber(t *testing.T) {
	t.Parallel()
	for _, v := range []any{math.NaN(), math.Inf(1), math.Inf(-1), -1.0, 1e300, "60", nil} {
		set := sensor.Read(map[string]any{"poke_interval": v, "timeout": v, "max_wait": v})
		require.GreaterOrEqual(t, set.PokeInterval, time.Duration(0))
		require.GreaterOrEqual(t, set.Timeout, time.Duration(0))
		require.GreaterOrEqual(t, set.MaxWait, time.Duration(0))
	}
	require.Equal(t, sensor.Settings{PokeInterval: time.Minute, Timeout: 7 * 24 * time.Hour}, sensor.Read(nil))
	require.True(t, sensor.Read(map[string]any{"deferrable": true}).Reschedule)
}

func TestValidate(t *testing.T) {
	t.Parallel()
	require.Empty(t, sensor.Validate(map[string]any{"poke_interval": 0.0, "timeout": 9e9, "soft_fail": true}))
	for _, args := range []map[string]any{
		{"poke_interval": -1.0}, {"timeout": 1e10}, {"max_wait": math.NaN()}, {"soft_fail": true, "never_fail": true},
	} {
		require.Len(t, sensor.Validate(args), 1, "%v", args)
	}
}

func secs(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
