package load

import (
	"sort"
	"strconv"
	"strings"
	"unicode"

	"github.com/airlock-dag/airlock/dag"
)

// report gathers the problems of one file. What several DAGs inherit is told
// once.
type report struct {
	file   string
	list   []dag.Problem
	failed bool
	seen   map[problemKey]bool
	hidden int // problems beyond maxProblems
	hints  int // words that were compared with misspelt ones
}

// maxProblems is how many problems of one file are told, and maxHints with how
// many right words misspelt ones are compared: no file of nothing but mistakes
// may hold the loader up.
const (
	maxProblems = 1000
	maxHints    = 100_000
)

// maxPath and maxText cut the texts of a problem, in bytes: keys may be as long as
// the file, and each problem below one repeats it.
const (
	maxPath = 600
	maxText = 4000
)

type problemKey struct {
	file      string
	line, col int
	code, msg string
}

func newReport(file string) *report { return &report{file: file, seen: map[problemKey]bool{}} }

func (r *report) add(p dag.Problem) {
	if p.File == "" {
		p.File = r.file
	}
	if p.Severity == dag.SeverityError {
		r.failed = true
	}
	p.Path, p.Message, p.Hint = dag.CutText(plainPath(p.Path), maxPath), dag.CutText(p.Message, maxText), dag.CutText(p.Hint, maxText)
	k := problemKey{p.File, p.Line, p.Column, p.Code, p.Message}
	if r.seen[k] {
		return
	}
	if len(r.list) >= maxProblems {
		r.hidden++
		return
	}
	r.seen[k] = true
	r.list = append(r.list, p)
}

// plainPath writes out what would act on a terminal or end the line: a key in
// double quotes can hold any character.
func plainPath(path string) string {
	if !strings.ContainsFunc(path, unicode.IsControl) {
		return path
	}
	quoted := strconv.Quote(path)
	return quoted[1 : len(quoted)-1]
}

// finish closes the list of a file.
func (r *report) finish() {
	r.blameSettings()
	if r.hidden > 0 {
		r.list = append(r.list, dag.Problem{File: r.file, Severity: dag.SeverityError, Code: codeTooMany,
			Message: "the file has " + count(r.hidden) + " more problems than are told here"})
	}
}

// blameSettings gives a file whose only errors stand in a file that it inherits
// from an error of its own, so that no broken file looks whole.
func (r *report) blameSettings() {
	from := ""
	for _, p := range r.list {
		if p.Severity != dag.SeverityError {
			continue
		}
		if p.File == r.file {
			return // it has one of its own
		}
		if from == "" {
			from = p.File
		}
	}
	if from != "" {
		r.inheritsFrom(from)
	}
}

func (r *report) inheritsFrom(file string) {
	r.add(dag.Problem{Severity: dag.SeverityError, Code: codeDefaults,
		Message: "the file inherits from " + file + ", which has errors", Hint: "repair " + file + " first"})
}

// err reports an error at a node's place.
func (r *report) err(n *node, path, code, msg, hint string) {
	r.add(at(n, dag.Problem{Path: path, Severity: dag.SeverityError, Code: code, Message: msg, Hint: hint}))
}

// warn reports a warning at a node's place.
func (r *report) warn(n *node, path, code, msg, hint string) {
	r.add(at(n, dag.Problem{Path: path, Severity: dag.SeverityWarning, Code: code, Message: msg, Hint: hint}))
}

func at(n *node, p dag.Problem) dag.Problem {
	if n != nil {
		p.File, p.Line, p.Column = n.file, n.line, n.col
	}
	return p
}

// sortProblems orders by file and place, and drops what two files report alike.
func sortProblems(list []dag.Problem) []dag.Problem {
	sort.SliceStable(list, func(i, j int) bool {
		a, b := list[i], list[j]
		switch {
		case a.File != b.File:
			return a.File < b.File
		case a.Line != b.Line:
			return a.Line < b.Line
		case a.Column != b.Column:
			return a.Column < b.Column
		case a.Path != b.Path:
			return a.Path < b.Path
		default:
			return a.Message < b.Message
		}
	})
	seen := map[problemKey]bool{}
	out := list[:0]
	for _, p := range list {
		k := problemKey{p.File, p.Line, p.Column, p.Code, p.Message}
		if !seen[k] {
			seen[k] = true
			out = append(out, p)
		}
	}
	return out
}
