package cli_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/cli"
)

// One broken file under two names fails in two DAGs; then no task of any DAG
// opens it, until somebody releases it.
func TestInputsThatFailTooOften(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../executor/ffmpeg/testdata/media/truncated_no_moov.mp4")
	require.NoError(t, err)
	h := newHouse(t, map[string]string{
		"dags/a.mp4": string(data), "dags/b.mp4": string(data),
		"dags/one.yml": "one:\n  schedule: null\n  tasks: {look: {operator: probe, path: a.mp4}}\n",
		"dags/two.yml": "two:\n  schedule: null\n  tasks: {look: {operator: probe, path: b.mp4}}\n",
	})
	h.env = append(h.env, "AIRLOCK__WORKER__MAX_INPUT_FAILURES=2")
	code := func(dagID string) any {
		h.fails(cli.ExitFailed, nil, "dags", "test", dagID)
		letters := h.list("dlq", "list", "--dag", dagID)
		return letters[len(letters)-1]["error_code"]
	}
	require.Equal(t, "TRUNCATED", code("one"))
	require.Empty(t, h.list("inputs", "list"))
	require.Len(t, h.list("inputs", "list", "--all"), 1)
	require.Equal(t, "TRUNCATED", code("two"))
	sealed := h.list("inputs", "list")
	require.Len(t, sealed, 1)
	require.InDelta(t, 2, sealed[0]["failures"], 0)
	require.Equal(t, true, sealed[0]["sealed"])
	require.Contains(t, sealed[0]["last_job_id"], "two/")
	require.Equal(t, "POISONED_INPUT", code("one"))
	require.Equal(t, "POISONED_INPUT", code("two"))
	letter := h.list("dlq", "list", "--error-code", "POISONED_INPUT")[0]
	require.Equal(t, "poison", letter["error_class"])
	require.Equal(t, sealed[0]["asset_sha256"], letter["asset_sha256"])
	require.InDelta(t, 2, h.list("inputs", "list")[0]["failures"], 0, "who does not open it counts nothing")

	// The desk's poison gate reads the same count: what nobody opens is not put back.
	require.Regexp(t, `quarantine +│ 2 `, h.ok("dlq", "replay", "--error-code", "TRUNCATED").stdout)

	h.fails(cli.ExitFailed, []string{"no failure is counted"}, "inputs", "release", "0000")
	require.Contains(t, h.ok("inputs", "release", sealed[0]["asset_sha256"].(string), "--reason", "fetched again").stdout, "released")
	require.Empty(t, h.list("inputs", "list"))
	require.Equal(t, "cli:alice", h.list("inputs", "list", "--all")[0]["released_by"])
	require.Equal(t, "TRUNCATED", code("one"))
}
