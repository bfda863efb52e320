package upload_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
	"github.com/airlock-dag/airlock/executor/operator/upload/s3test"
)

// workerEnv makes the test binary a worker that makes one attempt and ends.
const workerEnv = "AIRLOCK_TEST_UPLOAD"

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		os.Args = []string{os.Args[0], "-test.run=^TestWorkerProcess$"}
	}
	os.Exit(m.Run())
}

// work is what a worker process gets.
type work struct {
	Args       map[string]any
	Connection dag.Connection
}

func TestWorkerProcess(t *testing.T) {
	text := os.Getenv(workerEnv)
	if text == "" {
		t.Skip("only for worker processes")
	}
	var w work
	require.NoError(t, json.Unmarshal([]byte(text), &w))
	f := operatortest.New(t, w.Args)
	f.Connections["store"] = w.Connection
	operator().Run(context.Background(), f.Task)
}

// killed starts a worker process, waits until the condition holds and kills it
// with -9.
func killed(t testing.TB, w work, when func() bool) {
	t.Helper()
	text, err := json.Marshal(w)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	require.NoError(t, cmd.Start())
	require.Eventually(t, when, time.Minute, 2*time.Millisecond)
	require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
	_ = cmd.Wait()
}

// A worker is killed in the middle of an upload, three times over: nothing is
// under the key, the next attempt publishes one object and leaves nothing else.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	path, data := file(t, 1, 11*mebibyte)
	key := hashOf(data) + ".mp4"
	slow := func(target string) map[string]any {
		return map[string]any{"path": path, "conn_id": "store", "target": target, "part_size": 5 * mebibyte, "bytes_per_second": 4 * mebibyte}
	}
	t.Run("S3", func(t *testing.T) {
		t.Parallel()
		s := s3test.Start(t)
		for range 3 {
			before := s.Unfinished(t)
			killed(t, work{slow("s3://media"), s.Connection()}, func() bool { return s.Unfinished(t) > before })
			require.Empty(t, s.Objects(t))
		}
		require.Equal(t, 3, s.Unfinished(t))
		args := slow("s3://media")
		delete(args, "bytes_per_second")
		out, f := run(t, operator(), s.Connection(), args, again)
		require.False(t, result(t, out).Skipped)
		require.Contains(t, f.Output.String(), "ended 3 unfinished upload(s)")
		require.Zero(t, s.Unfinished(t))
		objects := s.Objects(t)
		require.Len(t, objects, 1)
		require.True(t, bytes.Equal(data, objects[key]))
	})
	t.Run("folder", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		parts := func() int {
			n := 0
			for _, name := range names(t, dir) {
				if info, err := os.Stat(filepath.Join(dir, name)); err == nil && strings.HasSuffix(name, ".part") && info.Size() > 0 {
					n++
				}
			}
			return n
		}
		for i := range 3 {
			killed(t, work{slow(dir), dag.Connection{Type: "file"}}, func() bool { return parts() > i })
			require.NoFileExists(t, filepath.Join(dir, key))
		}
		args := slow(dir)
		delete(args, "bytes_per_second")
		out, f := run(t, operator(), dag.Connection{Type: "file"}, args, again)
		require.False(t, result(t, out).Skipped)
		require.Contains(t, f.Output.String(), "ended 3 unfinished upload(s)")
		require.Equal(t, []string{key}, names(t, dir))
		got, err := os.ReadFile(filepath.Join(dir, key))
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, got))
	})
}

func withCause(t testing.TB) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cancel(nil) })
	return ctx, cancel
}
