package log_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/callbacks/log"
	"github.com/airlock-dag/airlock/dag"
)

func TestLog(t *testing.T) {
	t.Parallel()
	next := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	task := dag.EventContext{
		Event: dag.EventRetry, DedupKey: "k", DagID: "d", RunID: "r", TaskID: "t", MapIndex: 0, TryNumber: 2, State: "up_for_retry",
		Exception: "X: y", ErrorClass: dag.ClassTransient, ErrorCode: "X", NextTryAt: &next, LogPath: "p",
	}
	run := dag.EventContext{Event: dag.EventFailure, DedupKey: "k", DagID: "d", RunID: "r", MapIndex: -1, State: "failed", Reason: "timed_out"}
	cases := []struct {
		name string
		args map[string]any
		c    dag.EventContext
		want map[string]any
	}{
		{"task", nil, task, map[string]any{
			"level": "WARN", "msg": "callback on_retry_callback", "event": "on_retry_callback", "dag_id": "d", "run_id": "r", "task_id": "t",
			"map_index": 0.0, "try_number": 2.0, "state": "up_for_retry", "error_class": "transient", "error_code": "X", "exception": "X: y",
			"next_try_at": "2026-03-01T12:00:00Z", "log_path": "p", "dedup_key": "k",
		}},
		{"run, own message and level", map[string]any{"message": "look at d", "level": "Info"}, run, map[string]any{
			"level": "INFO", "msg": "look at d", "event": "on_failure_callback", "dag_id": "d", "run_id": "r", "state": "failed",
			"reason": "timed_out", "dedup_key": "k",
		}},
	}
	for _, c := range cases {
		var out bytes.Buffer
		n := log.New(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
		require.Equal(t, "log", n.Name())
		require.NoError(t, n.Notify(t.Context(), callbacks.Delivery{Context: c.c, Args: c.args}))
		var got map[string]any
		require.NoError(t, json.Unmarshal(out.Bytes(), &got), c.name)
		delete(got, "time")
		require.Equal(t, c.want, got)
	}
}

func TestLevels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		level string
		event dag.EventKind
		want  string
	}{
		{"", dag.EventFailure, "ERROR"}, {"", dag.EventSuccess, "INFO"}, {"", dag.EventExecute, "INFO"}, {"", dag.EventSkipped, "INFO"},
		{"debug", dag.EventFailure, "DEBUG"}, {"warn", "", "WARN"}, {"WARNING", "", "WARN"}, {"error", "", "ERROR"},
	} {
		var out bytes.Buffer
		n := log.New(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
		require.NoError(t, n.Notify(t.Context(), callbacks.Delivery{
			Context: dag.EventContext{Event: c.event}, Args: map[string]any{"level": c.level},
		}))
		require.Contains(t, out.String(), `"level":"`+c.want+`"`)
	}
}

func TestArgumentsThatCannotWork(t *testing.T) {
	t.Parallel()
	n := log.New(slog.New(slog.DiscardHandler))
	for _, args := range []map[string]any{{"level": "loud"}, {"level": 1.0}, {"message": 1.0}, {"msg": "x"}} {
		var f *callbacks.Failure
		require.ErrorAs(t, n.Notify(t.Context(), callbacks.Delivery{Args: args}), &f)
		require.True(t, f.Permanent)
	}
}
