package mergesql

import (
	"strings"

	"github.com/airlock-dag/airlock/sql/merge/sqltext"
)

// Parse reads one MERGE statement.
func Parse(source string, flavour sqltext.Flavour) (*Statement, error) {
	p, err := newParser(source, flavour)
	if err != nil {
		return nil, err
	}
	s, err := p.merge()
	if err != nil {
		return nil, err
	}
	return s, nil
}

// ParseExpr reads an expression in which the tables are called target and
// source.
func ParseExpr(source string, flavour sqltext.Flavour) (*Expr, error) {
	p, err := newParser(source, flavour)
	if err != nil {
		return nil, err
	}
	p.targetAlias, p.sourceAlias = "target", "source"
	e, err := p.expr("an expression")
	if err != nil {
		return nil, err
	}
	if !p.end() {
		return nil, p.wrong("the end of the expression")
	}
	return e, nil
}

type parser struct {
	source                   string
	tokens                   []sqltext.Token
	at                       int
	targetAlias, sourceAlias string
}

func newParser(source string, flavour sqltext.Flavour) (*parser, error) {
	all, err := flavour.Tokens(source)
	if err != nil {
		return nil, err
	}
	p := &parser{source: source}
	for _, t := range all {
		if t.Kind != sqltext.Comment {
			p.tokens = append(p.tokens, t)
		}
	}
	for len(p.tokens) > 0 && p.tokens[len(p.tokens)-1].Text == ";" {
		p.tokens = p.tokens[:len(p.tokens)-1]
	}
	return p, nil
}

func (p *parser) end() bool { return p.at >= len(p.tokens) }

func (p *parser) peek() sqltext.Token {
	if p.end() {
		return sqltext.Token{Pos: len(p.source)}
	}
	return p.tokens[p.at]
}

func (p *parser) wrong(need string) error {
	t := p.peek()
	if p.end() {
		return sqltext.At(p.source, t.Pos, "the statement ends where %s is needed", need)
	}
	return sqltext.At(p.source, t.Pos, "found %s where %s is needed", t.Text, need)
}

// word takes the keyword when it is next.
func (p *parser) word(keyword string) bool {
	if !p.end() && p.peek().Is(keyword) {
		p.at++
		return true
	}
	return false
}

func (p *parser) punct(text string) bool {
	if t := p.peek(); !p.end() && t.Kind == sqltext.Punct && t.Text == text {
		p.at++
		return true
	}
	return false
}

func (p *parser) need(keywords ...string) error {
	for _, k := range keywords {
		if !p.word(k) {
			return p.wrong(k)
		}
	}
	return nil
}

func (p *parser) needPunct(text string) error {
	if !p.punct(text) {
		return p.wrong(text)
	}
	return nil
}

func (p *parser) name(what string) (string, error) {
	t := p.peek()
	if p.end() || (t.Kind != sqltext.Word && t.Kind != sqltext.Quoted) {
		return "", p.wrong(what)
	}
	p.at++
	return t.Name(), nil
}

// table reads a name of up to two parts.
func (p *parser) table(what string) (string, error) {
	n, err := p.name(what)
	if err != nil {
		return "", err
	}
	if p.punct(".") {
		second, err := p.name(what)
		if err != nil {
			return "", err
		}
		n += "." + second
	}
	return n, nil
}

// alias reads [AS] name; without one it is the last part of the table's name.
func (p *parser) alias(table string, stop ...string) (string, error) {
	if p.word("AS") {
		return p.name("an alias")
	}
	if t := p.peek(); !p.end() && (t.Kind == sqltext.Word || t.Kind == sqltext.Quoted) {
		for _, s := range stop {
			if t.Is(s) {
				return table[strings.LastIndexByte(table, '.')+1:], nil
			}
		}
		return p.name("an alias")
	}
	return table[strings.LastIndexByte(table, '.')+1:], nil
}

func (p *parser) merge() (*Statement, error) {
	s := &Statement{}
	if p.peek().Is("WITH") {
		return nil, sqltext.At(p.source, p.peek().Pos, "WITH before MERGE is not supported; put the query into USING ( ... )")
	}
	if err := p.need("MERGE", "INTO"); err != nil {
		return nil, err
	}
	var err error
	if s.Target, err = p.table("the target table"); err != nil {
		return nil, err
	}
	if s.TargetAlias, err = p.alias(s.Target, "USING"); err != nil {
		return nil, err
	}
	if err := p.need("USING"); err != nil {
		return nil, err
	}
	if err := p.using(s); err != nil {
		return nil, err
	}
	if strings.EqualFold(s.TargetAlias, s.SourceAlias) {
		return nil, sqltext.At(p.source, p.peek().Pos, "target and source are both called %s; give one an alias", s.TargetAlias)
	}
	p.targetAlias, p.sourceAlias = s.TargetAlias, s.SourceAlias
	if err := p.need("ON"); err != nil {
		return nil, err
	}
	if err := p.on(s); err != nil {
		return nil, err
	}
	for !p.end() {
		c, err := p.clause(s)
		if err != nil {
			return nil, err
		}
		s.Clauses = append(s.Clauses, c)
	}
	if len(s.Clauses) == 0 {
		return nil, p.wrong("WHEN MATCHED or WHEN NOT MATCHED")
	}
	return s, nil
}

// using reads a table or a query in parentheses.
func (p *parser) using(s *Statement) error {
	if !p.punct("(") {
		var err error
		if s.Source, err = p.table("the source table or a query in parentheses"); err != nil {
			return err
		}
		s.SourceAlias, err = p.alias(s.Source, "ON")
		return err
	}
	from := p.at
	for depth := 1; ; p.at++ {
		if p.end() {
			return p.wrong("the ) that closes the query")
		}
		t := p.peek()
		if t.Kind == sqltext.Punct && t.Text == "(" {
			depth++
		}
		if t.Kind == sqltext.Punct && t.Text == ")" {
			if depth--; depth == 0 {
				break
			}
		}
	}
	if first := p.tokens[from]; !first.Is("SELECT") && !first.Is("WITH") && !first.Is("VALUES") && first.Text != "(" {
		return sqltext.At(p.source, first.Pos, "found %s where SELECT is needed", first.Text)
	}
	s.Query = p.source[p.tokens[from].Pos:p.peek().Pos]
	p.at++
	var err error
	if p.word("AS") {
		s.SourceAlias, err = p.name("an alias")
		return err
	}
	if p.peek().Is("ON") || p.end() {
		return p.wrong("an alias for the query")
	}
	s.SourceAlias, err = p.name("an alias for the query")
	return err
}

// on reads equalities of key columns, joined by AND.
func (p *parser) on(s *Statement) error {
	parens := 0
	for p.punct("(") {
		parens++
	}
	for {
		start := p.peek().Pos
		left, err := p.keyColumn()
		if err != nil {
			return err
		}
		if !p.punct("=") && !p.punct("<=>") {
			return p.wrong("= (ON takes equalities of key columns only; put other conditions after WHEN MATCHED AND)")
		}
		right, err := p.keyColumn()
		if err != nil {
			return err
		}
		pair := Pair{Target: left.Name, Source: right.Name}
		switch {
		case left.Side == Target && right.Side == Source:
		case left.Side == Source && right.Side == Target:
			pair = Pair{Target: right.Name, Source: left.Name}
		default:
			return sqltext.At(p.source, start, "ON compares a column of %s with one of %s", p.targetAlias, p.sourceAlias)
		}
		for _, have := range s.On {
			if strings.EqualFold(have.Target, pair.Target) {
				return sqltext.At(p.source, start, "the key column %s is compared twice", pair.Target)
			}
		}
		s.On = append(s.On, pair)
		for parens > 0 && p.punct(")") {
			parens--
		}
		if !p.word("AND") {
			break
		}
	}
	if parens > 0 {
		return p.wrong(")")
	}
	if !p.end() && !p.peek().Is("WHEN") {
		return p.wrong("AND or WHEN (ON takes equalities of key columns only)")
	}
	return nil
}

func (p *parser) keyColumn() (Ref, error) {
	pos := p.peek().Pos
	table, err := p.name("a column such as " + p.targetAlias + ".id")
	if err != nil {
		return Ref{}, err
	}
	if !p.punct(".") {
		return Ref{}, sqltext.At(p.source, pos, "write %s.%s or %s.%s", p.targetAlias, table, p.sourceAlias, table)
	}
	column, err := p.name("a column")
	if err != nil {
		return Ref{}, err
	}
	side, err := p.side(table, pos)
	return Ref{Side: side, Name: column, pos: pos}, err
}

func (p *parser) side(table string, pos int) (Side, error) {
	switch {
	case strings.EqualFold(table, p.targetAlias):
		return Target, nil
	case strings.EqualFold(table, p.sourceAlias):
		return Source, nil
	default:
		return Bare, sqltext.At(p.source, pos, "there is no table %s here; there are %s and %s", table, p.targetAlias, p.sourceAlias)
	}
}
