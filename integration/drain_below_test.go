package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// belowFile has a task that is expanded over what another gives, although an
// instance of that one fails until the file $MENDED is there.
const belowFile = `
films:
  schedule: null
  tasks:
    probe: {operator: bash, expand: {bash_command: ["echo true", "test -e $MENDED || exit 65; echo true"]}}
    each:  {operator: bash, dependencies: [probe], trigger_rule: all_done, expand: {bash_command: probe.output}}
`

// TestAReplayTellsWhatItDoesNotMake: the status of a replay that waits is that of
// what it put back, and the command that it names makes what it does not.
func TestAReplayTellsWhatItDoesNotMake(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	mended := filepath.Join(filepath.Dir(h.home), "mended")
	h.file("films.yml", strings.ReplaceAll(belowFile, "$MENDED", mended))
	h.start("standalone")
	db := h.db()
	until(t, db, 1, "SELECT COUNT(*) FROM dag")
	h.ok("dags", "trigger", "films", "--run-id", "r")
	until(t, db, 1, "SELECT COUNT(*) FROM dag_run WHERE state = 'success'")

	r := h.run("dlq", "replay", "--apply", "--wait")
	require.Equal(t, 1, r.code, r.errOut)
	require.Contains(t, r.errOut, "of 1 replayed: 0 ended well, 1 came back")

	require.NoError(t, os.WriteFile(mended, nil, 0o600))
	r = h.run("dlq", "replay", "--apply", "--wait")
	require.Zero(t, r.code, r.errOut)
	require.Contains(t, r.errOut, "of 1 replayed: 1 ended well, 0 came back")
	require.Contains(t, r.errOut, "films.each keeps the instances that it had: `airlock tasks clear films -t probe -d -r RUN`")
	require.Equal(t, 1, count(db, "SELECT COUNT(*) FROM task_instance WHERE task_id = 'each'"))

	h.ok("tasks", "clear", "films", "-t", "probe", "-d", "-r", "r", "-y")
	until(t, db, 2, "SELECT COUNT(*) FROM task_instance WHERE task_id = 'each' AND state = 'success'")
	h.checked()
}
