package upload_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	op "github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
	"github.com/airlock-dag/airlock/executor/operator/upload"
)

// names are the files below a folder, hidden ones included, without folders.
func names(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, relErr := filepath.Rel(dir, path)
			require.NoError(t, relErr)
			out = append(out, rel)
		}
		return err
	}))
	return out
}

// A folder named in each of the ways that there are.
func TestFolder(t *testing.T) {
	t.Parallel()
	path, data := file(t, 1, 300_000)
	key := hashOf(data) + ".mp4"
	root := t.TempDir()
	for name, c := range map[string]struct {
		target string
		conn   dag.Connection
		want   string
	}{
		"a path":                {filepath.Join(root, "a b"), dag.Connection{}, filepath.Join(root, "a b")},
		"a path with percents":  {filepath.Join(root, "50%20b 100%"), dag.Connection{}, filepath.Join(root, "50%20b 100%")},
		"a file address":        {"file://" + root + "/with%20space", dag.Connection{}, filepath.Join(root, "with space")},
		"a connection's schema": {"", dag.Connection{Type: "file", Schema: strings.TrimPrefix(root, "/") + "/c"}, filepath.Join(root, "c")},
		"a connection's path":   {"", dag.Connection{Type: "fs", Extra: map[string]any{"path": filepath.Join(root, "d")}}, filepath.Join(root, "d")},
		"below a connection":    {"sub/deep", dag.Connection{Type: "fs", Extra: map[string]any{"path": filepath.Join(root, "e")}}, filepath.Join(root, "e/sub/deep")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := map[string]any{"path": path, "target": c.target}
			if c.conn.Type != "" {
				args["conn_id"] = "store"
			}
			got := result(t, first1(run(t, operator(), c.conn, args)))
			require.False(t, got.Skipped)
			require.Equal(t, int64(len(data)), got.Size)
			written, err := os.ReadFile(filepath.Join(c.want, key))
			require.NoError(t, err)
			require.Equal(t, hashOf(data), hashOf(written))
			require.Equal(t, []string{key}, names(t, c.want), "no temporary file is left")
			require.True(t, result(t, first1(run(t, operator(), c.conn, args))).Skipped)
		})
	}
	// A relative target starts at the DAG file's folder.
	out, f := run(t, operator(), dag.Connection{}, map[string]any{"path": path, "target": "out", "key": "x/{stem}-copy{ext}"})
	require.Equal(t, "file://"+f.Dir+"/out/x/film-copy.mp4", result(t, out).URL)
	require.FileExists(t, filepath.Join(f.Dir, "out/x/film-copy.mp4"))
}

func TestFolderOtherContent(t *testing.T) {
	t.Parallel()
	first, firstData := file(t, 1, 1000)
	second, secondData := file(t, 2, 1000)
	dir := t.TempDir()
	args := func(path string, overwrite bool) map[string]any {
		return map[string]any{"path": path, "target": dir, "key": "film.mp4", "overwrite": overwrite}
	}
	result(t, first1(run(t, operator(), dag.Connection{}, args(first, false))))
	e := fails(t, first1(run(t, operator(), dag.Connection{}, args(second, false))), "OBJECT_EXISTS", dag.ClassPermanent)
	require.Equal(t, "file://"+dir+"/film.mp4", e.IdempotencyKey)
	require.Contains(t, e.Message, hashOf(firstData))
	got, err := os.ReadFile(filepath.Join(dir, "film.mp4"))
	require.NoError(t, err)
	require.Equal(t, hashOf(firstData), hashOf(got))
	result(t, first1(run(t, operator(), dag.Connection{}, args(second, true))))
	got, err = os.ReadFile(filepath.Join(dir, "film.mp4"))
	require.NoError(t, err)
	require.Equal(t, hashOf(secondData), hashOf(got))
	// A folder under the key is never taken away.
	require.NoError(t, os.Mkdir(filepath.Join(dir, "taken.mp4"), 0o755))
	a := args(first, true)
	a["key"] = "taken.mp4"
	fails(t, first1(run(t, operator(), dag.Connection{}, a)), "OBJECT_EXISTS", dag.ClassPermanent)
}

// Of twenty workers with one key and two contents one publishes; those with its
// content skip, the others say that the key is taken.
func TestFolderTwentyAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	paths, hashes := [2]string{}, [2]string{}
	for i := range paths {
		path, data := file(t, uint64(10+i), 200_000)
		paths[i], hashes[i] = path, hashOf(data)
	}
	outs := make([]dag.Outcome, 20)
	var all sync.WaitGroup
	for i := range outs {
		f := operatortest.New(t, map[string]any{"path": paths[i%2], "target": dir, "key": "film.mp4"})
		f.TI.ID = int64(i)
		all.Go(func() { outs[i] = operator().Run(t.Context(), f.Task) })
	}
	all.Wait()
	data, err := os.ReadFile(filepath.Join(dir, "film.mp4"))
	require.NoError(t, err)
	published := 0
	for i, out := range outs {
		if hashes[i%2] != hashOf(data) {
			fails(t, out, "OBJECT_EXISTS", dag.ClassPermanent)
			continue
		}
		if !result(t, out).Skipped {
			published++
		}
	}
	require.Equal(t, 1, published)
	require.Equal(t, []string{"film.mp4"}, names(t, dir))
}

// The next attempt removes the temporary files of dead writers, and leaves those
// of living ones and of other keys.
func TestFolderLeftovers(t *testing.T) {
	t.Parallel()
	path, _ := file(t, 3, 10)
	dir := t.TempDir()
	for _, name := range []string{".film.mp4.1-1-77.part", ".film.mp4.9-3-78.part", ".other.mp4.1-1-77.part", ".film.mp4.part"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o644))
	}
	living, err := os.Open(filepath.Join(dir, ".film.mp4.9-3-78.part"))
	require.NoError(t, err)
	defer living.Close()
	require.NoError(t, syscall.Flock(int(living.Fd()), syscall.LOCK_EX))
	out, f := run(t, operator(), dag.Connection{}, map[string]any{"path": path, "target": dir, "key": "film.mp4"}, again)
	result(t, out)
	require.Contains(t, f.Output.String(), "ended 1 unfinished upload(s)")
	require.ElementsMatch(t, []string{".film.mp4.9-3-78.part", ".other.mp4.1-1-77.part", ".film.mp4.part", "film.mp4"}, names(t, dir))
}

// Nothing is published for an attempt that has lost its lease, was stopped, or
// whose file is not what it should be.
func TestNothingIsPublished(t *testing.T) {
	t.Parallel()
	path, data := file(t, 4, 1000)
	empty := filepath.Join(t.TempDir(), "empty.mp4")
	require.NoError(t, os.WriteFile(empty, nil, 0o644))
	for name, c := range map[string]struct {
		path   any
		change func(*operatortest.Fixture)
		code   string
		class  dag.ErrorClass
	}{
		"the lease is lost":   {path, func(f *operatortest.Fixture) { f.Lost = true }, "LEASE_LOST", dag.ClassTransient},
		"no file":             {filepath.Join(filepath.Dir(path), "none.mp4"), nil, "INPUT_MISSING", dag.ClassPermanent},
		"an empty file":       {empty, nil, "INPUT_EMPTY", dag.ClassPermanent},
		"a folder":            {filepath.Dir(path), nil, "INVALID_ARGUMENT", dag.ClassConfiguration},
		"another hash":        {map[string]any{"path": path, "output_sha256": hashOf([]byte("x"))}, nil, "HASH_MISMATCH", dag.ClassPoison},
		"a record without":    {map[string]any{"output_sha256": hashOf(data)}, nil, "INVALID_ARGUMENT", dag.ClassConfiguration},
		"a number":            {7, nil, "INVALID_ARGUMENT", dag.ClassConfiguration},
		"a hash that is none": {map[string]any{"path": path, "output_sha256": "../../etc"}, nil, "INVALID_ARGUMENT", dag.ClassConfiguration},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			change := c.change
			if change == nil {
				change = func(*operatortest.Fixture) {}
			}
			fails(t, first1(run(t, operator(), dag.Connection{}, map[string]any{"path": c.path, "target": dir}, change)), c.code, c.class)
			require.Empty(t, names(t, dir))
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(op.ErrTimeout)
	dir := t.TempDir()
	out := operator().Run(ctx, operatortest.New(t, map[string]any{"path": path, "target": dir}).Task)
	fails(t, out, "TIMEOUT", dag.ClassTransient)
	require.Empty(t, names(t, dir))
	result(t, first1(run(t, operator(), dag.Connection{}, map[string]any{"path": empty, "target": dir, "allow_empty": true})))
}

// A key stays below its target, whatever a record or a template puts into it.
func TestKeysStayBelowTheTarget(t *testing.T) {
	t.Parallel()
	path, data := file(t, 5, 10)
	for _, key := range []string{"../film.mp4", "a/../../film.mp4", "/etc/film.mp4", "a//b", "a/./b", "..", "a/", "a\\b", "a\nb", strings.Repeat("x", 1025)} {
		dir := t.TempDir()
		fails(t, first1(run(t, operator(), dag.Connection{}, map[string]any{"path": path, "target": dir, "key": key})), "INVALID_ARGUMENT", dag.ClassConfiguration)
		record := map[string]any{"path": path, "output_sha256": hashOf(data), "key": key}
		fails(t, first1(run(t, operator(), dag.Connection{}, map[string]any{"path": record, "target": dir})), "INVALID_ARGUMENT", dag.ClassConfiguration)
		require.Empty(t, names(t, filepath.Dir(dir)+"/"+filepath.Base(dir)))
	}
	e := fails(t, first1(run(t, operator(), dag.Connection{}, map[string]any{"path": path, "target": t.TempDir(), "key": "{profile}/x"})), "INVALID_ARGUMENT", dag.ClassConfiguration)
	require.Contains(t, e.Message, "{profile}")
	// A name of the greatest length still has room for its temporary one.
	long := strings.Repeat("x", 251) + ".mp4"
	dir := t.TempDir()
	got := result(t, first1(run(t, operator(), dag.Connection{}, map[string]any{"path": path, "target": dir, "key": long})))
	require.IsType(t, &upload.Result{}, got)
	require.Equal(t, []string{long}, names(t, dir))
}

// A full disk is transient, and takes nothing from the key.
func TestFolderWithoutRoom(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a small file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no small file system here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	path, _ := file(t, 6, 1<<20)
	fails(t, first1(run(t, operator(), dag.Connection{}, map[string]any{"path": path, "target": dir})), "NO_SPACE", dag.ClassTransient)
	require.Empty(t, names(t, dir))
}
