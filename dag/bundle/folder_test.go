package bundle_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
)

func write(t *testing.T, root, name, text string) string {
	t.Helper()
	p := filepath.Join(root, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
	require.NoError(t, os.WriteFile(p, []byte(text), 0o644))
	return p
}

// scan lists the files as "path" or "path: error".
func scan(t *testing.T, f *bundle.Folder) []string {
	t.Helper()
	files, err := f.Scan()
	require.NoError(t, err)
	out := []string{}
	for _, file := range files {
		s := file.Path
		if file.Err != nil {
			require.Nil(t, file.Data)
			s += ": " + file.Err.Error()
		}
		out = append(out, s)
	}
	return out
}

func TestScanListsYAMLFilesSorted(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, name := range []string{
		"b.yml", "a/z.yaml", "a/deep/er/x.YML", "defaults.yml", "notes.txt", "dag.py",
		".hidden.yml", ".git/config.yml", "b.yml~", ".b.yml.swp", "#b.yml#", "x.yml.tmp", "a/__pycache__/c.yml",
	} {
		write(t, root, name, "k: v\n")
	}
	require.Equal(t, []string{"a/deep/er/x.YML", "a/z.yaml", "b.yml", "defaults.yml"}, scan(t, bundle.NewFolder(root)))
}

func TestScanReadsContent(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, "a.yml", "one: 1\n")
	files, err := bundle.NewFolder(root).Scan()
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.Equal(t, "one: 1\n", string(files[0].Data))
}

func TestScanSeesEveryChange(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	p := write(t, root, "a.yml", "a: 1\n")
	old := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	require.NoError(t, os.Chtimes(p, old, old))
	f := bundle.NewFolder(root)
	read := func() string {
		files, err := f.Scan()
		require.NoError(t, err)
		require.Len(t, files, 1)
		return string(files[0].Data)
	}
	require.Equal(t, "a: 1\n", read())
	require.Equal(t, "a: 1\n", read())
	// Same size, another time.
	write(t, root, "a.yml", "a: 2\n")
	require.Equal(t, "a: 2\n", read())
	// Same size again and at once: the time stamp may not have moved.
	write(t, root, "a.yml", "a: 3\n")
	require.Equal(t, "a: 3\n", read())
}

func TestScanTakesAnUnchangedFileFromMemory(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	p := write(t, root, "a.yml", "a: 1\n")
	old := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	require.NoError(t, os.Chtimes(p, old, old))
	f := bundle.NewFolder(root)
	first, err := f.Scan()
	require.NoError(t, err)
	second, err := f.Scan()
	require.NoError(t, err)
	require.Same(t, &first[0].Data[0], &second[0].Data[0])
}

func TestScanReportsWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, "good.yml", "a: 1\n")
	require.NoError(t, os.Symlink("nowhere.yml", filepath.Join(root, "dangling.yml")))
	require.NoError(t, os.Symlink("gone", filepath.Join(root, "dangling.txt")))
	require.NoError(t, os.WriteFile(filepath.Join(root, "big.yml"), make([]byte, bundle.MaxFileSize+1), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(root, "folder.yaml"), 0o755))
	require.Equal(t, []string{
		fmt.Sprintf("big.yml: the file has %d bytes; at most %d (5 MB) are read: split it", bundle.MaxFileSize+1, bundle.MaxFileSize),
		"dangling.yml: the link leads to nowhere.yml, which does not exist",
		"good.yml",
	}, scan(t, bundle.NewFolder(root)))
}

func TestScanFollowsLinksOnce(t *testing.T) {
	t.Parallel()
	root, other := t.TempDir(), t.TempDir()
	write(t, other, "linked.yml", "a: 1\n")
	write(t, root, "sub/own.yml", "a: 1\n")
	require.NoError(t, os.Symlink(other, filepath.Join(root, "elsewhere")))
	require.NoError(t, os.Symlink(other, filepath.Join(root, "elsewhere2")))
	require.NoError(t, os.Symlink(root, filepath.Join(root, "sub", "loop")))
	require.Equal(t, []string{"elsewhere/linked.yml", "sub/own.yml"}, scan(t, bundle.NewFolder(root)))

	link := filepath.Join(t.TempDir(), "current")
	require.NoError(t, os.Symlink(root, link))
	require.Equal(t, []string{"elsewhere/linked.yml", "sub/own.yml"}, scan(t, bundle.NewFolder(link)))
}

func TestAirflowIgnore(t *testing.T) {
	t.Parallel()
	paths := []string{
		"a.yml", "b.yml", "draft_a.yml", "sub/draft_b.yml", "sub/keep.yml", "sub/deep/x.yml",
		"top/one.yml", "sub/top/two.yml", "build/c.yml", "e1.yml", "e2.yml", "e[1.yml",
	}
	tests := []struct {
		name, ignore string
		gone         []string
	}{
		{"nothing", "", nil},
		{"comments and blanks", "# a.yml\n\n   \n", nil},
		{"name anywhere", "draft_*.yml\n", []string{"draft_a.yml", "sub/draft_b.yml"}},
		{"trailing comment", "b.yml # not yet\r\n", []string{"b.yml"}},
		{"taken back", "*.yml\n!sub/\n!keep.yml\n", []string{
			"a.yml", "b.yml", "draft_a.yml", "sub/draft_b.yml", "sub/deep/x.yml", "top/one.yml", "sub/top/two.yml", "build/c.yml", "e1.yml", "e2.yml", "e[1.yml",
		}},
		{"anchored", "/top\n", []string{"top/one.yml"}},
		{"folder only", "top/\na.yml/\n", []string{"top/one.yml", "sub/top/two.yml"}},
		{"inner slash anchors", "sub/*.yml\n", []string{"sub/draft_b.yml", "sub/keep.yml"}},
		{"two stars", "sub/**\n", []string{"sub/draft_b.yml", "sub/keep.yml", "sub/deep/x.yml", "sub/top/two.yml"}},
		{"two stars in front", "**/x.yml\n", []string{"sub/deep/x.yml"}},
		{"set", "e[12].yml\n", []string{"e1.yml", "e2.yml"}},
		{"negated set", "e[!1].yml\n", []string{"e2.yml"}},
		{"escape", `e\[1.yml` + "\n", []string{"e[1.yml"}},
		{"question mark", "?.yml\n", []string{"a.yml", "b.yml", "sub/deep/x.yml", "build/c.yml"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for _, p := range paths {
				write(t, root, p, "")
			}
			write(t, root, ".airflowignore", tt.ignore)
			got := map[string]bool{}
			for _, p := range scan(t, bundle.NewFolder(root)) {
				got[p] = true
			}
			for _, p := range paths {
				gone := false
				for _, g := range tt.gone {
					gone = gone || g == p
				}
				require.Equal(t, !gone, got[p], p)
			}
		})
	}
}

func TestAirflowIgnoreBelowTheRoot(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, "x.yml", "")
	write(t, root, "sub/x.yml", "")
	write(t, root, "sub/y.yml", "")
	write(t, root, "sub/.airflowignore", "/x.yml\n")
	require.Equal(t, []string{"sub/y.yml", "x.yml"}, scan(t, bundle.NewFolder(root)))
}

func TestAirflowIgnoreWithABadPattern(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, "x.yml", "")
	write(t, root, ".airflowignore", "ok.yml\na[b\n")
	require.Equal(t, []string{`.airflowignore: line 2: pattern "a[b" has a [ without ]`, "x.yml"}, scan(t, bundle.NewFolder(root)))
}

func TestScanOfAMissingFolder(t *testing.T) {
	t.Parallel()
	_, err := bundle.NewFolder(filepath.Join(t.TempDir(), "dags")).Scan()
	require.Equal(t, dag.ErrNotFound, dag.CodeOf(err))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Contains(t, err.Error(), "--dags-folder", err)

	file := write(t, t.TempDir(), "a.yml", "")
	_, err = bundle.NewFolder(file).Scan()
	require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))
}
