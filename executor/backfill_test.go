package executor_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor"
)

func day(d int) time.Time { return time.Date(2026, 6, d, 0, 0, 0, 0, time.UTC) }

func scheduledDAG(s dag.Schedule) *dag.DAG {
	start := day(20) // later than what is backfilled: it does not matter
	return &dag.DAG{
		ID: "d", FileLoc: "d.yml", Timezone: "UTC", Schedule: s, StartDate: &start, MaxActiveRuns: 1,
		Params: map[string]any{"n": 1}, ParamSchemas: map[string]json.RawMessage{"n": json.RawMessage(`{"type":"integer"}`)},
		Tasks: []dag.Task{{ID: "a", Operator: "empty", TriggerRule: dag.AllSuccess, PriorityWeight: 3, WeightRule: "absolute"}},
	}
}

func TestPlanBackfill(t *testing.T) {
	t.Parallel()
	trigger := dag.Schedule{Kind: dag.ScheduleCronTrigger, Crons: []string{"0 0 * * *"}}
	intervals := dag.Schedule{Kind: dag.ScheduleCronInterval, Crons: []string{"0 0 * * *"}}
	now := day(10).Add(12 * time.Hour)
	for name, c := range map[string]struct {
		schedule  dag.Schedule
		from, to  time.Time
		backwards bool
		want      []int // days of June
	}{
		"both ends count":                        {trigger, day(3), day(6), false, []int{3, 4, 5, 6}},
		"from the next tick on":                  {trigger, day(3).Add(time.Second), day(5).Add(-time.Second), false, []int{4}},
		"the newest first":                       {trigger, day(3), day(5), true, []int{5, 4, 3}},
		"intervals by their start":               {intervals, day(3), day(5), false, []int{3, 4, 5}},
		"an interval that has not ended":         {intervals, day(8), day(10), false, []int{8, 9}},
		"a period counts from the first instant": {dag.Schedule{Kind: dag.ScheduleDelta, Delta: 48 * time.Hour}, day(1), day(6), false, []int{1, 3, 5}},
		"dates of a list":                        {dag.Schedule{Kind: dag.ScheduleEvents, Events: []time.Time{day(9), day(2), day(4)}}, day(2), day(4), false, []int{2, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs, err := executor.PlanBackfill(scheduledDAG(c.schedule), 7, dag.Backfill{
				From: c.from, To: c.to, RunBackwards: c.backwards, MaxActiveRuns: 1, Reprocess: dag.ReprocessNone, Conf: json.RawMessage(`{"n":2}`),
			}, now)
			require.NoError(t, err)
			var got []int
			for _, r := range runs {
				got = append(got, r.Run.LogicalDate.Day())
				require.Equal(t, "backfill__"+r.Run.LogicalDate.Format("2006-01-02T15:04:05-07:00"), r.Run.RunID)
				require.Equal(t, dag.RunBackfill, r.Run.Type)
				require.Equal(t, int64(7), r.Run.VersionID)
				require.JSONEq(t, `{"n":2}`, string(r.Run.Conf))
				require.False(t, r.AdvanceNext, "the schedule is left alone")
				require.Equal(t, 3-1_000_000, r.Instances[0].PriorityWeight)
				if c.schedule.Kind == dag.ScheduleCronInterval {
					require.Equal(t, 24*time.Hour, r.Run.DataIntervalEnd.Sub(*r.Run.DataIntervalStart))
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestPlanBackfillRefuses(t *testing.T) {
	t.Parallel()
	daily := dag.Schedule{Kind: dag.ScheduleCronTrigger, Crons: []string{"0 0 * * *"}}
	good := dag.Backfill{From: day(1), To: day(3), MaxActiveRuns: 1, Reprocess: dag.ReprocessFailed}
	for want, change := range map[string]func(d *dag.DAG, b *dag.Backfill){
		"no dates to go through":    func(d *dag.DAG, _ *dag.Backfill) { d.Schedule = dag.Schedule{Kind: dag.ScheduleNone, Text: "null"} },
		"after its end":             func(_ *dag.DAG, b *dag.Backfill) { b.From = day(4) },
		"still to come":             func(_ *dag.DAG, b *dag.Backfill) { b.To = day(11) },
		"0 runs at once":            func(_ *dag.DAG, b *dag.Backfill) { b.MaxActiveRuns = 0 },
		`"some" is no reprocess`:    func(_ *dag.DAG, b *dag.Backfill) { b.Reprocess = "some" },
		"depends on the run before": func(d *dag.DAG, b *dag.Backfill) { d.Tasks[0].DependsOnPast, b.RunBackwards = true, true },
		"n":                         func(_ *dag.DAG, b *dag.Backfill) { b.Conf = json.RawMessage(`{"n":"text"}`) },
		"more than 10000 dates":     func(d *dag.DAG, b *dag.Backfill) { d.Schedule.Crons, b.To = []string{"* * * * *"}, day(9) },
		"no date in this range": func(_ *dag.DAG, b *dag.Backfill) {
			b.From, b.To = day(2).Add(time.Hour), day(2).Add(2*time.Hour)
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			d, b := scheduledDAG(daily), good
			d.Schedule.Crons = []string{"0 0 * * *"}
			change(d, &b)
			_, err := executor.PlanBackfill(d, 1, b, day(10))
			require.ErrorContains(t, err, want)
			require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))
		})
	}
}
