package filesensor_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
	"github.com/airlock-dag/airlock/executor/operator/filesensor"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
)

// put makes files below a folder; a name that ends in / is a folder.
func put(t testing.TB, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if name[len(name)-1] == '/' {
			require.NoError(t, os.MkdirAll(path, 0o755))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
}

// look is one look of a sensor in reschedule mode.
func look(t *testing.T, f *operatortest.Fixture) dag.Outcome {
	t.Helper()
	f.Args["mode"] = "reschedule"
	return filesensor.New().Run(t.Context(), f.Task)
}

func TestWhatIsFound(t *testing.T) {
	t.Parallel()
	const nothing = ""
	for name, c := range map[string]struct {
		files     []string
		pattern   string
		recursive bool
		want      string
	}{
		"a file":                     {[]string{"a.csv"}, "a.csv", false, "a.csv"},
		"no file":                    {[]string{"b.csv"}, "a.csv", false, nothing},
		"no folder":                  {nil, "x/y/a.csv", false, nothing},
		"a file where a folder is":   {[]string{"x"}, "x/y", false, nothing},
		"a pattern through a file":   {[]string{"x"}, "x/*", false, nothing},
		"a folder with a file":       {[]string{"in/deep/er/a"}, "in", false, "in/deep/er/a"},
		"an empty folder":            {[]string{"in/deep/"}, "in", false, nothing},
		"a folder with a slash":      {[]string{"in/a"}, "in/", false, "in/a"},
		"the first of many":          {[]string{"o-2.csv", "o-1.csv", "o-3.txt"}, "o-*.csv", false, "o-1.csv"},
		"an empty folder is passed":  {[]string{"a/", "b/x"}, "*", false, "b/x"},
		"a pattern in the middle":    {[]string{"2026/03/a.csv"}, "20*/0[1-4]/?.csv", false, "2026/03/a.csv"},
		"not these":                  {[]string{"a1", "b1"}, "[!a]1", false, "b1"},
		"a bracket alone":            {[]string{"a[1"}, "a[*", false, "a[1"},
		"a backslash is one":         {[]string{`a\b`}, `a\*`, false, `a\b`},
		"hidden files":               {[]string{".a.csv"}, "*.csv", false, nothing},
		"hidden files asked for":     {[]string{".a.csv"}, ".*.csv", false, ".a.csv"},
		"two stars, not recursive":   {[]string{"x/y/a.csv"}, "**/a.csv", false, nothing},
		"two stars are one":          {[]string{"x/a.csv"}, "**/a.csv", false, "x/a.csv"},
		"recursive":                  {[]string{"x/y/z/a.csv"}, "**/a.csv", true, "x/y/z/a.csv"},
		"recursive, no folder":       {[]string{"a.csv"}, "**/a.csv", true, "a.csv"},
		"recursive in the middle":    {[]string{"x/1/2/y/a"}, "x/**/y/a", true, "x/1/2/y/a"},
		"recursive at the end":       {[]string{"x/1/2/a"}, "x/**", true, "x/1/2/a"},
		"recursive and hidden":       {[]string{".git/a.csv"}, "**/a.csv", true, nothing},
		"recursive and only folders": {[]string{"x/y/z/"}, "**", true, nothing},
		"dots":                       {[]string{"a.csv"}, "x/../a.csv", false, "a.csv"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, absolute := range []bool{false, true} {
				f := operatortest.New(t, map[string]any{"filepath": c.pattern, "recursive": c.recursive})
				put(t, f.Dir, c.files...)
				if absolute {
					f.Args["filepath"] = f.Dir + "/" + c.pattern
				}
				out := look(t, f)
				if c.want == nothing {
					require.Equal(t, dag.OutcomeReschedule, out.Kind, "%v %v", out.Err, out.ReturnValue)
					continue
				}
				require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v", out.Err)
				require.Equal(t, filepath.Join(f.Dir, c.want), out.ReturnValue)
			}
		})
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	f := operatortest.New(t, map[string]any{"filepath": "**/a.csv", "recursive": true})
	put(t, f.Dir, "real/")
	require.NoError(t, os.Symlink("..", filepath.Join(f.Dir, "real", "up")))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(f.Dir, "a.csv")))
	require.Equal(t, dag.OutcomeReschedule, look(t, f).Kind, "a link to nowhere is no file, and a link up is not gone through")
	put(t, f.Dir, "nowhere")
	require.Equal(t, filepath.Join(f.Dir, "a.csv"), look(t, f).ReturnValue)
}

func TestWhereAPathStarts(t *testing.T) {
	t.Parallel()
	f := operatortest.New(t, map[string]any{"filepath": "a.csv", "fs_conn_id": "inbox"})
	other := t.TempDir()
	put(t, other, "a.csv")
	f.Connections["inbox"] = dag.Connection{Type: "fs", Extra: map[string]any{"path": other}}
	require.Equal(t, filepath.Join(other, "a.csv"), look(t, f).ReturnValue)

	put(t, f.Dir, "sub/a.csv")
	f.Connections["inbox"] = dag.Connection{Type: "fs", Extra: map[string]any{"path": "sub"}}
	require.Equal(t, filepath.Join(f.Dir, "sub", "a.csv"), look(t, f).ReturnValue)

	f.Args["fs_conn_id"] = "nope"
	require.Equal(t, "CONNECTION_MISSING", look(t, f).Err.Code)
	f.Args["fs_conn_id"] = "fs_default"
	require.Equal(t, dag.OutcomeReschedule, look(t, f).Kind, "it need not exist")
}

func TestWaitsForAFileThatComesLater(t *testing.T) {
	t.Parallel()
	f := operatortest.New(t, map[string]any{"filepath": "in/*.csv", "poke_interval": 5.0})
	clock := dagtest.NewClock(operatortest.LogicalDate())
	f.Clock = clock
	out := make(chan dag.Outcome, 1)
	go func() { out <- filesensor.New().Run(t.Context(), f.Task) }()
	clock.BlockUntil(1)
	put(t, f.Dir, "in/a.csv")
	clock.Advance(5 * time.Second)
	require.Equal(t, filepath.Join(f.Dir, "in", "a.csv"), (<-out).ReturnValue)
}

func TestWhatFails(t *testing.T) {
	t.Parallel()
	for _, path := range []any{nil, "", " ", 1.0, "a\x00b"} {
		out := look(t, operatortest.New(t, map[string]any{"filepath": path}))
		require.Equal(t, "INVALID_ARGUMENT", out.Err.Code, "%v", path)
	}
	if os.Geteuid() != 0 {
		f := operatortest.New(t, map[string]any{"filepath": "in/*"})
		put(t, f.Dir, "in/")
		require.NoError(t, os.Chmod(filepath.Join(f.Dir, "in"), 0))
		require.Equal(t, "PERMISSION_DENIED", look(t, f).Err.Code)
	}
	validate := filesensor.New().Spec().Validate
	require.Empty(t, validate(map[string]any{"filepath": "{{ ds }}/*"}))
	require.Len(t, validate(map[string]any{"filepath": ""}), 1)
}

// FuzzPatterns: no pattern panics or hangs, and what is found is there.
func FuzzPatterns(f *testing.F) {
	dir := f.TempDir()
	put(f, dir, "a/b/c.csv", "a/[x]/d", "e*", ".hidden/f")
	for _, seed := range []string{"**/*", "a/[x]/d", "[", "]", "a/**/**/**/c*", "..", "/", "\\", "e[*]", "a//b/./c.csv"} {
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, pattern string, recursive bool) {
		fix := operatortest.New(t, map[string]any{"filepath": dir + "/./" + pattern, "recursive": recursive, "mode": "reschedule"})
		if len(pattern) > 64 || filepath.Clean(dir+"/"+pattern) == "/" || len(filepath.Clean(dir+"/"+pattern)) < len(dir) {
			return // outside of the folder
		}
		out := filesensor.New().Run(t.Context(), fix.Task)
		if path, ok := out.ReturnValue.(string); ok {
			_, err := os.Stat(path)
			require.NoError(t, err)
		}
	})
}
