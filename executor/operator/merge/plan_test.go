package merge_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	mergeop "github.com/airlock-dag/airlock/executor/operator/merge"
)

// TestPlanOfADatabaseToMake plans a step whose SQLite database is not there: the
// step would make it, the plan does not.
func TestPlanOfADatabaseToMake(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new.db")
	plan := func(step, path string) dag.Outcome {
		f := fixture(t, "sqlite:///"+path, step)
		out := mergeop.New(dag.SystemRand{}).Plan(t.Context(), f.Task)
		require.NoFileExists(t, path)
		return out
	}
	const step = "{conn_id: warehouse, source: {file: a.csv}, target: t, key: [id], columns: {id: {type: int}}, create_target: true}"
	out := plan(step, path)
	require.Nil(t, out.Err)
	var p struct {
		Database   string `json:"database"`
		Notes      []string
		Statements []struct{ SQL string }
	}
	raw, err := json.Marshal(out.ReturnValue)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &p))
	require.Equal(t, path, p.Database)
	require.Contains(t, p.Statements[0].SQL, `CREATE TABLE`)
	require.Contains(t, p.Notes, "the file of the database is not there; the step makes it")

	out = plan("{conn_id: warehouse, source: {file: a.csv}, target: t, key: [id], columns: {id: {type: int}}}", path)
	require.NotNil(t, out.Err)
	require.Contains(t, out.Err.Message, "there is no file "+path)

	gone := filepath.Join(t.TempDir(), "gone")
	out = plan(step, filepath.Join(gone, "new.db"))
	require.NotNil(t, out.Err)
	require.Contains(t, out.Err.Message, "there is no folder "+gone)
	require.NoError(t, os.Mkdir(gone, 0o750))
	require.Nil(t, plan(step, filepath.Join(gone, "new.db")).Err)
}
