package dag_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func TestPythonTime(t *testing.T) {
	t.Parallel()
	berlin := time.FixedZone("", 2*60*60)
	for want, at := range map[string]time.Time{
		"2026-03-01T02:03:04+00:00":        time.Date(2026, 3, 1, 2, 3, 4, 0, time.UTC),
		"2026-03-01T00:00:00+00:00":        time.Date(2026, 3, 1, 2, 0, 0, 999, berlin), // less than a microsecond
		"2026-03-01T02:03:04.000005+00:00": time.Date(2026, 3, 1, 2, 3, 4, 5999, time.UTC),
	} {
		require.Equal(t, want, dag.PythonTime(at, "T"))
	}
	require.Equal(t, "2026-12-31 23:59:59.500000+00:00", dag.PythonTime(time.Date(2026, 12, 31, 23, 59, 59, 5e8, time.UTC), " "))
}
