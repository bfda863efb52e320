package merge

import (
	"fmt"

	"github.com/airlock-dag/airlock/sql/merge/mergesql"
	"github.com/airlock-dag/airlock/sql/merge/sqltext"
)

// condition reads an expression; nil where there is none or it is wrong. sides
// are those that it may read.
func (a *args) condition(text, path string, sides ...mergesql.Side) *mergesql.Expr {
	if text == "" || a.template(text) {
		return nil
	}
	e, err := mergesql.ParseExpr(text, sqltext.MySQL)
	if err != nil {
		a.problem(path, "bad-sql", "%s", err)
		return nil
	}
	for _, side := range []mergesql.Side{mergesql.Source, mergesql.Target} {
		may := false
		for _, s := range sides {
			may = may || s == side
		}
		if !may && e.Reads(side) {
			a.problem(path, "bad-expression", "the row has no %s columns here", map[mergesql.Side]string{mergesql.Source: "source", mergesql.Target: "target"}[side])
			return nil
		}
	}
	return e
}

// whenMatched reads update, ignore, a list of columns, or a mapping with delete,
// update and if.
func (a *args) whenMatched(m map[string]any, s *Spec) {
	const key = "when_matched"
	update := Clause{Clause: mergesql.Clause{Matched: true, Action: mergesql.Update, All: true}}
	last := func(v any, path string, when *mergesql.Expr) {
		c := update
		switch x := v.(type) {
		case nil:
		case string:
			switch {
			case x == "update", a.template(x):
			case x == "ignore":
				c = Clause{Clause: mergesql.Clause{Matched: true, Action: mergesql.Nothing}}
			default:
				a.problem(path, badValue, "found %q; allowed are update, ignore, a list of columns, {if: condition, delete: condition, update: ...}", x)
			}
		case []any:
			if c.Columns = a.list(map[string]any{key: x}, "", key); len(c.Columns) == 0 {
				a.problem(path, badValue, "the list of columns is empty; write ignore to leave matched rows alone")
			}
		default:
			a.problem(path, badValue, "found %s; allowed are update, ignore, a list of columns, {if: condition, delete: condition, update: ...}", kindOf(v))
		}
		c.When = when
		s.Clauses = append(s.Clauses, c)
	}
	rule, ok := m[key].(map[string]any)
	if !ok {
		last(m[key], key, nil)
		return
	}
	a.known(rule, key, "delete", "update", "if")
	if rule["delete"] == nil && rule["if"] == nil {
		a.problem(join(key, "delete"), "missing-key", "a condition is needed, such as \"source.status = 'void'\", or if: for the update")
	}
	if e := a.condition(a.str(rule, key, "delete"), join(key, "delete"), mergesql.Source, mergesql.Target); e != nil {
		s.Clauses = append(s.Clauses, Clause{Clause: mergesql.Clause{Matched: true, When: e, Action: mergesql.Delete}})
		if !e.Reads(mergesql.Target) {
			// A row that says "delete me" and is not there must not be inserted:
			// the next batch with it would delete it, and so on.
			s.Clauses = append(s.Clauses, Clause{Clause: mergesql.Clause{When: e, Action: mergesql.Nothing}})
		}
	}
	last(rule["update"], join(key, "update"), a.condition(a.str(rule, key, "if"), join(key, "if"), mergesql.Source, mergesql.Target))
}

// whenNotMatched reads insert, ignore, or a mapping with if.
func (a *args) whenNotMatched(m map[string]any, s *Spec) {
	const key = "when_not_matched"
	insert := Clause{Clause: mergesql.Clause{Action: mergesql.Insert, All: true}}
	if rule, ok := m[key].(map[string]any); ok {
		a.known(rule, key, "if")
		text := a.str(rule, key, "if")
		if text == "" {
			a.problem(join(key, "if"), "missing-key", "a condition is needed, such as \"source.status <> 'void'\"")
		}
		insert.When = a.condition(text, join(key, "if"), mergesql.Source)
	} else if a.oneOf(m, "", key, "insert", "ignore") == "ignore" {
		insert.Action, insert.All = mergesql.Nothing, false
	}
	s.Clauses = append(s.Clauses, insert)
}

// bySource reads ignore, delete, or a mapping with delete, update (columns and
// expressions) and if.
func (a *args) bySource(m map[string]any, s *Spec) {
	const key = "when_not_matched_by_source"
	rule, ok := m[key].(map[string]any)
	if !ok {
		if a.oneOf(m, "", key, "ignore", "delete") == "delete" {
			s.Clauses = append(s.Clauses, Clause{Clause: mergesql.Clause{BySource: true, Action: mergesql.Delete}})
		}
		return
	}
	a.known(rule, key, "delete", "update", "if")
	if e := a.condition(a.str(rule, key, "delete"), join(key, "delete"), mergesql.Target); e != nil {
		s.Clauses = append(s.Clauses, Clause{Clause: mergesql.Clause{BySource: true, When: e, Action: mergesql.Delete}})
	}
	set := a.mapping(rule, key, "update")
	if rule["delete"] == nil && len(set) == 0 {
		a.problem(key, "missing-key", "delete with a condition or update with columns is needed: {delete: \"target.day >= '2026-01-01'\"} or {update: {active: \"0\"}}")
	}
	if len(set) == 0 {
		return
	}
	c := mergesql.Clause{BySource: true, Action: mergesql.Update, When: a.condition(a.str(rule, key, "if"), join(key, "if"), mergesql.Target)}
	for _, name := range sortedKeys(set) {
		path := join(join(key, "update"), name)
		text := ""
		switch v := set[name].(type) {
		case nil:
			text = "NULL"
		case bool, int, int64, uint64:
			text = fmt.Sprint(v)
		default:
			text = a.str(set, join(key, "update"), name)
		}
		if e := a.condition(text, path, mergesql.Target); e != nil {
			c.Set = append(c.Set, mergesql.Assignment{Column: name, Value: *e})
		}
	}
	s.Clauses = append(s.Clauses, Clause{Clause: c})
}

// wholeSource makes sure that a step which acts on rows that the source has not
// reads all of it at once.
func (a *args) wholeSource(s *Spec) {
	for i := range s.Clauses {
		if !s.Clauses[i].BySource {
			continue
		}
		const path = "when_not_matched_by_source"
		switch {
		case s.Chunk > 0:
			a.problem("chunk", "bad-combination", "%s needs the whole source in one transaction; remove chunk", path)
		case s.Watermark != nil && s.Source.Query != "":
			a.problem("watermark", "bad-combination", "with a watermark a query gives the rows behind it only, and %s would take all others; remove one of the two", path)
		}
		return
	}
}
