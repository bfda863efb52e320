package load_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag/bundle"
	"github.com/airlock-dag/airlock/dag/load"
)

const small = "  tasks: {t: {operator: bash, bash_command: echo}}\n"

func TestABrokenFileHurtsNoOther(t *testing.T) {
	t.Parallel()
	res := load.Files([]bundle.File{
		{Path: "z.yml", Data: []byte("z:\n" + small)},
		{Path: "b.yml", Data: []byte("b: [")},
		{Path: "c.yml", Err: errUnreadable{}},
		{Path: "a.yml", Data: []byte("a:\n" + small)},
	}, options())
	require.Len(t, res.DAGs, 2)
	require.Equal(t, "a", res.DAGs[0].ID)
	require.Equal(t, "z", res.DAGs[1].ID)
	require.Equal(t, []string{"b.yml", "c.yml"}, res.Broken)
	require.Equal(t, map[string]string{"a": "a.yml", "z": "z.yml"}, res.DagFiles)
	require.True(t, res.HasErrors())
	require.Equal(t, "c.yml: error: it is locked away", res.Problems[1].String())
}

type errUnreadable struct{}

func (errUnreadable) Error() string { return "it is locked away" }

func TestOneIDInTwoFiles(t *testing.T) {
	t.Parallel()
	res := load.Files([]bundle.File{
		{Path: "b.yml", Data: []byte("# two\nsame:\n  retires: 1\n" + small)},
		{Path: "a.yml", Data: []byte("same:\n" + small)},
	}, options())
	require.Len(t, res.Problems, 2, "its other mistakes are told as well")
	require.Equal(t, `b.yml:2:1: error: same: the DAG id "same" is taken: a.yml defines it on line 1; rename one of the two`, res.Problems[0].String())
	require.Equal(t, "unknown-key", res.Problems[1].Code)
	require.Len(t, res.DAGs, 1)
	require.Equal(t, "a.yml", res.DAGs[0].FileLoc)
}

func TestTheOrderOfFilesDoesNotCount(t *testing.T) {
	t.Parallel()
	files := []bundle.File{
		{Path: "a.yml", Data: []byte("a:\n  retires: 1\n" + small)},
		{Path: "b.yml", Data: []byte("b:\n" + small)},
		{Path: "defaults.yml", Data: []byte("tags: [x]\n")},
	}
	one := load.Files(files, options())
	two := load.Files([]bundle.File{files[2], files[1], files[0]}, options())
	require.Equal(t, one, two)
}
