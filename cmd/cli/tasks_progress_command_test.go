package cli_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/store"
)

// Programs read how far a running task is as numbers, people as words.
func TestStatesTellProgress(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/two.yml": `
two:
  schedule: null
  start_date: 2026-02-01
  tasks:
    a: {operator: bash, bash_command: "true"}
    b: {operator: bash, bash_command: "true"}
`})
	h.ok("dags", "test", "two", "2026-02-01")
	dsn := "sqlite:///" + filepath.Join(h.path("home"), "airlock.db")
	states := func() map[string]map[string]any {
		var rows []map[string]any
		require.NoError(t, json.Unmarshal([]byte(h.ok("tasks", "states-for-dag-run", "two", "2026-02-01", "-o", "json").stdout), &rows))
		out := map[string]map[string]any{}
		for _, r := range rows {
			out[r["task_id"].(string)] = r
		}
		return out
	}
	before := states()
	require.Nil(t, before["a"]["progress"], "it does not run")
	require.Contains(t, before["a"], "progress")

	// As if the two ran: one that knows much of itself, and one that knows nothing.
	db, err := dialect.Open(t.Context(), dsn, dialect.Options{})
	require.NoError(t, err)
	_, err = db.Writer().ExecContext(t.Context(), "UPDATE task_instance SET state = 'running', lease_until = '2099-01-01 00:00:00.000000'")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	st, err := store.Open(t.Context(), dsn, store.Options{})
	require.NoError(t, err)
	instances, err := st.Instances(t.Context(), dag.InstanceFilter{DagID: "two", Limit: -1})
	require.NoError(t, err)
	var list []dag.TaskProgress
	for _, i := range instances {
		p := dag.TaskProgress{Lease: dag.Lease{TaskInstanceID: i.ID, Fence: i.Fence}, Fraction: -1, Text: "waiting for a GPU slot"}
		if i.TaskID == "a" {
			p.Fraction, p.ETA, p.Text = 0.425, 70e9, "1.2x, 340 frames, libx264"
			p.Measures = map[string]float64{"fps": 30.5, "speed": 1.2, "frames": 340}
		}
		list = append(list, p)
	}
	require.NoError(t, st.SetProgress(t.Context(), list))
	require.NoError(t, st.Close())

	got := states()
	a := got["a"]["progress"].(map[string]any)
	require.InDelta(t, 42.5, a["percent"], 1e-9)
	require.InDelta(t, 70, a["eta_s"], 1e-9)
	require.InDelta(t, 30.5, a["fps"], 1e-9)
	require.InDelta(t, 1.2, a["speed"], 1e-9)
	require.InDelta(t, 340, a["measures"].(map[string]any)["frames"], 1e-9)
	require.NotEmpty(t, a["updated_at"])
	b := got["b"]["progress"].(map[string]any)
	for _, unknown := range []string{"percent", "eta_s", "fps", "speed"} {
		require.Contains(t, b, unknown)
		require.Nil(t, b[unknown])
	}
	require.Equal(t, "waiting for a GPU slot", b["text"])
	require.Contains(t, h.ok("tasks", "states-for-dag-run", "two", "2026-02-01", "-o", "plain").stdout, "42 %, 1m10s left, 1.2x, 340 frames, libx264")
	require.Contains(t, h.ok("tasks", "states-for-dag-run", "two", "2026-02-01", "-o", "yaml").stdout, "percent: 42.5")
}
