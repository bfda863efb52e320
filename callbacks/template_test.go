package callbacks_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/callbacks/command"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
)

// settings are connections and variables in memory.
type settings struct {
	connections map[string]dag.Connection
	variables   []dag.Variable
	err         error
}

func (s settings) Connection(_ context.Context, id string) (dag.Connection, error) {
	if s.err != nil {
		return dag.Connection{}, s.err
	}
	c, ok := s.connections[id]
	if !ok {
		return c, &dag.Error{Code: dag.ErrNotFound, Err: errors.New("no such connection")}
	}
	return c, nil
}

func (s settings) Variables(context.Context) ([]dag.Variable, error) { return s.variables, s.err }

func taskContext() dag.EventContext {
	end := noon.Add(time.Hour)
	return dag.EventContext{
		Event: dag.EventFailure, DedupKey: "k", DagID: "media", RunID: "manual__1", TaskID: "transcode", MapIndex: 3,
		TryNumber: 2, MaxTries: 5, State: "failed", LogicalDate: &noon, DataIntervalStart: &noon, DataIntervalEnd: &end,
		RunType: dag.RunManual, Params: map[string]any{"inbox": "./in", "count": 3.0},
		Exception: "EXIT_CODE: exit 3", ErrorClass: dag.ClassPermanent, ErrorCode: "EXIT_CODE", ErrorMessage: "exit 3",
		LogPath: "a/b.log", At: noon,
	}
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	s := settings{
		connections: map[string]dag.Connection{"hook": {ID: "hook", Host: "alerts.example"}},
		variables:   []dag.Variable{{Key: "team", Value: "video"}},
	}
	render := callbacks.Templates(s, dagtest.NewClock(noon))
	args := map[string]any{
		"url":     "https://{{ conn.hook.host }}/{{ dag.dag_id }}/{{ task.task_id }}/{{ ti.map_index }}?run={{ run_id }}&ds={{ ds }}",
		"headers": map[string]any{"X-Team": "{{ var.value.team }}", "X-Try": "{{ ti.try_number }}/{{ ti.max_tries }}"},
		"list":    []any{"{{ params.inbox }}", 7.0, true, nil},
		"plain":   "no template",
		"error":   "{{ exception }}|{{ error_class }}|{{ error_code }}|{{ error_message }}|{{ log_path }}|{{ event }}|{{ state }}|{{ dedup_key }}|{{ reason }}",
		"end":     "{{ data_interval_end | ts_nodash }}",
	}
	got, err := render(t.Context(), args, taskContext())
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"url":     "https://alerts.example/media/transcode/3?run=manual__1&ds=2026-03-01",
		"headers": map[string]any{"X-Team": "video", "X-Try": "2/5"},
		"list":    []any{"./in", 7.0, true, nil},
		"plain":   "no template",
		"error":   "EXIT_CODE: exit 3|permanent|EXIT_CODE|exit 3|a/b.log|on_failure_callback|failed|k|None",
		"end":     "20260301T130000",
	}, got)
	require.Contains(t, args["url"], "{{", "the DAG's own value is not touched")
}

func TestTemplatesOfARun(t *testing.T) {
	t.Parallel()
	render := callbacks.Templates(nil, nil)
	c := dag.EventContext{Event: dag.EventFailure, DagID: "media", RunID: "r", MapIndex: -1, State: "failed", Reason: "timed_out", At: noon}
	got, err := render(t.Context(), map[string]any{"message": "{{ dag.dag_id }} {{ dag_run.run_id }} {{ state }}: {{ reason }}"}, c)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"message": "media r failed: timed_out"}, got)

	got, err = render(t.Context(), nil, c)
	require.NoError(t, err)
	require.Empty(t, got)

	var f *callbacks.Failure
	for _, wrong := range []string{"{{ ti.task_id }}", "{{ ds }}", "{{ nobody }}", "{{ broken", "{% for %}"} {
		_, err = render(t.Context(), map[string]any{"message": wrong}, c)
		require.ErrorAs(t, err, &f, wrong)
		require.True(t, f.Permanent, wrong)
	}
}

func TestTemplatesWaitForTheDatabase(t *testing.T) {
	t.Parallel()
	render := callbacks.Templates(settings{err: errors.New("database is away")}, nil)
	for _, text := range []string{"{{ var.value.x }}", "{{ conn.x.host }}", "{{ conn.get('x', 'other') }}"} {
		_, err := render(t.Context(), map[string]any{"message": text}, taskContext())
		var f *callbacks.Failure
		require.ErrorAs(t, err, &f, text)
		require.False(t, f.Permanent, text)
		require.ErrorContains(t, err, "database is away")
	}
}

func TestTemplatesDoNotWaitForAConnectionThatIsNotThere(t *testing.T) {
	t.Parallel()
	render := callbacks.Templates(settings{}, nil)
	_, err := render(t.Context(), map[string]any{"message": "{{ conn.x.host }}"}, taskContext())
	var f *callbacks.Failure
	require.ErrorAs(t, err, &f)
	require.True(t, f.Permanent)
}

// TestErrorTextInACommand is the line that everybody writes first: the words of
// an error in a command, whatever they are.
func TestErrorTextInACommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clock := dagtest.NewClock(noon)
	m := newMemory(clock)
	d := callbacks.New(callbacks.Options{Outbox: m, Clock: clock, Notifiers: []callbacks.Notifier{command.New("")}})
	id := m.put("transcode", -1, dag.EventFailure, dag.Callback{Name: "command", Args: map[string]any{
		"cwd": dir, "command": `printf '%s ' {{ ti.task_id }} {{ exception }} > said; printf %s "$AIRLOCK_EXCEPTION" > exact`,
	}})
	c := taskContext()
	c.MapIndex, c.Exception = -1, "EXIT_CODE: it's \"over\" (see `touch hit` $(touch hit)) & > hit"
	raw, err := json.Marshal(c)
	require.NoError(t, err)
	m.rows[id].event.Context = raw
	require.NoError(t, d.Drain(t.Context()))
	require.Equal(t, dag.DeliveryDelivered, m.row(id).status, m.row(id).cause)
	said, err := os.ReadFile(filepath.Join(dir, "said"))
	require.NoError(t, err)
	require.Equal(t, "transcode EXIT_CODE: it s over see touch hit touch hit hit ", string(said))
	exact, err := os.ReadFile(filepath.Join(dir, "exact"))
	require.NoError(t, err)
	require.Equal(t, c.Exception, string(exact))
	require.NoFileExists(t, filepath.Join(dir, "hit"))
}
