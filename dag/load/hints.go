package load

import (
	"sort"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// meant is a hint with the candidate that a misspelt word most likely means,
// or nothing.
func (r *report) meant(word string, candidates func() []string) string {
	if r.hints > maxHints {
		return ""
	}
	list := candidates()
	r.hints += 1 + len(list)
	if c := dag.Nearest(word, list); c != "" {
		return "did you mean " + c + "?"
	}
	return ""
}

// didYouMean is a hint with the nearest candidate, or the whole list where it
// is short, or nothing.
func (r *report) didYouMean(word string, candidates []string) string {
	return r.didYouMeanOf(word, func() []string { return candidates })
}

// didYouMeanOf is didYouMean with a list that is made only when it is needed.
func (r *report) didYouMeanOf(word string, list func() []string) string {
	if r.hints > maxHints {
		return ""
	}
	candidates := list()
	if hint := r.meant(word, func() []string { return candidates }); hint != "" {
		return hint
	}
	if len(candidates) > 0 && len(candidates) <= 12 {
		sorted := append([]string(nil), candidates...)
		sort.Strings(sorted)
		return "allowed: " + strings.Join(sorted, ", ")
	}
	return ""
}
