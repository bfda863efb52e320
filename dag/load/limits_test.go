package load_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The inputs here are far beyond real ones. What matters is that they end, and
// end with a word; each takes seconds where a step of the loader is quadratic.

func TestALargeFileWithoutAliases(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&b, "dag_%d:\n  tasks:\n", i)
		for j := range 20 {
			fmt.Fprintf(&b, "    t%d: {operator: empty, owner: me}\n", j)
		}
	}
	res := loadText(t, b.String())
	require.Empty(t, lines(res.Problems))
	require.Len(t, res.DAGs, 1500)
}

func TestAFileOfMistakes(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("d:\n  tasks:\n")
	for i := range 3000 {
		fmt.Fprintf(&b, "    t%d: {operator: empty, retires: 1, dependencies: [x%d]}\n", i, i)
	}
	res := loadText(t, b.String())
	require.Len(t, res.Problems, 1001)
	require.Equal(t, "too-many-problems", res.Problems[0].Code)
	require.Equal(t, "the file has 5000 more problems than are told here", res.Problems[0].Message)
}

// Each problem names the keys that it lies below.
func TestMistakesBelowALongKey(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("k", 64<<10)
	var b strings.Builder
	b.WriteString(key + ":\n  schedule: none\n  " + key + ": 1\n  tasks:\n")
	for i := range 2000 {
		fmt.Fprintf(&b, "    t%d: {operator: empty, retires: 1}\n", i)
	}
	size := 0
	for _, p := range loadText(t, b.String()).Problems {
		size += len(p.Path) + len(p.Message) + len(p.Hint)
	}
	require.Less(t, size, 10<<20)
}

func TestALongCycle(t *testing.T) {
	t.Parallel()
	const n = 3000
	var b strings.Builder
	b.WriteString("d:\n  tasks:\n")
	for i := range n {
		fmt.Fprintf(&b, "    t%d: {operator: empty, dependencies: [t%d]}\n", i, (i+n-1)%n)
	}
	res := loadText(t, b.String())
	require.Len(t, res.Problems, 1)
	require.Equal(t, "cycle", res.Problems[0].Code)
	require.Contains(t, res.Problems[0].Message, "t0 -> t1 -> t2 -> ")
	require.Contains(t, res.Problems[0].Message, "t49 -> ... -> t0")
}

func TestGroupsThatWaitForGroups(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("d:\n  task_groups: {a: {}, b: {dependencies: [a]}}\n  tasks:\n")
	for i := range 1100 {
		fmt.Fprintf(&b, "    a%d: {operator: empty, task_group_name: a}\n    b%d: {operator: empty, task_group_name: b}\n", i, i)
	}
	res := loadText(t, b.String())
	require.Len(t, res.Problems, 1)
	require.Equal(t, "too-large", res.Problems[0].Code)
}

func TestADefaultBlockThatIsTakenOverTooOften(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("default:\n  tasks:\n")
	for i := range 2500 {
		fmt.Fprintf(&b, "    t%d: {operator: empty, owner: me}\n", i)
	}
	for i := range 100 {
		fmt.Fprintf(&b, "dag_%d: {catchup: false}\n", i)
	}
	res := loadText(t, b.String())
	require.True(t, res.HasErrors())
	require.Equal(t, "too-large", res.Problems[0].Code)
}

func TestADAGNamedLikeAKey(t *testing.T) {
	t.Parallel()
	res := loadText(t, "tags:\n"+small+"schedule:\n"+small)
	require.Empty(t, lines(res.Problems))
	require.Len(t, res.DAGs, 2)
}
