package dag

import (
	"slices"
	"strings"
)

// Nearest finds the candidate that a misspelt word most likely means: the one
// with the fewest letters to add, drop, change or swap, at most a third of the
// word's. When none is that close and the word has at least four letters, the
// only candidate with a part between its _ that is: nightly means nightly_orders.
// It is "" when there is none; of equally close ones it is the first in the
// alphabet. Case, and - for _, do not count.
func Nearest(word string, candidates []string) string {
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "_")) }
	letters := []rune(plain(word))
	limit := max(min(1, len(letters)-1), len(letters)/3) + 1
	best, distance := "", limit
	partly, parts := "", 0
	for _, candidate := range slices.Sorted(slices.Values(candidates)) {
		if d := editDistance(letters, []rune(plain(candidate)), distance); d < distance {
			best, distance = candidate, d
		}
		if slices.ContainsFunc(strings.Split(plain(candidate), "_"), func(part string) bool {
			return editDistance(letters, []rune(part), limit) < limit
		}) {
			partly, parts = candidate, parts+1
		}
	}
	if best == "" && parts == 1 && len(letters) >= 4 {
		return partly
	}
	return best
}

// editDistance counts the letters to add, drop, change or swap with their
// neighbour between two words. It may answer limit for anything from limit on.
func editDistance(a, b []rune, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := range a {
		row[0] = i + 1
		for j := range b {
			change := above[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(above[j+1]+1, row[j]+1, change)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
