package retry_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag/retry"
)

func TestVectors(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/retry.json")
	require.NoError(t, err)
	var file struct {
		Vectors []struct {
			ID          string   `json:"id"`
			Variant     string   `json:"variant"`
			DagID       string   `json:"dag_id"`
			TaskID      string   `json:"task_id"`
			LogicalDate string   `json:"logical_date"`
			Try         int      `json:"try_number"`
			Delay       float64  `json:"retry_delay_s"`
			Multiplier  *float64 `json:"multiplier"`
			MaxDelay    *float64 `json:"max_retry_delay_s"`
			Base        *int     `json:"min_backoff_s"`
			Jitter      *int     `json:"jitter_s"`
			Expected    float64  `json:"expected_delay_s"`
		} `json:"vectors"`
	}
	require.NoError(t, json.Unmarshal(raw, &file))
	require.Len(t, file.Vectors, 238)
	seconds := func(s float64) time.Duration { return time.Duration(s*1e6) * time.Microsecond }
	for _, v := range file.Vectors {
		t.Run(v.ID, func(t *testing.T) {
			t.Parallel()
			in := retry.AirflowInput{
				DagID: v.DagID, TaskID: v.TaskID, Try: v.Try, Delay: seconds(v.Delay), Legacy: v.Variant == "exp2-legacy",
			}
			if v.LogicalDate != "None" {
				d, err := time.Parse("2006-01-02 15:04:05.999999-07:00", v.LogicalDate)
				require.NoError(t, err)
				in.LogicalDate = &d
			}
			if v.Multiplier != nil {
				in.Exponential = *v.Multiplier
			}
			if v.MaxDelay != nil {
				in.MaxDelay = seconds(*v.MaxDelay)
			}
			got := retry.AirflowDelay(in)
			require.Equal(t, seconds(v.Expected), got.Delay)
			if v.Base != nil {
				require.Equal(t, time.Duration(*v.Base)*time.Second, got.Base)
				require.Equal(t, time.Duration(*v.Jitter)*time.Second, got.Jitter)
			}
		})
	}
}
