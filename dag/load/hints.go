package load

import (
	"sort"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// didYouMean is a hint with the nearest candidate, or the whole list where it
// is short, or nothing.
func didYouMean(word string, candidates []string) string {
	if c := dag.Nearest(word, candidates); c != "" {
		return "did you mean " + c + "?"
	}
	if len(candidates) > 0 && len(candidates) <= 12 {
		sorted := append([]string(nil), candidates...)
		sort.Strings(sorted)
		return "allowed: " + strings.Join(sorted, ", ")
	}
	return ""
}
