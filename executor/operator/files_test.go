package operator_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator"
)

func TestMissingFilesAreWarnings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "there.sql"), []byte("SELECT 1"), 0o600))
	at := dag.Place{Stat: func(p string) (fs.FileInfo, error) { return os.Stat(filepath.Join(dir, p)) }}
	isSQL := func(s string) string {
		if strings.HasSuffix(s, ".sql") {
			return s
		}
		return ""
	}
	args := map[string]any{
		"list": []any{"there.sql", "gone.sql", "SELECT 2", "{{ ds }}.sql"}, "one": "gone.sql", "number": 7.0, "nul": "a\x00.sql",
	}
	found := operator.MissingFiles(args, "list", at, isSQL)
	require.Len(t, found, 1)
	require.Equal(t, "list[1]", found[0].Path)
	require.Equal(t, dag.SeverityWarning, found[0].Severity)
	require.Equal(t, "there is no file gone.sql on this machine", found[0].Message)
	require.Len(t, operator.MissingFiles(args, "one", at, nil), 1)
	for _, key := range []string{"number", "nul", "absent"} {
		require.Empty(t, operator.MissingFiles(args, key, at, nil), key)
	}
	require.Empty(t, operator.MissingFiles(args, "one", dag.Place{}, nil), "a scheduler need not have the files")
	mapped := dag.Place{Stat: at.Stat, Mapped: map[string][]any{"one": {"there.sql", "no.sql"}}}
	require.Equal(t, "expand.one[1]", operator.MissingFiles(args, "one", mapped, nil)[0].Path)
}
