package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/sqltest"
)

// TestAServerCountsUnfinishedRunsOnly: by its statistics a DAG has few runs, because
// most have. Whether one with a long history may have another run is asked each time
// that it is due: that must not read the history.
func TestAServerCountsUnfinishedRunsOnly(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), sqltest.Servers(t)[0].DSN, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	require.NoError(t, s.Migrate(t.Context()))
	const numbers = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 500) "
	for _, q := range []string{
		`INSERT INTO dag (dag_id, fileloc, owner, schedule, description, tags, version_id, max_active_runs, next_run_after, updated_at, is_paused, is_stale, stale_reason) ` + numbers +
			"SELECT CONCAT('d', i), '', '', '', '', '[]', 1, 16, '2030-01-01', '2020-01-01', 0, 0, '' FROM n",
		`INSERT INTO dag_run (dag_id, run_id, run_type, state, run_after, queued_at, start_date, end_date, reason, triggered_by, note, clear_number, dag_version_id, updated_at) ` + numbers +
			"SELECT CONCAT('d', i), 'r', 'manual', IF(i % 2 = 0, 'success', 'running'), '2020-01-01', '2020-01-01', '2020-01-01', IF(i % 2 = 0, '2020-01-01', NULL), '', '', '', 0, 1, '2020-01-01' FROM n",
		`INSERT INTO dag_run (dag_id, run_id, run_type, state, run_after, queued_at, start_date, end_date, reason, triggered_by, note, clear_number, dag_version_id, updated_at) ` + numbers +
			"SELECT 'd1', CONCAT('old', i), 'manual', 'success', '2020-01-01', '2020-01-01', '2020-01-01', '2020-01-01', '', '', '', 0, 1, '2020-01-01' FROM n",
		"ANALYZE TABLE dag, dag_run",
	} {
		_, err := s.db.Writer().ExecContext(t.Context(), q)
		require.NoError(t, err)
	}
	rows, err := s.db.Writer().QueryxContext(t.Context(), "EXPLAIN FORMAT=TRADITIONAL SELECT d.dag_id FROM dag d WHERE d.next_run_after <= '2040-01-01' AND "+s.activeRuns()+" < d.max_active_runs")
	require.NoError(t, err)
	defer func() { _ = rows.Close() }()
	keys := map[string]string{}
	for rows.Next() {
		row := map[string]any{}
		require.NoError(t, rows.MapScan(row))
		key, _ := row["key"].([]byte)
		table, _ := row["table"].([]byte)
		keys[string(table)] = string(key)
	}
	require.NoError(t, rows.Err())
	require.Equal(t, "k_state", keys["r"])
}
