package timetable_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/timetable"
)

func TestPlanned(t *testing.T) {
	t.Parallel()
	day := func(d, hour int) time.Time { return time.Date(2026, 3, d, hour, 0, 0, 0, time.UTC) }
	at := func(d int) *dag.PlannedRun {
		tick := day(d, 2)
		return &dag.PlannedRun{LogicalDate: tick, DataIntervalStart: tick, DataIntervalEnd: tick, RunAfter: tick}
	}
	start := day(1, 0)
	tt, err := timetable.New(dag.Schedule{Kind: dag.ScheduleCronTrigger, Crons: []string{"0 2 * * *"}}, "UTC")
	require.NoError(t, err)
	now := day(9, 12)
	for name, c := range map[string]struct {
		stored, last *dag.PlannedRun
		catchup      bool
		want         *dag.PlannedRun
	}{
		"nothing is planned":                        {nil, at(8), true, nil},
		"a plan to come stands":                     {at(10), at(8), false, at(10)},
		"it stands also where ticks were passed":    {at(12), at(8), true, at(12)},
		"of an old plan the latest tick is made":    {at(5), at(4), false, at(9)},
		"with catchup it is made":                   {at(5), at(4), true, at(5)},
		"with catchup it has passed a run by hand":  {at(6), at(4), true, at(6)},
		"with catchup the last run is gone further": {at(5), at(6), true, at(7)},
		"one that is due now is made":               {at(9), at(8), false, at(9)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, tt.Planned(c.stored, c.last, timetable.Restriction{Earliest: &start, Catchup: c.catchup}, now))
		})
	}
}
