package mergesql

import (
	"strings"

	"github.com/airlock-dag/airlock/sql/merge/sqltext"
)

// clause reads WHEN [NOT] MATCHED [AND condition] THEN action.
func (p *parser) clause(s *Statement) (Clause, error) {
	start := p.peek().Pos
	if err := p.need("WHEN"); err != nil {
		return Clause{}, err
	}
	c := Clause{Matched: !p.word("NOT")}
	if err := p.need("MATCHED"); err != nil {
		return Clause{}, err
	}
	if p.word("BY") {
		switch {
		case c.Matched:
			return Clause{}, sqltext.At(p.source, start, "WHEN MATCHED takes no BY")
		case p.word("SOURCE"):
			c.BySource = true
		case !p.word("TARGET"):
			return Clause{}, p.wrong("SOURCE or TARGET")
		}
	}
	for _, before := range s.Clauses {
		if before.Matched == c.Matched && before.BySource == c.BySource && before.When == nil {
			return Clause{}, sqltext.At(p.source, start, "this clause is never reached: the one before it has no condition")
		}
	}
	if p.word("AND") {
		e, err := p.expr("a condition")
		if err != nil {
			return Clause{}, err
		}
		if err := p.reads(&c, e, start); err != nil {
			return Clause{}, err
		}
		c.When = e
	}
	if err := p.need("THEN"); err != nil {
		return Clause{}, err
	}
	return c, p.action(&c)
}

// reads refuses an expression over a row that is not there.
func (p *parser) reads(c *Clause, e *Expr, pos int) error {
	switch {
	case c.BySource && e.Reads(Source):
		return sqltext.At(p.source, pos, "a row that the source has not has no %s columns", p.sourceAlias)
	case !c.BySource && !c.Matched && e.Reads(Target):
		return sqltext.At(p.source, pos, "a row that is not matched has no %s columns", p.targetAlias)
	default:
		return nil
	}
}

func (p *parser) action(c *Clause) error {
	pos := p.peek().Pos
	switch {
	case p.word("UPDATE"):
		if !c.Matched && !c.BySource {
			return sqltext.At(p.source, pos, "UPDATE needs a matched row; WHEN NOT MATCHED takes INSERT")
		}
		c.Action = Update
		return p.update(c)
	case p.word("DELETE"):
		if !c.Matched && !c.BySource {
			return sqltext.At(p.source, pos, "DELETE needs a matched row; WHEN NOT MATCHED takes INSERT")
		}
		c.Action = Delete
		return nil
	case p.word("INSERT"):
		if c.Matched || c.BySource {
			return sqltext.At(p.source, pos, "INSERT needs a row that is not matched; WHEN MATCHED and BY SOURCE take UPDATE or DELETE")
		}
		c.Action = Insert
		return p.insert(c)
	case p.word("DO"):
		c.Action = Nothing
		return p.need("NOTHING")
	default:
		return p.wrong("UPDATE, DELETE, INSERT or DO NOTHING")
	}
}

func (p *parser) update(c *Clause) error {
	if err := p.need("SET"); err != nil {
		return err
	}
	if pos := p.peek().Pos; p.punct("*") {
		if c.BySource {
			return sqltext.At(p.source, pos, "a row that the source has not has no values to set; write column = expression")
		}
		c.All = true
		return nil
	}
	for {
		pos := p.peek().Pos
		column, err := p.name("a column")
		if err != nil {
			return err
		}
		if p.punct(".") {
			if side, err := p.side(column, pos); err != nil {
				return err
			} else if side != Target {
				return sqltext.At(p.source, pos, "SET changes columns of %s", p.targetAlias)
			}
			if column, err = p.name("a column"); err != nil {
				return err
			}
		}
		if err := p.assign(c, column, pos, func() (*Expr, error) {
			if err := p.needPunct("="); err != nil {
				return nil, err
			}
			e, err := p.expr("a value")
			if err == nil {
				err = p.reads(c, e, pos)
			}
			return e, err
		}); err != nil {
			return err
		}
		if !p.punct(",") {
			return nil
		}
	}
}

func (p *parser) assign(c *Clause, column string, pos int, value func() (*Expr, error)) error {
	for _, have := range c.Set {
		if strings.EqualFold(have.Column, column) {
			return sqltext.At(p.source, pos, "the column %s is set twice", column)
		}
	}
	e, err := value()
	if err != nil {
		return err
	}
	c.Set = append(c.Set, Assignment{Column: column, Value: *e})
	return nil
}

func (p *parser) insert(c *Clause) error {
	if p.punct("*") {
		c.All = true
		return nil
	}
	if err := p.needPunct("("); err != nil {
		return p.wrong("* or a list of columns in parentheses")
	}
	var columns []string
	var places []int
	for {
		places = append(places, p.peek().Pos)
		n, err := p.name("a column")
		if err != nil {
			return err
		}
		columns = append(columns, n)
		if p.punct(",") {
			continue
		}
		if err := p.needPunct(")"); err != nil {
			return err
		}
		break
	}
	if err := p.need("VALUES"); err != nil {
		return err
	}
	if err := p.needPunct("("); err != nil {
		return err
	}
	for i, column := range columns {
		if i > 0 && !p.punct(",") {
			return p.wrong("a , and one value for each of the columns")
		}
		if err := p.assign(c, column, places[i], func() (*Expr, error) {
			e, err := p.expr("a value")
			if err == nil && e.Reads(Target) {
				err = sqltext.At(p.source, places[i], "a row that is not matched has no %s columns", p.targetAlias)
			}
			return e, err
		}); err != nil {
			return err
		}
	}
	if err := p.needPunct(")"); err != nil {
		return p.wrong(") after one value for each column")
	}
	return nil
}

// expr reads an expression: everything up to a comma, a closing parenthesis,
// THEN or WHEN on its own level.
func (p *parser) expr(what string) (*Expr, error) {
	e := &Expr{source: p.source}
	depth, cases := 0, 0
	first := p.at
	for !p.end() {
		t := p.peek()
		if depth == 0 && cases == 0 && (t.Text == "," && t.Kind == sqltext.Punct || t.Text == ")" && t.Kind == sqltext.Punct || t.Is("THEN") || t.Is("WHEN")) {
			break
		}
		switch {
		case t.Kind == sqltext.Punct && t.Text == "(":
			depth++
		case t.Kind == sqltext.Punct && t.Text == ")":
			depth--
			if depth < 0 {
				return nil, p.wrong("the end of an expression (CASE has no END)")
			}
		case t.Kind == sqltext.Punct && t.Text == ";":
			return nil, sqltext.At(p.source, t.Pos, "a MERGE step has one statement; put others into a sql step")
		case t.Kind == sqltext.Punct && t.Text == "?", t.Kind == sqltext.Param:
			return nil, sqltext.At(p.source, t.Pos, "parameters are not supported here; use a template")
		case t.Is("CASE"):
			cases++
		case t.Is("END"):
			cases--
		case t.Is("SELECT"):
			return nil, sqltext.At(p.source, t.Pos, "a query inside an expression is not supported; join it in USING ( ... )")
		}
		p.at++
	}
	e.tokens = p.tokens[first:p.at]
	if len(e.tokens) == 0 {
		return nil, p.wrong(what)
	}
	if depth > 0 || cases > 0 {
		return nil, p.wrong("the end of the expression that is open")
	}
	return e, p.resolve(e)
}

// resolve finds the names of an expression.
func (p *parser) resolve(e *Expr) error {
	for i := 0; i < len(e.tokens); i++ {
		t := e.tokens[i]
		if t.Kind != sqltext.Word && t.Kind != sqltext.Quoted {
			continue
		}
		next := func(k int) sqltext.Token {
			if i+k < len(e.tokens) {
				return e.tokens[i+k]
			}
			return sqltext.Token{}
		}
		switch {
		case next(1).Text == "." && (next(2).Kind == sqltext.Word || next(2).Kind == sqltext.Quoted):
			side, err := p.side(t.Name(), t.Pos)
			if err != nil {
				return err
			}
			e.refs = append(e.refs, Ref{Side: side, Name: next(2).Name(), from: i, to: i + 3, pos: t.Pos})
			i += 2
		case next(1).Text == "(" && t.Kind == sqltext.Word:
			// A function.
		default:
			e.refs = append(e.refs, Ref{Side: Bare, Name: t.Name(), from: i, to: i + 1, pos: t.Pos})
		}
	}
	return nil
}
