package executor

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func TestLogKeepsHeadAndTailAndSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := attemptLog(dir, "a/b.log", 200) // 100 bytes of head, 100 of tail
	var all bytes.Buffer
	for i := range 100 {
		line := fmt.Sprintf("line %04d\n", i) // 10 bytes each
		all.WriteString(line)
		_, err := l.Write([]byte(line))
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	got, err := os.ReadFile(filepath.Join(dir, "a", "b.log"))
	require.NoError(t, err)
	head, rest, found := strings.Cut(string(got), "\n[airlock: 800 bytes of output left out here, the log keeps 200]\n")
	require.True(t, found, string(got))
	require.Equal(t, all.String()[:100], head)
	require.Equal(t, all.String()[900:], rest)
}

func TestLogBelowItsLimitIsWhole(t *testing.T) {
	t.Parallel()
	for size := 1; size <= 200; size++ {
		dir := t.TempDir()
		l := attemptLog(dir, "x.log", 200)
		want := bytes.Repeat([]byte{'a', 'b', 'c'}, 100)[:size]
		for _, b := range want {
			_, err := l.Write([]byte{b})
			require.NoError(t, err)
		}
		require.NoError(t, l.Close())
		got, err := os.ReadFile(filepath.Join(dir, "x.log"))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
}

func TestLogMasksSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := attemptLog(dir, "x.log", 0)
	l.Mask("hunter2hunter2")
	l.Mask("no") // too short to be masked
	_, err := l.Write([]byte("mysql://root:hunter2hunter2@db, no\x00\xff\n"))
	require.NoError(t, err)
	require.NoError(t, l.Close())
	got, err := os.ReadFile(filepath.Join(dir, "x.log"))
	require.NoError(t, err)
	require.Equal(t, "mysql://root:***@db, no\x00\xff\n", string(got))
}

func TestLogPathStaysBelowItsFolder(t *testing.T) {
	t.Parallel()
	k := dag.TaskInstanceKey{DagID: "../x", RunID: "manual__2026-01-01T00:00:00+00:00", TaskID: "a/b", MapIndex: 3}
	require.Equal(t, "dag_id=.._x/run_id=manual__2026-01-01T00:00:00+00:00/task_id=a_b/map_index=3/attempt=2.log", LogPath(k, 2))
}

func TestLogOfASilentStepIsNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	quiet := attemptLog(dir, "quiet.log", 0)
	quiet.Note("begins\n")
	require.NoError(t, quiet.Close())
	require.NoFileExists(t, filepath.Join(dir, "quiet.log"))

	said := attemptLog(dir, "said.log", 0)
	said.Note("begins\n")
	_, err := said.Write([]byte("out\n"))
	require.NoError(t, err)
	said.Note("ends\n")
	require.NoError(t, said.Close())
	got, err := os.ReadFile(filepath.Join(dir, "said.log"))
	require.NoError(t, err)
	require.Equal(t, "begins\nout\nends\n", string(got))
}

// TestLogsOfLongIDs: an id may have 250 characters, of four bytes each, and a
// file name 255 bytes.
func TestLogsOfLongIDs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	long := strings.Repeat("\U0001F600", 250)
	seen := map[string]bool{}
	for _, k := range []dag.TaskInstanceKey{
		{DagID: long, RunID: long, TaskID: long, MapIndex: 1}, {DagID: long, RunID: long, TaskID: long + "b", MapIndex: 1},
		{DagID: strings.Repeat("d", 250), RunID: "../" + strings.Repeat("r", 247), TaskID: strings.Repeat("t", 250), MapIndex: -1},
	} {
		path := LogPath(k, 1)
		require.False(t, seen[path])
		seen[path] = true
		log := attemptLog(dir, path, 0)
		_, err := log.Write([]byte("x"))
		require.NoError(t, err)
		require.NoError(t, log.Close())
		require.FileExists(t, filepath.Join(dir, path))
	}
	_, err := os.MkdirTemp(dir, "airlock-"+safeName(long)+"-") //nolint:usetesting // the name is what is tested
	require.NoError(t, err)
}
