package merge

import (
	"fmt"
	"strings"

	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge/mergesql"
)

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
