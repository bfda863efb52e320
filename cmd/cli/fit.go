package cli

import (
	"regexp"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

// keptFit is the fit of a column whose cells are cut when nothing else is left to cut.
const keptFit = -1

// leastCell is how narrow a cell is made at most.
const leastCell = 6

// instant is a time as cellText writes it.
var instant = regexp.MustCompile(`^\d{4}-(\d\d-\d\d \d\d:\d\d:\d\d)$`)

// narrow makes a table fit a terminal's lines of width characters, by the least
// that does it: first the columns go in which no row has anything, then times lose
// their year, then the columns go that can be spared, and then cells are cut.
func narrow(titles []string, lines [][]string, fits []int, width int) ([]string, [][]string) {
	wide := func() bool { return tableWidth(cellWidths(titles, lines)) > width }
	drop := func(i int) {
		titles, fits = slices.Delete(titles, i, i+1), slices.Delete(fits, i, i+1)
		for l := range lines {
			lines[l] = slices.Delete(lines[l], i, i+1)
		}
	}
	for i := len(titles) - 1; i >= 0 && wide(); i-- {
		if fits[i] != keptFit && !slices.ContainsFunc(lines, func(line []string) bool { return line[i] != "-" }) {
			drop(i)
		}
	}
	if wide() {
		for _, line := range lines {
			for i := range line {
				line[i] = instant.ReplaceAllString(line[i], "$1")
			}
		}
	}
	for wide() && slices.Max(fits) > 0 {
		drop(slices.Index(fits, slices.Max(fits)))
	}
	fit(titles, lines, fits, width)
	return titles, lines
}

// cellWidths are the characters that each column needs.
func cellWidths(titles []string, lines [][]string) []int {
	widths := make([]int, len(titles))
	for i, t := range titles {
		widths[i] = text.StringWidth(t)
		for _, line := range lines {
			widths[i] = max(widths[i], text.LongestLineLen(line[i]))
		}
	}
	return widths
}

// tableWidth is how many characters a line has, with its frame.
func tableWidth(widths []int) int {
	total := 3*len(widths) + 1
	for _, w := range widths {
		total += w
	}
	return total
}

// fit cuts cells so that a table's lines have no more than width characters: the
// widest column first, until it is as narrow as the next one, and those that are
// kept after all others.
func fit(titles []string, lines [][]string, fits []int, width int) {
	widths := cellWidths(titles, lines)
	total := tableWidth(widths)
	for _, last := range []bool{false, true} {
		for total > width {
			widest := -1
			for i := range widths {
				if (last || fits[i] != keptFit) && widths[i] > leastCell && (widest < 0 || widths[i] > widths[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				break
			}
			widths[widest]--
			total--
		}
	}
	for i := range titles {
		titles[i] = cut(titles[i], widths[i])
		for _, line := range lines {
			if text.LongestLineLen(line[i]) > widths[i] {
				line[i] = cut(line[i], widths[i])
			}
		}
	}
}

// cut keeps the first line of a text, and of it as much as fits, with a mark.
func cut(s string, width int) string {
	first, _, more := strings.Cut(s, "\n")
	if text.StringWidth(first) <= width && !more {
		return first
	}
	return text.Trim(first, width-1) + "…"
}
