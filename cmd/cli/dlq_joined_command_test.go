package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/cli"
)

// Letters that join a group while a drain goes on are told of in its report, and
// wait for another drain.
func TestADrainTellsOfLettersThatJoined(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{"dags/doomed.yml": doomed, "dags/other.yml": strings.Replace(doomed, "doomed:", "other:", 1)})
	fail := func(dag string) { require.Equal(t, cli.ExitFailed, h.run("dags", "test", dag).code) }
	fail("doomed")
	fail("doomed")
	h.ok("dags", "unpause", "doomed")
	first := h.list("dlq", "list")
	require.Len(t, first, 2)
	require.Equal(t, first[0]["fingerprint"], first[1]["fingerprint"])

	// One letter in flight holds the drain up, since nobody works.
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ended := make(chan result, 1)
	go func() {
		var out, errOut bytes.Buffer
		code := cli.Run(ctx, []string{"dlq", "replay", "--dag", "doomed", "--apply", "--rate", "0", "--max-in-flight", "1", "-o", "json", "--dags-folder", "dags"}, cli.Env{
			Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errOut, Environ: h.env, WorkDir: h.dir, Version: "1.2.3", User: "alice",
		})
		ended <- result{code, out.String(), errOut.String()}
	}()
	require.Eventually(t, func() bool { return len(h.list("dlq", "list", "--status", "replaying")) == 1 }, time.Minute, 20*time.Millisecond)
	for range 3 {
		fail("doomed")
	}
	fail("other") // the drain would not have selected it
	interrupt()
	r := <-ended
	require.Equal(t, cli.ExitFailed, r.code, r.stderr)
	var report struct {
		ID                        string
		State                     string
		Total, Replayed, Selected int
		Joined                    []struct {
			DagID       string `json:"dag_id"`
			Fingerprint string
			Count       int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &report), r.stdout)
	require.Equal(t, []any{"stopped", 2, 1, 1}, []any{report.State, report.Total, report.Replayed, report.Selected})
	require.Len(t, report.Joined, 1)
	require.Equal(t, []any{"doomed", first[0]["fingerprint"], 3}, []any{report.Joined[0].DagID, report.Joined[0].Fingerprint, report.Joined[0].Count})
	told := fmt.Sprintf("new since it began: 3 letters of doomed.read, DATA_ERROR, fingerprint %s: ", first[0]["fingerprint"])
	require.Contains(t, r.stderr, told)
	require.Equal(t, 1, strings.Count(r.stderr, "new since it began"))
}
