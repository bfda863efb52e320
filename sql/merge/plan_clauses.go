package merge

import (
	"fmt"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
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

// The statements of a batch. Each names the stage once only: MySQL cannot open
// a temporary table twice in one statement.

func (p *plan) stage() string {
	if p.db.IsSQLite() {
		return "temp.airlock_stage"
	}
	return "airlock_stage"
}

func (p *plan) bad() string {
	if p.db.IsSQLite() {
		return "temp.airlock_bad"
	}
	return "airlock_bad"
}

func (p *plan) table() string { return quoteTable(p.spec.Target) }

// stageDDL makes the stage: its columns are the target's own, so that what the
// target would refuse is refused here, and without NOT NULL and keys.
func (p *plan) stageDDL() string {
	temp, seq, num, blob, tail := "CREATE TEMPORARY TABLE ", "BIGINT NOT NULL PRIMARY KEY", "BIGINT", "LONGBLOB", " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
	if p.db.IsSQLite() {
		temp, seq, num, blob, tail = "CREATE TABLE ", "INTEGER PRIMARY KEY", "INTEGER", "BLOB", ""
	}
	act, _ := p.fresh()
	lines := []string{
		"airlock_seq " + seq, "airlock_src " + num + " NOT NULL", "airlock_line " + num + " NOT NULL", "airlock_off " + num,
		"airlock_raw " + blob, fmt.Sprintf("airlock_act %s NOT NULL DEFAULT %d", num, act),
	}
	null := " NULL"
	if p.db.IsSQLite() {
		null = ""
	}
	for i := range p.cols {
		lines = append(lines, dialect.Quote(p.cols[i].Name)+" "+p.cols[i].ddl+null)
	}
	for _, c := range p.computed {
		lines = append(lines, dialect.Quote(c.name)+" "+c.ddl+null)
	}
	return temp + p.stage() + " (" + strings.Join(lines, ", ") + ")" + tail
}

func (p *plan) badDDL() string {
	if p.db.IsSQLite() {
		return "CREATE TABLE " + p.bad() + ` (seq INTEGER PRIMARY KEY, late INTEGER NOT NULL, source TEXT NOT NULL, source_line INTEGER NOT NULL, byte_offset INTEGER,
			row_key TEXT, raw BLOB NOT NULL, column_name TEXT, error_code TEXT NOT NULL, error_message TEXT NOT NULL, source_format TEXT)`
	}
	return "CREATE TEMPORARY TABLE " + p.bad() + ` (seq BIGINT NOT NULL PRIMARY KEY, late INT NOT NULL, source VARCHAR(1024) NOT NULL, source_line BIGINT NOT NULL, byte_offset BIGINT,
		row_key VARCHAR(255), raw LONGBLOB NOT NULL, column_name VARCHAR(128), error_code VARCHAR(64) NOT NULL, error_message TEXT NOT NULL, source_format TEXT) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin`
}

// fresh is the rule of a row that is not matched where that is one for all, so
// that the stage's rows have it from the start.
func (p *plan) fresh() (act int, ok bool) {
	if len(p.unmatched) == 0 {
		return actUnchanged, true
	}
	r := p.unmatched[0]
	if r.action == mergesql.Nothing {
		return actUnchanged, r.when == ""
	}
	return r.act, r.when == ""
}

// interleaves tells whether each range of rows may be sorted and carried out
// before the next one is looked at, so that the target's pages are read once. A
// row that is deleted, or that leaves another unique key, may make room for any
// row of the batch: those plans do one kind of action after the other.
func (p *plan) interleaves() bool {
	if len(p.target.unique) > 1 || p.locks {
		return false
	}
	for _, r := range p.matched {
		if r.action == mergesql.Delete {
			return false
		}
	}
	return true
}

// resetSQL gives every row its rule for the case that it is not matched; empty
// where the rows have it already.
func (p *plan) resetSQL() string {
	if _, ok := p.fresh(); ok {
		return ""
	}
	text := "CASE"
	for _, r := range p.unmatched {
		act := r.act
		if r.action == mergesql.Nothing {
			act = actUnchanged
		}
		if r.when == "" {
			text += fmt.Sprintf(" WHEN 1=1 THEN %d", act)
			break
		}
		text += fmt.Sprintf(" WHEN %s THEN %d", r.when, act)
	}
	if text == "CASE" {
		text = fmt.Sprint(actUnchanged)
	} else {
		text += fmt.Sprintf(" ELSE %d END", actUnchanged)
	}
	return fmt.Sprintf("UPDATE %s AS %s SET airlock_act = %s", p.stage(), stageAlias, text)
}

// older is the guard that keeps an older row from writing over a newer one.
func (p *plan) older() string {
	return p.olderThan(targetCol(p.targetVersion))
}

// olderThan is the guard against the target's version as a statement calls it.
func (p *plan) olderThan(t string) string {
	if p.version == "" {
		return ""
	}
	s, than := stageCol(p.version), "<"
	if p.spec.keepEqual {
		than = "<="
	}
	return fmt.Sprintf("(%s IS NOT NULL AND (%s IS NULL OR %s %s %s))", t, s, s, than, t)
}

// matchSQL gives the matched rows their rule.
func (p *plan) matchSQL() string {
	text := "CASE"
	if older := p.older(); older != "" {
		text += fmt.Sprintf(" WHEN %s THEN %d", older, actSuperseded)
	}
	closed := false
	for _, r := range p.matched {
		act := r.act
		if r.action == mergesql.Nothing {
			act = actUnchanged
		}
		when := r.when
		if when == "" {
			when, closed = "1=1", true
		}
		then := fmt.Sprint(act)
		if r.action == mergesql.Update && !p.computes(r) {
			then = fmt.Sprintf("CASE WHEN %s THEN %d ELSE %d END", p.unchanged(r), actUnchanged, act)
		}
		text += fmt.Sprintf(" WHEN %s THEN %s", when, then)
		if closed {
			break
		}
	}
	if text == "CASE" {
		text = fmt.Sprint(actUnchanged)
	} else {
		text += fmt.Sprintf(" ELSE %d END", actUnchanged)
	}
	return p.updateStage("airlock_act = "+text, "")
}

// updateStage changes stage rows that are matched.
func (p *plan) updateStage(set, more string) string {
	if more != "" {
		more = " AND " + more
	}
	if p.db.IsSQLite() {
		return fmt.Sprintf("UPDATE %s AS %s SET %s FROM %s AS %s WHERE %s%s", p.stage(), stageAlias, set, p.table(), targetAlias, p.join(), more)
	}
	set = stageAlias + "." + set
	return fmt.Sprintf("UPDATE %s AS %s JOIN %s AS %s ON %s SET %s WHERE 1=1%s", p.stage(), stageAlias, p.table(), targetAlias, p.join(), set, more)
}

// lockSQL locks the matched rows of the target until the end of the transaction.
func (p *plan) lockSQL() string {
	return fmt.Sprintf("SELECT COUNT(*) FROM %s AS %s JOIN %s AS %s ON %s WHERE %s FOR UPDATE", p.stage(), stageAlias, p.table(), targetAlias, p.join(), seqRange)
}

// computes tells whether a rule writes values that are computed into the stage
// after the rows have been sorted.
func (p *plan) computes(r rule) bool {
	for _, c := range p.computed {
		if c.act == r.act {
			return true
		}
	}
	return false
}

// unchanged is the condition that a rule would change nothing.
func (p *plan) unchanged(r rule) string {
	parts := []string{"1=1"}
	for _, w := range r.writes {
		parts = append(parts, p.same(w.column, w.value, true))
	}
	return strings.Join(parts, " AND ")
}

// sameSQL takes the rows of an update with computed values out that would change
// nothing.
func (p *plan) sameSQL(r rule) string {
	return p.updateStage(fmt.Sprintf("airlock_act = %d", actUnchanged), fmt.Sprintf("%s.airlock_act = %d AND %s", stageAlias, r.act, p.unchanged(r)))
}

const seqRange = stageAlias + ".airlock_seq >= ? AND " + stageAlias + ".airlock_seq < ?"

// applySQL is the statement that carries a rule out for a range of the stage.
// It looks at the guards again: a row that another writer changed after it was
// sorted is not touched, and the count tells.
func (p *plan) applySQL(r rule) string {
	where := fmt.Sprintf("%s.airlock_act = %d AND %s", stageAlias, r.act, seqRange)
	if r.action != mergesql.Insert {
		if older := p.older(); older != "" {
			where += " AND NOT " + older
		}
		if r.when != "" {
			where += " AND (" + r.when + ")"
		}
	}
	switch r.action {
	case mergesql.Insert:
		names, values := make([]string, len(r.writes)), make([]string, len(r.writes))
		for i, w := range r.writes {
			names[i], values[i] = dialect.Quote(w.column.name), w.value
		}
		return fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s AS %s WHERE %s ORDER BY %s.airlock_seq",
			p.table(), strings.Join(names, ", "), strings.Join(values, ", "), p.stage(), stageAlias, where, stageAlias)
	case mergesql.Delete:
		if p.db.IsSQLite() {
			return p.deleteSQLite(where)
		}
		return fmt.Sprintf("DELETE %s FROM %s AS %s JOIN %s AS %s ON %s WHERE %s", targetAlias, p.stage(), stageAlias, p.table(), targetAlias, p.join(), where)
	default:
		sets := make([]string, len(r.writes))
		for i, w := range r.writes {
			if p.db.IsSQLite() {
				sets[i] = dialect.Quote(w.column.name) + " = " + w.value
			} else {
				sets[i] = targetCol(w.column.name) + " = " + w.value
			}
		}
		set := strings.Join(sets, ", ")
		if p.db.IsSQLite() {
			return fmt.Sprintf("UPDATE %s AS %s SET %s FROM %s AS %s WHERE %s AND %s", p.table(), targetAlias, set, p.stage(), stageAlias, p.join(), where)
		}
		return fmt.Sprintf("UPDATE %s AS %s JOIN %s AS %s ON %s SET %s WHERE %s", p.stage(), stageAlias, p.table(), targetAlias, p.join(), set, where)
	}
}

func (p *plan) deleteSQLite(where string) string {
	columns, values := make([]string, len(p.keys)), make([]string, len(p.keys))
	for i, k := range p.keys {
		columns[i], values[i] = dialect.Quote(k.target), targetCol(k.target)
	}
	return fmt.Sprintf("DELETE FROM %s WHERE (%s) IN (SELECT %s FROM %s AS %s JOIN %s AS %s ON %s WHERE %s)",
		p.table(), strings.Join(columns, ", "), strings.Join(values, ", "), p.stage(), stageAlias, p.table(), targetAlias, p.join(), where)
}
