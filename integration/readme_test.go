package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestReadmeQuickStart runs the README's quick start as it stands, in an empty
// folder, but for building the binary and for the service at its end.
func TestReadmeQuickStart(t *testing.T) {
	t.Parallel()
	blocks := shellBlocks(read(t, "README.md"))
	script := without(blocks[len(blocks)-1], "make build", "airlock standalone")
	demo := filepath.Join(t.TempDir(), "demo")
	out := shell(t, filepath.Dir(demo), strings.ReplaceAll(script, "/tmp/demo", demo))
	require.Contains(t, out, "1 DAG, 0 errors, 0 warnings")
	require.Contains(t, out, "greet success")
	require.Contains(t, out, "DATA_ERROR", "the second task is sealed")
	require.FileExists(t, filepath.Join(demo, "home", "airlock.db"))
}

// TestQuickStartPage runs docs/quick-start.md in an empty folder, but for the
// step with the service.
func TestQuickStartPage(t *testing.T) {
	t.Parallel()
	var script []string
	for _, block := range shellBlocks(read(t, "docs/quick-start.md")) {
		if !strings.Contains(block, "standalone") {
			script = append(script, without(block, "make build"))
		}
	}
	text := strings.ReplaceAll(strings.Join(script, "\n"), "/tmp/quick-start", "new")
	text = strings.Replace(text, "airlock dags test doomed", "! airlock dags test doomed", 1)
	text = strings.ReplaceAll(text, "RUN_ID", `"$(airlock dags list-runs hello -o plain | tail -n 1 | cut -f 2)"`)
	out := shell(t, t.TempDir(), "set -e\n"+text)
	require.Contains(t, out, "1 DAG, 0 errors, 0 warnings")
	require.Contains(t, out, "of hello: success")
	require.Contains(t, out, "hello, 20", "the log of greet")
	require.Contains(t, out, "doomed/manual__", "the letter is shown")
}

var fence = regexp.MustCompile("(?s)```sh\n(.*?)```")

// shellBlocks are the ```sh blocks of a page, in order.
func shellBlocks(page string) []string {
	var blocks []string
	for _, m := range fence.FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// without leaves out the lines that begin with one of the words.
func without(script string, beginnings ...string) string {
	var kept []string
	for line := range strings.Lines(script) {
		skip := false
		for _, b := range beginnings {
			skip = skip || strings.HasPrefix(line, b)
		}
		if !skip {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// shell runs a script with the built binary as airlock, and gives all that it
// prints; the last command must succeed.
func shell(t *testing.T, dir, script string) string {
	t.Helper()
	bin, err := build()
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(bin)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	return string(out)
}
