package transcode_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/proc"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
	"github.com/airlock-dag/airlock/executor/operator/transcode"
)

// workerEnv makes the test binary a worker that runs one attempt and ends.
const workerEnv = "AIRLOCK_TEST_TRANSCODE_ARGS"

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		// A worker process: it runs its one test, which is the attempt.
		os.Args = []string{os.Args[0], "-test.run=^TestWorkerProcess$"}
	}
	code := m.Run()
	_ = os.RemoveAll(fixtures.dir)
	os.Exit(code)
}

func TestWorkerProcess(t *testing.T) {
	text := os.Getenv(workerEnv)
	if text == "" {
		t.Skip("only for worker processes")
	}
	var args map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &args))
	out := transcode.New().Run(context.Background(), operatortest.New(t, args).Task)
	require.Equal(t, dag.OutcomeSuccess, out.Kind)
}

// long is a clip of thirty seconds, which a real-time encode takes as long for.
// It is made once.
func long(t testing.TB) string {
	t.Helper()
	return shared(t, "long.mp4", func(path string) *exec.Cmd {
		return exec.Command("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=96x64:r=12:d=30", "-c:v", "libx264", "-preset", "ultrafast", path)
	})
}

// ffmpegOf waits for the ffmpeg process of an attempt.
func ffmpegOf(t testing.TB, marker string) int {
	t.Helper()
	pid := 0
	require.Eventually(t, func() bool {
		found, err := proc.Leftovers(marker)
		if err != nil {
			return false
		}
		i := slices.IndexFunc(found, func(p proc.Process) bool {
			return len(p.Args) > 0 && filepath.Base(p.Args[0]) == "ffmpeg" && slices.Contains(p.Args, "-re")
		})
		if i >= 0 {
			pid = found[i].PID
		}
		return i >= 0
	}, time.Minute, 5*time.Millisecond, "no ffmpeg runs")
	return pid
}

// Half a file never has the public name, whoever is killed, with and without an
// older good output in place.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	in := long(t)
	for _, older := range []bool{false, true} {
		for name, c := range map[string]struct {
			signal syscall.Signal
			code   string
			budget dag.Budget
		}{
			"SIGKILL": {syscall.SIGKILL, "KILLED_SIGNAL", dag.BudgetCrashes},
			// ffmpeg then finishes its file: it plays, and is too short.
			"SIGTERM": {syscall.SIGTERM, "FFMPEG_STOPPED", ""},
		} {
			if older {
				name += " over an older output"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f := attempt(t, map[string]any{"path": in})
				before := ""
				if older { // made by another profile of the same name: stale, and good
					res := succeed(t, attempt(t, map[string]any{
						"path": in, "output_dir": f.Args["output_dir"],
						"profile": fast(map[string]any{"args": []any{"-g", "12"}}),
					}))
					before = res.OutputSHA256
				}
				f.Args["realtime"] = true
				done := make(chan dag.Outcome, 1)
				go func() { done <- worker().Run(context.Background(), f.Task) }()
				part := waitForPart(t, f)
				final := filepath.Join(filepath.Dir(part), hashOf(t, in)+".mp4")
				require.Equal(t, older, exists(final))
				require.NoError(t, syscall.Kill(ffmpegOf(t, f.Marker), c.signal))
				out := <-done
				require.Equal(t, dag.OutcomeFailed, out.Kind)
				require.Equal(t, c.code, out.Err.Code, "%v", out.Err)
				require.Equal(t, dag.ClassTransient, out.Err.Class)
				require.Equal(t, c.budget, out.Err.Budget)
				require.NoFileExists(t, part)
				require.Equal(t, older, exists(final))
				if older {
					require.Equal(t, before, hashOf(t, final), "the old output stays until the new one is whole")
				}
				// The next attempt trusts nothing and makes it whole.
				next := again(t, f, map[string]any{"realtime": false})
				res := succeed(t, next)
				require.False(t, res.Skipped)
				require.InDelta(t, 30, probe(t, res.Path).Duration(), 0.3)
			})
		}
	}
}

// The worker itself is killed: what it left is found and removed, and its
// ffmpeg does not go on.
func TestWorkerKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	in := long(t)
	f := attempt(t, map[string]any{"path": in, "realtime": true})
	args, err := json.Marshal(f.Args)
	require.NoError(t, err)
	worker := exec.Command(os.Args[0])
	worker.Env = append(os.Environ(), workerEnv+"="+string(args))
	require.NoError(t, worker.Start())
	part := waitForPart(t, f)
	require.NoError(t, worker.Process.Kill())
	require.Error(t, worker.Wait())
	require.FileExists(t, part, "nobody was there to remove it")
	require.Eventually(t, func() bool {
		found, err := proc.Leftovers("test-")
		return err == nil && !slices.ContainsFunc(found, func(p proc.Process) bool {
			return slices.Contains(p.Args, "file:"+part)
		})
	}, time.Minute, 5*time.Millisecond, "the worker's ffmpeg goes on")
	final := filepath.Join(filepath.Dir(part), hashOf(t, in)+".mp4")
	require.NoFileExists(t, final)

	next := again(t, f, map[string]any{"realtime": false})
	require.False(t, succeed(t, next).Skipped)
	entries, err := os.ReadDir(filepath.Dir(part))
	require.NoError(t, err)
	require.Len(t, entries, 2, "the output and its manifest")
	require.Contains(t, next.Output.String(), "earlier attempt left")
}

// Inputs of which ffmpeg 5.1 makes a short file and ends with 0, or none.
func TestBrokenVideos(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, err := exec.Command("sh", "testdata/make_broken_video.sh", dir).CombinedOutput()
	require.NoError(t, err, string(out))
	for name, code := range map[string]string{
		"good.mp4": "", "cut.mp4": "DURATION_MISMATCH", "nomoov.mp4": "TRUNCATED", "empty.mp4": "INPUT_EMPTY",
	} {
		for _, verify := range []string{"duration", "packets"} {
			f := attempt(t, map[string]any{"path": filepath.Join(dir, name), "verify": verify})
			res := step().Run(t.Context(), f.Task)
			if code == "" {
				require.Equal(t, dag.OutcomeSuccess, res.Kind, "%v", res.Err)
				continue
			}
			require.Equal(t, code, res.Err.Code, "%s: %v", name, res.Err)
			require.Equal(t, dag.ClassPermanent, res.Err.Class)
			nothingPublished(t, f)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
