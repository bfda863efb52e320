package timetable_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/timetable"
)

type vector struct {
	ID    string `json:"id"`
	Kind  string `json:"kind"`
	Input struct {
		Timetable string      `json:"timetable"`
		Zone      string      `json:"zone"`
		Cron      string      `json:"cron"`
		DeltaS    int         `json:"delta_s"`
		After     time.Time   `json:"after"`
		Catchup   bool        `json:"catchup"`
		StartDate *time.Time  `json:"start_date"`
		EndDate   *time.Time  `json:"end_date"`
		Last      []time.Time `json:"last_data_interval"`
		Now       time.Time   `json:"now"`
		Logical   time.Time   `json:"logical_date"`
	} `json:"input"`
	Expected *struct {
		Next      string    `json:"next"`
		NextLocal string    `json:"next_local"`
		Cron      string    `json:"cron"`
		Logical   time.Time `json:"logical_date"`
		Start     time.Time `json:"data_interval_start"`
		End       time.Time `json:"data_interval_end"`
		RunAfter  time.Time `json:"run_after"`
		RunID     string    `json:"run_id_since_3_2"`
	} `json:"expected"`
}

// beforeFix is the vector of Airflow's behaviour before its own fix; the same
// question with the fixed answer is s127, which holds here.
const beforeFix = "s128"

func readVectors(t *testing.T) []vector {
	t.Helper()
	raw, err := os.ReadFile("testdata/schedule.json")
	require.NoError(t, err)
	var file struct {
		Vectors []vector `json:"vectors"`
	}
	require.NoError(t, json.Unmarshal(raw, &file))
	require.Len(t, file.Vectors, 128)
	return file.Vectors
}

func (v vector) table(t *testing.T) *timetable.Timetable {
	t.Helper()
	kinds := map[string]dag.ScheduleKind{
		"": dag.ScheduleCronTrigger, "cron_trigger": dag.ScheduleCronTrigger, "cron_interval": dag.ScheduleCronInterval,
		"delta_trigger": dag.ScheduleDelta, "delta_interval": dag.ScheduleDeltaInterval,
	}
	s := dag.Schedule{Kind: kinds[v.Input.Timetable], Delta: time.Duration(v.Input.DeltaS) * time.Second}
	if v.Input.Cron != "" {
		parsed, err := timetable.FromText(v.Input.Cron, v.Input.Timetable == "cron_interval")
		require.NoError(t, err)
		require.Equal(t, s.Kind, parsed.Kind)
		s = parsed
	}
	tt, err := timetable.New(s, v.Input.Zone)
	require.NoError(t, err)
	return tt
}

func TestVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t) {
		t.Run(v.ID, func(t *testing.T) {
			t.Parallel()
			tt := v.table(t)
			switch v.Kind {
			case "cron_next", "preset":
				next := tt.CronNext(v.Input.After)
				require.Equal(t, v.Expected.Next, next.Format(time.RFC3339))
				if v.Kind == "preset" {
					require.Equal(t, v.Expected.Cron, timetable.Presets()[v.Input.Cron])
				}
			case "manual_interval":
				start, end := tt.ManualInterval(v.Input.Logical)
				if v.ID == beforeFix {
					require.True(t, start.Before(end), "a manual run's interval is not empty")
					return
				}
				require.Equal(t, v.Expected.Start, start)
				require.Equal(t, v.Expected.End, end)
			case "next_run":
				checkNextRun(t, v, tt)
			default:
				t.Fatalf("unknown kind %q", v.Kind)
			}
		})
	}
}

func checkNextRun(t *testing.T, v vector, tt *timetable.Timetable) {
	t.Helper()
	var last *dag.PlannedRun
	if len(v.Input.Last) == 2 {
		start, end := v.Input.Last[0], v.Input.Last[1]
		last = &dag.PlannedRun{LogicalDate: start, DataIntervalStart: start, DataIntervalEnd: end, RunAfter: end}
	}
	r := timetable.Restriction{Earliest: v.Input.StartDate, Latest: v.Input.EndDate, Catchup: v.Input.Catchup}
	got := tt.Next(last, r, v.Input.Now)
	if v.Expected == nil {
		require.Nil(t, got)
		return
	}
	require.NotNil(t, got)
	require.Equal(t, dag.PlannedRun{
		LogicalDate: v.Expected.Logical, DataIntervalStart: v.Expected.Start,
		DataIntervalEnd: v.Expected.End, RunAfter: v.Expected.RunAfter,
	}, *got)
	require.Equal(t, v.Expected.RunID, timetable.RunID(dag.RunScheduled, *got))
}
