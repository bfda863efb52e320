package merge

import (
	"fmt"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/merge/mergesql"
	"github.com/airlock-dag/airlock/sql/merge/sqltext"
)

// Keys are the keys of a merge step.
func Keys() []string {
	return []string{
		"conn_id", "source", "columns", "target", "create_target", "key", "version", "duplicates", "when_matched",
		"when_not_matched", "when_not_matched_by_source", "folded_keys", "watermark", "bad_rows", "chunk", "idempotency_key", "sql",
	}
}

// ParseSpec reads the arguments of a step and reports everything that is wrong
// with them; the Spec is usable when there are no problems. Before templates
// are rendered, values with a template in them are not looked at.
func ParseSpec(m map[string]any) (*Spec, []dag.Problem) {
	a := &args{}
	s := &Spec{}
	s.SQL = strings.TrimSpace(a.str(m, "", "sql"))
	if s.SQL != "" {
		a.sqlStep(m, s)
	} else {
		a.yamlStep(m, s)
	}
	s.Version = a.str(m, "", "version")
	a.duplicates(m, s)
	s.FoldKeys = a.oneOf(m, "", "folded_keys", "fail", "same") == "same"
	s.Watermark = a.watermark(m)
	s.BadRows = a.badRows(m)
	s.Chunk = int(a.count(m, "", "chunk", 0))
	a.wholeSource(s)
	a.columnNames(s)
	return s, a.problems
}

// sqlStep reads a step that is written as a MERGE statement.
func (a *args) sqlStep(m map[string]any, s *Spec) {
	for _, k := range []string{"source", "columns", "target", "create_target", "key", "when_matched", "when_not_matched", "when_not_matched_by_source"} {
		if _, there := m[k]; there {
			a.problem(k, "bad-combination", "a step with sql says this in the statement; remove %q or write the step without sql", k)
		}
	}
	if a.template(s.SQL) {
		return
	}
	p, err := mergesql.Parse(s.SQL, sqltext.MySQL)
	if err != nil {
		a.problem("sql", "bad-sql", "%s", err)
		return
	}
	s.Parsed, s.Target, s.Key = p, p.Target, p.On
	s.Source.Query = p.Query
	if p.Query == "" {
		s.Source.Query = "SELECT * FROM " + quoteTable(p.Source)
	}
	for _, c := range p.Clauses {
		s.Clauses = append(s.Clauses, Clause{Clause: c})
	}
}

// yamlStep reads a step that is written in keys.
func (a *args) yamlStep(m map[string]any, s *Spec) {
	s.Target = a.str(m, "", "target")
	if s.Target == "" {
		a.problem("target", "missing-key", "a merge step needs a target table, or sql with a MERGE statement")
	}
	s.CreateTarget = a.boolean(m, "", "create_target", false)
	s.Source = a.source(m)
	s.Columns = a.columns(m)
	keys := a.list(m, "", "key")
	if len(keys) == 0 {
		a.problem("key", "missing-key", "a merge step needs the columns that identify a row")
	}
	for _, k := range keys {
		s.Key = append(s.Key, mergesql.Pair{Target: k, Source: k})
	}
	if len(s.Columns) == 0 && m["columns"] == nil && (s.Source.Query == "" || s.CreateTarget) && m["source"] != nil {
		a.problem("columns", "missing-key", "the columns and their types are needed; only a query into a table that exists can do without")
	}
	a.whenMatched(m, s)
	a.whenNotMatched(m, s)
	a.bySource(m, s)
}

func (a *args) duplicates(m map[string]any, s *Spec) {
	fallback := "fail"
	if s.Version != "" {
		fallback = "newest"
	}
	allowed := []string{fallback, "newest"}
	if fallback == "newest" {
		allowed[1] = "fail"
	}
	s.FailOnDuplicates = a.oneOf(m, "", "duplicates", allowed...) == "fail"
}

func (a *args) watermark(m map[string]any) *WatermarkSpec {
	const path = "watermark"
	w := a.mapping(m, "", path, "column", "name", "lookback", "lag", "tie_breaker", "initial", "allow_future")
	if w == nil {
		return nil
	}
	out := &WatermarkSpec{
		Column: a.str(w, path, "column"), Name: a.str(w, path, "name"), Lag: a.duration(w, path, "lag"),
		TieBreaker: a.str(w, path, "tie_breaker"), Initial: a.str(w, path, "initial"),
		AllowFuture: a.boolean(w, path, "allow_future", false),
	}
	for key, v := range map[string]string{"column": out.Column, "name": out.Name} {
		if v == "" {
			a.problem(join(path, key), "missing-key", "a watermark needs a column and a name")
		}
	}
	if v, there := w["lookback"]; there && v != nil {
		out.LookbackSet = true
		out.Lookback = a.duration(w, path, "lookback")
		if f, ok := asNumber(v); ok {
			out.LookbackCount = int64(f)
		}
	}
	return out
}

func (a *args) badRows(m map[string]any) BadRows {
	const path = "bad_rows"
	b := a.mapping(m, "", path, "max", "max_ratio")
	if b == nil {
		return BadRows{Max: -1, MaxRatio: -1, Default: true}
	}
	out := BadRows{Max: a.count(b, path, "max", -1), MaxRatio: a.number(b, path, "max_ratio", -1)}
	if b["max_ratio"] != nil && (out.MaxRatio < 0 || out.MaxRatio > 1) && !a.template(b["max_ratio"]) {
		a.problem(join(path, "max_ratio"), badValue, "a share from 0 to 1 is needed, found %v", b["max_ratio"])
	}
	return out
}

// columnNames checks the names that keys give against the columns.
func (a *args) columnNames(s *Spec) {
	if len(s.Columns) == 0 || a.templates {
		return
	}
	var names []string
	for _, c := range s.Columns {
		names = append(names, c.Name)
	}
	names = append(names, a.unread...)
	check := func(path, name string) {
		if name == "" {
			return
		}
		if _, ok := fold(names, name); ok {
			return
		}
		a.problem(path, "unknown-column", "%q is not among the columns %s", name, strings.Join(names, ", "))
		if near := dag.Nearest(name, names); near != "" {
			a.hint(fmt.Sprintf("did you mean %q?", near))
		}
	}
	for _, k := range s.Key {
		check("key", k.Target)
	}
	check("version", s.Version)
	if s.Watermark != nil {
		check("watermark.column", s.Watermark.Column)
		check("watermark.tie_breaker", s.Watermark.TieBreaker)
	}
	for _, c := range s.Clauses {
		for _, n := range c.Columns {
			check("when_matched", n)
		}
	}
}

// ProblemText is the problems as lines, for a step that runs.
func ProblemText(problems []dag.Problem) string {
	var lines []string
	for _, p := range problems {
		line := p.Message
		if p.Path != "" {
			line = p.Path + ": " + line
		}
		if p.Hint != "" {
			line += "; " + p.Hint
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
