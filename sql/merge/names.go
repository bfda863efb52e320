package merge

import (
	"sort"
	"strings"
)

func sortedKeys(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// nearest finds the name that was probably meant; empty when none is near.
func nearest(name string, among []string) string {
	best, bestAt := 1+len(name)/3, ""
	for _, x := range among {
		if d := distance(strings.ToLower(name), strings.ToLower(x)); d <= best && (bestAt == "" || d < best) {
			best, bestAt = d, x
		}
	}
	return bestAt
}

// distance is the number of letters to add, drop or change.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := before
			if a[i-1] != b[j-1] {
				cost = 1 + min(before, row[j], row[j-1])
			}
			before, row[j] = row[j], cost
		}
	}
	return row[len(b)]
}

// fold finds a name among others as SQL compares names, without regard to case.
func fold(names []string, name string) (string, bool) {
	for _, n := range names {
		if n == name {
			return n, true
		}
	}
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return n, true
		}
	}
	return "", false
}

// SortedCodes lists the codes of a count by code.
func SortedCodes(byCode map[string]int64) []string {
	out := make([]string, 0, len(byCode))
	for c := range byCode {
		out = append(out, c)
	}
	sort.Strings(out)
	return out
}
