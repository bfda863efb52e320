package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/cli"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/store"
)

func TestDAGsFromGit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git to make a repository")
	}
	h := newHouse(t, map[string]string{"repo/flows/d.yml": "d:\n  schedule: null\n  tasks:\n    a: {operator: empty}\n"})
	repo := h.path("repo")
	git := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = repo
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%v %s", args, out)
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "-b", "main")
	git("add", "-A")
	git("commit", "-q", "-m", "one")
	commit := git("rev-parse", "HEAD")

	flags := []string{"--dags-git", "file://" + repo, "--dags-git-folder", "flows"}
	// The first command of all fetches the repository, whichever it is.
	require.Equal(t, []any{"d"}, column(h.list(append([]string{"dags", "list"}, flags...)...), "dag_id"))
	require.Contains(t, h.ok(append([]string{"dags", "validate"}, flags...)...).stdout, "1 DAG, 0 errors")
	h.fails(cli.ExitUsage, []string{"has no folder elsewhere", "core.dags_git_folder"}, "dags", "validate", "--dags-git", "file://"+repo, "--dags-git-folder", "elsewhere")
	h.fails(cli.ExitUsage, []string{"nobranch", "core.dags_git"}, "dags", "list", "--dags-git", "file://"+repo, "--dags-git-branch", "nobranch")
	h.ok(append([]string{"dags", "test", "d", "2026-01-01"}, flags...)...)
	require.Equal(t, []any{"d"}, column(h.list(append([]string{"dags", "list"}, flags...)...), "dag_id"))
	st, err := store.Open(t.Context(), "sqlite:///"+filepath.Join(h.path("home"), "airlock.db"), store.Options{})
	require.NoError(t, err)
	defer func() { _ = st.Close() }()
	rows, err := st.DAGRows(t.Context(), dag.DAGFilter{})
	require.NoError(t, err)
	require.Len(t, rows, 1)
	require.Equal(t, commit, rows[0].Source)
	require.Equal(t, "d.yml", rows[0].FileLoc)
	require.Contains(t, h.ok(append([]string{"dags", "show", "d"}, flags...)...).stdout, commit)

	// What is there is shown without asking the remote; validate wants the newest.
	require.NoError(t, os.Rename(repo, h.path("away")))
	require.Equal(t, []any{"d"}, column(h.list(append([]string{"dags", "list"}, flags...)...), "dag_id"))
	h.fails(cli.ExitUsage, []string{"repository not found"}, append([]string{"dags", "validate"}, flags...)...)

	h.fails(cli.ExitUsage, []string{"into a connection"}, "config", "list", "--dags-git", "https://u:hunter2@example.org/x.git")
	h.fails(cli.ExitUsage, []string{"inside the repository"}, "config", "list", "--dags-git", "https://example.org/x.git", "--dags-git-folder", "../x")
}
