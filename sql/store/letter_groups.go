package store

import (
	"cmp"
	"slices"

	"github.com/airlock-dag/airlock/dag"
)

// sortedGroups orders groups by count falling, then newest first.
func sortedGroups(groups map[string]*dag.LetterGroup, n int) []dag.LetterGroup {
	out := make([]dag.LetterGroup, 0, len(groups))
	for _, g := range groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b dag.LetterGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.LastID, a.LastID))
	})
	if n == 0 {
		n = 100
	}
	if n > 0 && len(out) > n {
		out = out[:n]
	}
	return out
}
