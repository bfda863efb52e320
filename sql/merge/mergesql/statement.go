package mergesql

import (
	"strings"

	"github.com/airlock-dag/airlock/sql/merge/sqltext"
)

// Statement is a MERGE.
type Statement struct {
	// Target is the table's name, its parts separated by a dot.
	Target      string
	TargetAlias string
	// Source is a table's name, or Query a SELECT without its parentheses.
	Source, Query string
	SourceAlias   string
	// On pairs the target's key columns with the source's.
	On []Pair
	// Clauses in the order in which they are tried.
	Clauses []Clause
}

// Pair is one equality of ON.
type Pair struct{ Target, Source string }

// Action is what a clause does.
type Action uint8

// Actions.
const (
	// Update sets the columns of Set, or every column when All is set.
	Update Action = iota + 1
	// Delete removes the target's row.
	Delete
	// Insert adds the columns of Set, or every column when All is set.
	Insert
	// Nothing leaves the row alone.
	Nothing
)

// Clause is one WHEN.
type Clause struct {
	Matched bool
	// BySource marks the rows of the target that the source has not; Matched is
	// false then.
	BySource bool
	// When is the further condition, nil for none.
	When   *Expr
	Action Action
	All    bool
	Set    []Assignment
}

// Assignment gives a column a value.
type Assignment struct {
	Column string
	Value  Expr
}

// Expr is an expression over columns of the target and the source, kept as the
// tokens that it was written with.
type Expr struct {
	source string
	tokens []sqltext.Token
	refs   []Ref
}

// Side says which table a column belongs to.
type Side uint8

// Sides of a Ref. Bare names have no table before them: they may be columns,
// keywords or names of types.
const (
	Bare Side = iota
	Target
	Source
)

// Ref is a name inside an expression.
type Ref struct {
	Side Side
	Name string
	// from and to are places in the expression's tokens.
	from, to int
	pos      int
}

// Refs are the names in the expression, functions left out.
func (e *Expr) Refs() []Ref { return e.refs }

// Reads tells whether the expression reads a column of the side.
func (e *Expr) Reads(side Side) bool {
	for _, r := range e.refs {
		if r.Side == side {
			return true
		}
	}
	return false
}

// At is the error at a name of the expression.
func (e *Expr) At(r Ref, format string, args ...any) error {
	return sqltext.At(e.source, r.pos, format, args...)
}

// SQL writes the expression with each name as column gives it; an empty answer
// leaves the name as it stands.
func (e *Expr) SQL(column func(Ref) string) string {
	var b strings.Builder
	next := 0
	for i := 0; i < len(e.tokens); {
		t := e.tokens[i]
		if i > 0 {
			before := e.tokens[i-1]
			if t.Pos > before.Pos+len(before.Text) {
				b.WriteByte(' ')
			}
		}
		if next < len(e.refs) && e.refs[next].from == i {
			r := e.refs[next]
			next++
			if text := column(r); text != "" {
				b.WriteString(text)
				i = r.to
				continue
			}
		}
		b.WriteString(t.Text)
		i++
	}
	return b.String()
}

// String is the expression as it was written, comments left out.
func (e *Expr) String() string { return e.SQL(func(Ref) string { return "" }) }
