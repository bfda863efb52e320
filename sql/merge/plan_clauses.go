package merge

import (
	"fmt"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/merge/mergesql"
)

// resolveClauses turns the step's clauses into rules.
func (p *plan) resolveClauses() error {
	for i := range p.spec.Clauses {
		c := &p.spec.Clauses[i]
		r := rule{act: i + 1, action: c.Action}
		if c.When != nil {
			text, err := p.sql(c.When)
			if err != nil {
				return err
			}
			r.when = text
		}
		if c.BySource {
			if err := p.resolveUnseen(c, &r); err != nil {
				return err
			}
			continue
		}
		var err error
		switch c.Action {
		case mergesql.Update:
			r.writes, err = p.updates(c, r.act)
		case mergesql.Insert:
			r.writes, err = p.inserts(c)
		}
		if err != nil {
			return err
		}
		if c.Matched {
			p.matched = append(p.matched, r)
		} else {
			p.unmatched = append(p.unmatched, r)
		}
	}
	return nil
}

// sql writes an expression over stage and target.
func (p *plan) sql(e *mergesql.Expr) (string, error) {
	for _, r := range e.Refs() {
		if err := p.checkRef(e, r); err != nil {
			return "", err
		}
	}
	return e.SQL(func(r mergesql.Ref) string {
		switch r.Side {
		case mergesql.Target:
			return targetCol(p.target.column(r.Name).name)
		case mergesql.Source:
			return stageCol(p.cols[p.find(r.Name)].Name)
		default:
			return ""
		}
	}), nil
}

func (p *plan) checkRef(e *mergesql.Expr, r mergesql.Ref) error {
	unknown := func(side string, names []string) error {
		f := problem(codeExpression, "%s", e.At(r, "the %s has no column %q; it has %s", side, r.Name, strings.Join(names, ", ")))
		if near := dag.Nearest(r.Name, names); near != "" {
			return f.hint("did you mean %q?", near)
		}
		return f
	}
	switch r.Side {
	case mergesql.Target:
		if p.target.column(r.Name) == nil {
			return unknown("target", p.target.names())
		}
	case mergesql.Source:
		if p.find(r.Name) < 0 {
			return unknown("source", p.columnNames())
		}
	default:
		if p.find(r.Name) >= 0 || p.target.column(r.Name) != nil {
			return problem(codeExpression, "%s", e.At(r, "%s may be a column of the target or of the source", r.Name)).
				hint("write target.%s or source.%s", r.Name, r.Name)
		}
	}
	return nil
}

func (p *plan) isKeyColumn(tc *targetColumn) bool {
	for _, k := range p.keys {
		if k.target == tc.name {
			return true
		}
	}
	return false
}

// updates lists what an UPDATE writes. Values that are computed get a column in
// the stage: they are computed before anything is written, from the row as it
// was, on every database alike.
func (p *plan) updates(c *Clause, act int) ([]write, error) {
	var out []write
	if c.All {
		for i := range p.cols {
			pc := &p.cols[i]
			if pc.target == nil || p.isKeyColumn(pc.target) || !chosen(c.Columns, pc.Name) {
				continue
			}
			out = append(out, write{column: pc.target, value: stageCol(pc.Name), stage: pc.Name})
		}
		return out, nil
	}
	for i := range c.Set {
		set := &c.Set[i]
		tc, err := p.settable("UPDATE SET", set.Column)
		if err != nil {
			return nil, err
		}
		if p.isKeyColumn(tc) {
			return nil, problem(codeExpression, "UPDATE SET %s: it is a key column, which says which row is meant and does not change", set.Column)
		}
		text, err := p.sql(&set.Value)
		if err != nil {
			return nil, err
		}
		if refs := set.Value.Refs(); len(refs) == 1 && refs[0].Side == mergesql.Source && text == stageCol(p.cols[p.find(refs[0].Name)].Name) &&
			p.cols[p.find(refs[0].Name)].target == tc {
			name := p.cols[p.find(refs[0].Name)].Name
			out = append(out, write{column: tc, value: text, stage: name})
			continue
		}
		if set.Value.Reads(mergesql.Target) {
			if p.spec.Chunk > 0 {
				return nil, problem(codeExpression, "UPDATE SET %s computes from the target's present value and can be done once only; it cannot be done in chunks", set.Column).
					hint("set chunk: 0")
			}
			p.locks = true
		}
		name := fmt.Sprintf("airlock_v%d", len(p.computed))
		p.computed = append(p.computed, computedColumn{name: name, ddl: tc.ddl, expr: text, act: act})
		out = append(out, write{column: tc, value: stageCol(name), stage: name})
	}
	return out, nil
}

// settable finds a column of the target that a clause gives a value.
func (p *plan) settable(clause, name string) (*targetColumn, error) {
	tc := p.target.column(name)
	switch {
	case tc == nil:
		return nil, problem(codeExpression, "%s %s: the table %s has no such column; it has %s", clause, name, p.spec.Target, strings.Join(p.target.names(), ", "))
	case tc.generated:
		return nil, problem(codeExpression, "%s %s: the database computes this column itself", clause, name)
	default:
		return tc, nil
	}
}

func chosen(names []string, name string) bool {
	if len(names) == 0 {
		return true
	}
	_, ok := fold(names, name)
	return ok
}

func (p *plan) inserts(c *Clause) ([]write, error) {
	var out []write
	if c.All {
		for i := range p.cols {
			if pc := &p.cols[i]; pc.target != nil {
				out = append(out, write{column: pc.target, value: stageCol(pc.Name), stage: pc.Name})
			}
		}
		return out, nil
	}
	for i := range c.Set {
		set := &c.Set[i]
		tc, err := p.settable("INSERT", set.Column)
		if err != nil {
			return nil, err
		}
		text, err := p.sql(&set.Value)
		if err != nil {
			return nil, err
		}
		out = append(out, write{column: tc, value: text})
	}
	return out, nil
}
