package merge

import (
	"fmt"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge/column"
	"github.com/airlock-dag/airlock/sql/merge/mergesql"
)

// plan is a Spec held against the target as it is: every name resolved, every
// expression turned into the database's SQL. It is pure data.
type plan struct {
	db     *dialect.DB
	spec   *Spec
	target *target
	cols   []planColumn
	keys   []planKey
	// version is the stage's and the target's column, "" for none.
	version       string
	targetVersion string
	matched       []rule
	unmatched     []rule
	notInSource   []rule
	// unseenValues counts the values that clauses for rows which the source has
	// not compute.
	unseenValues int
	// computed are the extra columns of the stage that hold values which a
	// matched row's clause computes.
	computed []computedColumn
	// mark and tie are places in cols, -1 for none.
	mark, tie         int
	markKind, tieKind watermarkKind
	// locks is set when values are computed from the target's present row: it is
	// locked before they are.
	locks bool
}

// planColumn is a column of the stage.
type planColumn struct {
	*column.Column
	// target is the column that it is written to; nil when it only serves
	// conditions.
	target *targetColumn
	ddl    string
	// native values are kept as the source's driver gives them.
	native  bool
	notNull bool
	isKey   bool
}

// planKey is one part of the key.
type planKey struct {
	target, stage string
	collation     string // of SQLite
	at            int    // in cols
}

// rule is a clause with its SQL.
type rule struct {
	act    int
	when   string // "" for always
	action mergesql.Action
	writes []write
}

// write gives a target column a value.
type write struct {
	column *targetColumn
	// value is SQL over the stage alone.
	value string
	// stage is set when the value is just that column of the stage.
	stage string
}

// computedColumn is a value of a matched row that an expression gives.
type computedColumn struct {
	name string // in the stage
	ddl  string
	expr string // over stage and target
	act  int
}

// Places that a row of the stage can be given; rules have positive numbers.
const (
	actNew        = 0
	actUnchanged  = -1
	actSuperseded = -2
	actRejected   = -3
)

// Aliases in every statement.
const (
	stageAlias  = "airlock_s"
	targetAlias = "airlock_t"
)

func stageCol(name string) string  { return stageAlias + "." + dialect.Quote(name) }
func targetCol(name string) string { return targetAlias + "." + dialect.Quote(name) }

// newPlan resolves a spec against a target. columns is what the step names, or
// what was found out about the source.
func newPlan(db *dialect.DB, spec *Spec, t *target, columns []planColumn) (*plan, error) {
	p := &plan{db: db, spec: spec, target: t, cols: columns, mark: -1, tie: -1}
	for _, step := range []func() error{p.resolveColumns, p.resolveKey, p.resolveVersion, p.resolveClauses, p.resolveWatermark, p.checkSupplied} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *plan) find(name string) int {
	for i := range p.cols {
		if p.cols[i].Name == name {
			return i
		}
	}
	for i := range p.cols {
		if strings.EqualFold(p.cols[i].Name, name) {
			return i
		}
	}
	return -1
}

func (p *plan) columnNames() []string {
	out := make([]string, len(p.cols))
	for i := range p.cols {
		out[i] = p.cols[i].Name
	}
	return out
}

func (p *plan) resolveColumns() error {
	for i := range p.cols {
		c := &p.cols[i]
		if c.StagedOnly {
			if c.ddl == "" {
				c.ddl = columnDDL(p.db, c.Type, false)
			}
			continue
		}
		tc := p.target.column(c.Name)
		switch {
		case tc == nil:
			e := problem(codeTargetColumns, "the table %s has no column %q; it has %s", p.spec.Target, c.Name, strings.Join(p.target.names(), ", "))
			if near := dag.Nearest(c.Name, p.target.names()); near != "" {
				return e.hint("did you mean %q? A column that only serves conditions takes store: false", near)
			}
			return e.hint("add the column to the table, or set store: false when it only serves conditions")
		case tc.generated:
			return problem(codeTargetColumns, "the database computes the column %s.%s itself; take it out of the step's columns", p.spec.Target, c.Name)
		}
		if err := p.fit(c, tc); err != nil {
			return err
		}
		c.target, c.ddl, c.notNull = tc, tc.ddl, !tc.nullable
		c.NumericAffinity = tc.numeric
		if tc.known && tc.typ != c.Type {
			typ := tc.typ
			c.Fit = &typ
		}
	}
	return nil
}

// fit refuses a declared type that the target would have to bend.
func (p *plan) fit(c *planColumn, tc *targetColumn) error {
	wrong := func() error {
		return problem(codeTargetColumns, "the column %s has the type %s in the step and %s in the table %s; a value would be bent", c.Name, c.Type, tc.ddl, p.spec.Target)
	}
	if c.native {
		return nil
	}
	if p.db.IsSQLite() {
		if tc.numeric && (c.Type.Kind == column.Text || c.Type.Kind == column.JSON) {
			return wrong()
		}
		return nil
	}
	if !tc.known || c.Type.Kind == tc.typ.Kind {
		return nil
	}
	switch from, to := c.Type.Kind, tc.typ.Kind; {
	case from == column.Integer && (to == column.Decimal || to == column.Double || to == column.Boolean),
		from == column.Boolean && to == column.Integer,
		from == column.Decimal && to == column.Double && c.Type.Precision <= 15,
		from == column.Date && to == column.Timestamp,
		from == column.JSON && to == column.Text,
		from == column.Text && (to == column.JSON || to == column.Blob):
		return nil
	default:
		return wrong()
	}
}

func (p *plan) resolveKey() error {
	var names []string
	for _, k := range p.spec.Key {
		tc := p.target.column(k.Target)
		if tc == nil {
			return problem(codeTargetColumns, "the table %s has no key column %q; it has %s", p.spec.Target, k.Target, strings.Join(p.target.names(), ", "))
		}
		at := p.find(k.Source)
		if at < 0 {
			return problem(codeTargetColumns, "the source has no key column %q; it has %s", k.Source, strings.Join(p.columnNames(), ", "))
		}
		p.cols[at].isKey = true
		p.keys = append(p.keys, planKey{target: tc.name, stage: p.cols[at].Name, at: at})
		names = append(names, tc.name)
	}
	index := p.target.keyIndex(names)
	if index == nil {
		quoted := dialect.QuoteAll(names)
		return problem(codeKey, "%s has no primary key or unique index over exactly %s; without it a key could be there twice", p.spec.Target, strings.Join(names, ", ")).
			hint("CREATE UNIQUE INDEX %s ON %s (%s)", dialect.Quote(strings.Join(append([]string{"airlock"}, names...), "_")), quoteTable(p.spec.Target), quoted)
	}
	for i := range p.keys {
		for j, c := range index.columns {
			if strings.EqualFold(c, p.keys[i].target) {
				p.keys[i].collation = index.collations[j]
			}
		}
	}
	return nil
}

func (p *plan) resolveVersion() error {
	if p.spec.Version == "" {
		return nil
	}
	at := p.find(p.spec.Version)
	if at < 0 {
		return problem(codeTargetColumns, "the version column %q is not among the source's columns %s", p.spec.Version, strings.Join(p.columnNames(), ", "))
	}
	if p.cols[at].target == nil {
		return problem(codeTargetColumns, "the version column %q must be a column of %s too, so that a later batch can compare with it", p.spec.Version, p.spec.Target)
	}
	p.version, p.targetVersion = p.cols[at].Name, p.cols[at].target.name
	return nil
}

func (p *plan) resolveWatermark() error {
	w := p.spec.Watermark
	if w == nil {
		return nil
	}
	if p.mark = p.find(w.Column); p.mark < 0 {
		return problem(codeWatermark, "the watermark column %q is not among the source's columns %s", w.Column, strings.Join(p.columnNames(), ", "))
	}
	if p.markKind = watermarkKindOf(p.cols[p.mark].Type); p.markKind == 0 && !p.cols[p.mark].native {
		return problem(codeWatermark, "the watermark column %q is of the type %s; a timestamp, a date, an integer or a text has an order that can be stored", w.Column, p.cols[p.mark].Type)
	}
	if w.TieBreaker != "" {
		if p.tie = p.find(w.TieBreaker); p.tie < 0 {
			return problem(codeWatermark, "the tie breaker %q is not among the source's columns %s", w.TieBreaker, strings.Join(p.columnNames(), ", "))
		}
		p.tieKind = watermarkKindOf(p.cols[p.tie].Type)
	}
	return nil
}

// checkSupplied makes sure that an INSERT gives every column that the table
// must have.
func (p *plan) checkSupplied() error {
	for _, r := range p.unmatched {
		if r.action != mergesql.Insert {
			continue
		}
		var lacks []string
		for i := range p.target.columns {
			tc := &p.target.columns[i]
			if tc.optional || tc.generated {
				continue
			}
			given := false
			for _, w := range r.writes {
				given = given || w.column == tc
			}
			if !given {
				lacks = append(lacks, tc.name)
			}
		}
		if len(lacks) > 0 {
			return problem(codeTargetColumns, "%s needs a value for %s, which the step does not give", p.spec.Target, strings.Join(lacks, ", ")).
				hint("add the column to the step, or give it a default in the table")
		}
	}
	return nil
}

// join is the condition that pairs the stage with the target.
func (p *plan) join() string {
	parts := make([]string, len(p.keys))
	for i, k := range p.keys {
		parts[i] = targetCol(k.target) + " = " + stageCol(k.stage)
		if k.collation != "" {
			parts[i] += " COLLATE " + k.collation
		}
	}
	return strings.Join(parts, " AND ")
}

func (p *plan) stageKeys(alias string) string {
	parts := make([]string, len(p.keys))
	for i, k := range p.keys {
		parts[i] = alias + dialect.Quote(k.stage)
		if k.collation != "" {
			parts[i] += " COLLATE " + k.collation
		}
	}
	return strings.Join(parts, ", ")
}

// same compares a target column with a value as stored, byte by byte: a value
// that differs in case only has changed.
func (p *plan) same(tc *targetColumn, value string, plain bool) string {
	have := targetCol(tc.name)
	if p.db.IsSQLite() {
		return fmt.Sprintf("%s COLLATE BINARY IS %s", have, value)
	}
	switch {
	case tc.data == "json":
		return fmt.Sprintf("CAST(%s AS CHAR) <=> CAST(%s AS CHAR)", have, value)
	case tc.known && tc.typ.Kind == column.Text && plain:
		return fmt.Sprintf("CAST(%s AS BINARY) <=> CAST(%s AS BINARY)", have, value)
	default:
		return fmt.Sprintf("%s <=> %s", have, value)
	}
}
