package dagtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
)

var (
	_ dag.Clock    = (*dagtest.Clock)(nil)
	_ dag.Rand     = (*dagtest.Rand)(nil)
	_ dag.IDSource = (*dagtest.IDs)(nil)
)

func TestClockWakesOnlyWhatIsDue(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	c := dagtest.NewClock(start)
	soon, late := c.After(time.Second), c.After(time.Minute)
	c.BlockUntil(2)
	c.Advance(2 * time.Second)
	require.Equal(t, start.Add(2*time.Second), <-soon)
	require.Empty(t, late)
	c.Advance(time.Minute)
	require.Equal(t, start.Add(62*time.Second), <-late)
}

func TestIDsAndRandRepeatExactly(t *testing.T) {
	t.Parallel()
	ids, rnd := &dagtest.IDs{}, &dagtest.Rand{Values: []float64{0.25, 0.5}}
	require.Equal(t, "00000000000000000000000000000001", ids.NewID())
	require.Equal(t, "00000000000000000000000000000002", ids.NewID())
	require.Equal(t, []float64{0.25, 0.5, 0.25}, []float64{rnd.Float64(), rnd.Float64(), rnd.Float64()})
}
