package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/store"
)

// TestATestRunDeliversItsOwnEventsOnly: what other runs have to tell waits for the
// processes that run there, untouched.
func TestATestRunDeliversItsOwnEventsOnly(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/told.yml": `
told:
  schedule: null
  default_args: {start_date: 2026-01-01}
  tasks:
    a:
      operator: empty
      on_success_callback: [{callback: command, command: "echo $AIRLOCK_RUN_ID >> told.txt", cwd: DIR}]
`})
	text, err := os.ReadFile(h.path("dags/told.yml"))
	require.NoError(t, err)
	h.write("dags/told.yml", strings.ReplaceAll(string(text), "DIR", h.dir))
	h.ok("dags", "trigger", "told", "--run-id", "waits")
	st, err := store.Open(t.Context(), "sqlite:///"+filepath.Join(h.path("home"), "airlock.db"), store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })
	others := dag.Event{
		DedupKey: "others", TaskInstanceKey: dag.TaskInstanceKey{DagID: "told", RunID: "waits", TaskID: "a", MapIndex: -1}, Kind: dag.EventSuccess,
		Callback: dag.Callback{Name: "command", Args: map[string]any{"command": "echo stranger >> told.txt", "cwd": h.dir}},
	}
	now, err := st.Now(t.Context())
	require.NoError(t, err)
	others.CreatedAt = now
	others.Context, err = json.Marshal(dag.EventContext{Event: others.Kind, DedupKey: "others", DagID: "told", RunID: "waits", TaskID: "a", MapIndex: -1, At: now})
	require.NoError(t, err)
	require.NoError(t, st.PutEvents(t.Context(), []dag.Event{others}))

	h.ok("dags", "test", "told", "2026-02-01")
	said, err := os.ReadFile(h.path("told.txt"))
	require.NoError(t, err)
	runs := column(h.list("dags", "list-runs", "told"), "run_id")
	require.Len(t, runs, 2)
	own := runs[0]
	if own == "waits" {
		own = runs[1]
	}
	require.Equal(t, own.(string)+"\n", string(said))
	left, err := st.ClaimEvents(t.Context(), "standalone", 10, time.Minute)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Equal(t, "others", left[0].DedupKey)
	require.Zero(t, left[0].Attempts)
}
