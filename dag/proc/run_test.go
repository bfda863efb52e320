//go:build linux

package proc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag/proc"
)

var errStop = errors.New("the test stops it")

// waitFor polls until the condition holds; a test that never sees it fails.
func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, time.Minute, 5*time.Millisecond, what)
}

// markerOf is a marker that no other process of this test has on this machine.
func markerOf(t *testing.T, kind string) string {
	t.Helper()
	return fmt.Sprintf("%s-%d-%s", kind, os.Getpid(), t.Name())
}

// daemon is a script that starts a process in a session of its own, which notes
// its number in the first argument when it is there, and goes on only then: the
// shell's group, where it comes from, is ended with the shell.
const daemon = `setsid bash -c 'echo $$ > "$1"; exec sleep 300' bash "$1" & until test -s "$1"; do sleep 0.01; done`

// alive tells whether a process runs (and is more than an uncollected status).
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return f[0] != "Z" && f[0] != "X"
}

func pidFrom(t *testing.T, file string) int {
	t.Helper()
	var pid int
	waitFor(t, "pid in "+file, func() bool {
		b, err := os.ReadFile(file)
		if err != nil || !bytes.HasSuffix(b, []byte("\n")) {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
		return err == nil
	})
	return pid
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func bash(script string, args ...string) []string {
	return append([]string{"bash", "-c", script, "bash"}, args...)
}

func TestRunReportsHowTheChildEnded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script string
		code   int
		signal syscall.Signal
	}{
		"success":   {"exit 0", 0, 0},
		"exit code": {"exit 42", 42, 0},
		"killed":    {"kill -9 $$", -1, syscall.SIGKILL},
		"segv":      {"kill -SEGV $$", -1, syscall.SIGSEGV},
		"term":      {"kill -TERM $$", -1, syscall.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errOut bytes.Buffer
			res, err := proc.Run(t.Context(), proc.Command{
				Argv: bash("echo out; echo err >&2; " + tc.script), Stdout: &out, Stderr: &errOut,
			})
			require.NoError(t, err)
			require.Equal(t, tc.code, res.ExitCode)
			require.Equal(t, tc.signal, res.Signal)
			require.NoError(t, res.Stopped)
			require.False(t, res.OutOfMemory)
			require.Equal(t, "out\n", out.String())
			require.Equal(t, "err\n", errOut.String())
		})
	}
}

func TestRunRefusesWhatCannotStart(t *testing.T) {
	t.Parallel()
	_, err := proc.Run(t.Context(), proc.Command{})
	require.Error(t, err)
	_, err = proc.Run(t.Context(), proc.Command{Argv: []string{"no-such-program-here"}, Stdout: io.Discard, Stdin: strings.NewReader("x")})
	require.ErrorContains(t, err, "no-such-program-here")
	_, err = proc.Run(t.Context(), proc.Command{Argv: bash("true"), Dir: filepath.Join(t.TempDir(), "gone"), Stdout: io.Discard})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestRunStartsNothingWhenAlreadyCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStop)
	file := filepath.Join(t.TempDir(), "made")
	res, err := proc.Run(ctx, proc.Command{Argv: bash(`touch "$1"`, file)})
	require.NoError(t, err)
	require.Equal(t, errStop, res.Stopped)
	require.NoFileExists(t, file)
}

func TestRunGivesEnvironmentDirectoryInputAndMarker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var out bytes.Buffer
	res, err := proc.Run(t.Context(), proc.Command{
		Argv: bash(`pwd -P; echo "$GREETING $AIRLOCK_ATTEMPT"; cat`), Dir: dir,
		Env:    []string{"PATH=" + os.Getenv("PATH"), "GREETING=hello", "AIRLOCK_ATTEMPT=of an outer one"},
		Marker: "w1/t1/1", Stdin: strings.NewReader("from stdin"), Stdout: &out,
	})
	require.NoError(t, err)
	require.Zero(t, res.ExitCode)
	real, err := filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	require.Equal(t, real+"\nhello w1/t1/1\nfrom stdin", out.String())
}

func TestRunDoesNotWaitForInputThatTheChildIgnores(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	defer w.Close() // never written: a Read of it blocks
	res, err := proc.Run(t.Context(), proc.Command{Argv: bash("exit 3"), Stdin: r})
	require.NoError(t, err)
	require.Equal(t, 3, res.ExitCode)
}

func TestRunMergesStreamsInOrder(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	var want strings.Builder
	for i := range 50 {
		fmt.Fprintf(&want, "o%d\ne%d\n", i, i)
	}
	_, err := proc.Run(t.Context(), proc.Command{
		Argv: bash(`for i in {0..49}; do echo o$i; echo e$i >&2; done`), Stdout: &out, Stderr: &out,
	})
	require.NoError(t, err)
	require.Equal(t, want.String(), out.String())
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestRunReadsOnWhenTheWriterFails(t *testing.T) {
	t.Parallel()
	res, err := proc.Run(t.Context(), proc.Command{
		Argv: bash("head -c 3000000 /dev/zero && exit 7"), Stdout: failingWriter{},
	})
	require.NoError(t, err)
	require.Equal(t, 7, res.ExitCode)
}

// The forms in which a command outlives a time limit that only ends its shell.
func TestStopEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"background child":      `sleep 300 & echo $! > "$1"; sleep 300; echo done`,
		"child ignores TERM":    `(trap '' TERM; exec sleep 300) & echo $! > "$1"; sleep 300`,
		"all ignore TERM":       `trap '' TERM; (sleep 300; sleep 300) & echo $! > "$1"; while :; do sleep 300; done`,
		"stopped child":         `sleep 300 & echo $! > "$1"; kill -STOP $$; sleep 300`,
		"child in the pipe":     `(sleep 300 | cat) & echo $! > "$1"; sleep 300 | cat`,
		"forks while it dies":   `trap 'sleep 300 &' TERM; sleep 300 & echo $! > "$1"; while :; do wait; done`,
		"shell gone, child not": `sleep 300 & echo $! > "$1"; trap 'exit 0' TERM; wait`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pid")
			marker := markerOf(t, "stop")
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				pidFrom(t, file)
				cancel(errStop)
			}()
			var out lockedBuffer
			res, err := proc.Run(ctx, proc.Command{
				Argv: bash(script, file), Grace: 300 * time.Millisecond, Stdout: &out, Stderr: &out, Marker: marker,
			})
			require.NoError(t, err)
			require.Equal(t, errStop, res.Stopped)
			require.False(t, alive(pidFrom(t, file)))
			left, err := proc.Leftovers(marker)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

type hurry struct{}

func (hurry) Error() string        { return "hurry" }
func (hurry) Grace() time.Duration { return 50 * time.Millisecond }

func TestACauseMayShortenTheGrace(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		pidFrom(t, file)
		cancel(fmt.Errorf("wrapped: %w", hurry{}))
	}()
	res, err := proc.Run(ctx, proc.Command{
		Argv: bash(`trap '' TERM; echo $$ > "$1"; while :; do sleep 300; done`, file), Grace: time.Hour,
	})
	require.NoError(t, err)
	require.ErrorIs(t, res.Stopped, hurry{})
	require.Equal(t, syscall.SIGKILL, res.Signal)
}

func TestStopLetsTheChildFinishInPeace(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		pidFrom(t, file)
		cancel(errStop)
	}()
	var out bytes.Buffer
	res, err := proc.Run(ctx, proc.Command{
		Argv:   bash(`trap 'echo trailer written; exit 5' TERM; echo $$ > "$1"; while :; do sleep 0.05; done`, file),
		Stdout: &out,
	})
	require.NoError(t, err)
	require.Equal(t, errStop, res.Stopped)
	require.Equal(t, 5, res.ExitCode)
	require.Equal(t, "trailer written\n", out.String())
}

func TestLeftoversOfAChildThatEndedAreEnded(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	var out bytes.Buffer
	res, err := proc.Run(t.Context(), proc.Command{Argv: bash(`sleep 300 & echo $! > "$1"; echo done; exit 4`, file), Stdout: &out})
	require.NoError(t, err)
	require.Equal(t, 4, res.ExitCode)
	require.NoError(t, res.Stopped)
	require.Equal(t, "done\n", out.String())
	require.False(t, alive(pidFrom(t, file)))
}

func TestAShortBackgroundJobMayFinish(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "copy")
	_, err := proc.Run(t.Context(), proc.Command{Argv: bash(`echo data | tee >(sleep 0.2; cat > "$1") >/dev/null`, file)})
	require.NoError(t, err)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "data\n", string(b))
}

func TestSetsidChildIsNotWaitedForAndSwept(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"quiet":       daemon + `; head -c 200000 /dev/zero`,
		"writes on":   `setsid bash -c 'trap "" PIPE; echo $$ > "$1"; while :; do echo x >&2; done' bash "$1" & head -c 200000 /dev/zero`,
		"ignores":     `setsid bash -c 'trap "" TERM; echo $$ > "$1"; while :; do sleep 300; done' bash "$1" & head -c 200000 /dev/zero`,
		"stops":       `setsid bash -c 'echo $$ > "$1"; kill -STOP $$; sleep 300' bash "$1" & head -c 200000 /dev/zero`,
		"double fork": `setsid bash -c 'setsid sleep 300 & echo $! > "$1"' bash "$1" & head -c 200000 /dev/zero`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pid")
			marker := markerOf(t, "sweep")
			out, errOut := proc.NewTail(10), proc.NewTail(10)
			res, err := proc.Run(t.Context(), proc.Command{
				Argv:   bash(script+`; until test -s "$1"; do sleep 0.01; done`, file),
				Marker: marker, Stdout: out, Stderr: errOut,
			})
			require.NoError(t, err)
			require.Zero(t, res.ExitCode)
			require.EqualValues(t, 200000, out.Written(), "all that the child itself wrote is delivered")
			pid := pidFrom(t, file)
			require.True(t, alive(pid))

			left, err := proc.Leftovers(marker)
			require.NoError(t, err)
			require.NotEmpty(t, left)
			for _, p := range left {
				require.Equal(t, marker, p.Marker)
				require.NotZero(t, p.StartTicks)
				require.NotEmpty(t, p.Args)
			}
			n, err := proc.Sweep(marker, 200*time.Millisecond)
			require.NoError(t, err)
			require.GreaterOrEqual(t, n, 1)
			waitFor(t, "the process to be gone", func() bool { return !alive(pid) })
			n, err = proc.Sweep(marker, 0)
			require.NoError(t, err)
			require.Zero(t, n)
		})
	}
}

func TestSweepMatchesWholePartsOfTheMarker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pids := map[string]int{}
	prefix := filepath.Base(t.TempDir()) + "-" + strconv.Itoa(os.Getpid()) + "-w"
	for _, m := range []string{prefix + "1", prefix + "1/t/1", prefix + "10/t/1"} {
		file := filepath.Join(dir, strings.ReplaceAll(m, "/", "_"))
		_, err := proc.Run(t.Context(), proc.Command{
			Argv: bash(daemon, file), Marker: m,
		})
		require.NoError(t, err)
		pids[m] = pidFrom(t, file)
	}
	_, err := proc.Sweep("", 0)
	require.Error(t, err)
	_, err = proc.Leftovers("")
	require.Error(t, err)
	n, err := proc.Sweep(prefix+"1", 0)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.True(t, alive(pids[prefix+"10/t/1"]))
	n, err = proc.Sweep(prefix+"10/", 0)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

func TestSweepReadsLargeEnvironments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, size := range []int{3 << 10, 8 << 10, 30 << 10, 100 << 10} {
		marker := fmt.Sprintf("large-%s%d/%d", filepath.Base(dir), os.Getpid(), size)
		file := filepath.Join(dir, strconv.Itoa(size))
		_, err := proc.Run(t.Context(), proc.Command{
			Argv: bash(daemon, file), Marker: marker, ExtraEnv: []string{"BEFORE=" + strings.Repeat("x", size)},
		})
		require.NoError(t, err)
		n, err := proc.Sweep(marker, time.Second)
		require.NoError(t, err)
		require.Equal(t, 1, n, "%d bytes of environment", size)
	}
}

func TestSweepUnlessKeepsWhatIsHeld(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	prefix := "unless-" + filepath.Base(dir) + strconv.Itoa(os.Getpid())
	pids := map[string]int{}
	for _, m := range []string{prefix + "/1/1", prefix + "/2/7"} {
		file := filepath.Join(dir, strings.ReplaceAll(m, "/", "_"))
		_, err := proc.Run(t.Context(), proc.Command{
			Argv: bash(daemon+`; rm "$1"; `+daemon, file), Marker: m,
		})
		require.NoError(t, err)
		pids[m] = pidFrom(t, file)
	}
	n, err := proc.SweepUnless(prefix, func(m string) bool { return m == prefix+"/2/7" }, time.Second)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.True(t, alive(pids[prefix+"/2/7"]))
	n, err = proc.SweepUnless(prefix, func(string) bool { return false }, time.Second)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	_, err = proc.SweepUnless("", nil, 0)
	require.Error(t, err)
}

func TestALargeOutputKeepsMemoryFlat(t *testing.T) {
	t.Parallel()
	const size = 300 << 20
	tail := proc.NewTail(4096)
	var lines int
	lw := proc.NewLineWriter(0, func(line []byte, cut int64) { lines++ })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := proc.Run(t.Context(), proc.Command{
		Argv:   bash("head -c " + strconv.Itoa(size) + " /dev/zero; echo; echo the end"),
		Stdout: io.MultiWriter(tail, lw),
	})
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.EqualValues(t, size+len("\nthe end\n"), tail.Written())
	require.EqualValues(t, 2, tail.Lines())
	require.Equal(t, 2, lines)
	require.True(t, strings.HasSuffix(tail.String(), "\x00\nthe end\n"))
	// Other tests run beside this one; what is asked for is far below the output.
	require.Less(t, int64(after.TotalAlloc-before.TotalAlloc), int64(size/4))
}

func TestADeadParentTakesItsChildWithIt(t *testing.T) {
	if file := os.Getenv("PROC_TEST_PARENT"); file != "" {
		// The parent role: runs a child and is killed while it waits.
		_, _ = proc.Run(context.Background(), proc.Command{Argv: bash(`echo $$ > "$1.tmp"; mv "$1.tmp" "$1"; exec sleep 300`, file)})
		return
	}
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	exe, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var parent int
	started := make(chan int, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = proc.Run(ctx, proc.Command{
			Argv:    []string{exe, "-test.run", "^TestADeadParentTakesItsChildWithIt$"},
			Env:     append(os.Environ(), "PROC_TEST_PARENT="+file),
			Started: func(pid int) { started <- pid },
		})
	}()
	parent = <-started
	child := pidFrom(t, file)
	require.NoError(t, syscall.Kill(parent, syscall.SIGKILL))
	waitFor(t, "the child to die with its parent", func() bool { return !alive(child) })
	cancel()
	<-done
}
