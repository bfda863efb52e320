package merge

import (
	"context"
	"fmt"
	"strings"

	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge/mergesql"
)

// Rows of the target that the source has not: their keys are put into a table
// beside the stage, with the clause that takes them and the values that it
// computes, so that every condition and value is of the row as it was.

func (p *plan) unseen() string {
	if p.db.IsSQLite() {
		return "temp.airlock_unseen"
	}
	return "airlock_unseen"
}

// resolveUnseen turns the clauses WHEN NOT MATCHED BY SOURCE into rules.
func (p *plan) resolveUnseen(c *Clause, r *rule) error {
	for i := range c.Set {
		set := &c.Set[i]
		tc, err := p.settable("UPDATE", set.Column)
		if err != nil {
			return err
		}
		text, err := p.sql(&set.Value)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("airlock_v%d", p.unseenValues)
		p.unseenValues++
		r.writes = append(r.writes, write{column: tc, value: text, stage: name})
	}
	p.notInSource = append(p.notInSource, *r)
	return nil
}

// unseenDDL makes the table, and the index on the stage's keys that looking for
// its rows needs.
func (p *plan) unseenDDL() []string {
	if len(p.notInSource) == 0 {
		return nil
	}
	temp, tail, null := "CREATE TEMPORARY TABLE ", " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin", " NULL"
	index := "CREATE INDEX airlock_key ON " + p.stage()
	if p.db.IsSQLite() {
		temp, tail, null = "CREATE TABLE ", "", ""
		index = "CREATE INDEX temp.airlock_key ON airlock_stage"
	}
	lines := []string{"airlock_act INT NOT NULL"}
	for _, k := range p.keys {
		lines = append(lines, dialect.Quote(k.target)+" "+p.target.column(k.target).ddl+null)
	}
	for _, r := range p.notInSource {
		for _, w := range r.writes {
			lines = append(lines, w.stage+" "+w.column.ddl+null)
		}
	}
	return []string{temp + p.unseen() + " (" + strings.Join(lines, ", ") + ")" + tail, index + " (" + p.stageKeys("") + ")"}
}

// findUnseenSQL fills the table.
func (p *plan) findUnseenSQL() string {
	act := "CASE"
	columns, values := []string{"airlock_act"}, []string{""}
	for _, k := range p.keys {
		columns, values = append(columns, dialect.Quote(k.target)), append(values, targetCol(k.target))
	}
	var any []string
	for _, r := range p.notInSource {
		when := r.when
		if when == "" {
			when = "1=1"
		}
		any = append(any, "("+when+")")
		act += fmt.Sprintf(" WHEN %s THEN %d", when, r.act)
		for _, w := range r.writes {
			columns, values = append(columns, w.stage), append(values, fmt.Sprintf("CASE WHEN %s THEN %s END", when, w.value))
		}
	}
	values[0] = act + " END"
	return fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s AS %s LEFT JOIN %s AS %s ON %s WHERE %s.airlock_seq IS NULL AND (%s)",
		p.unseen(), strings.Join(columns, ", "), strings.Join(values, ", "), p.table(), targetAlias, p.stage(), stageAlias, p.join(), stageAlias, strings.Join(any, " OR "))
}

// unseenSQL carries one rule out. The condition is looked at again, for a row
// that another writer changed meanwhile.
func (p *plan) unseenSQL(r rule) string {
	const alias = "airlock_u"
	on := make([]string, len(p.keys))
	keys, values := make([]string, len(p.keys)), make([]string, len(p.keys))
	for i, k := range p.keys {
		on[i] = targetCol(k.target) + " = " + alias + "." + dialect.Quote(k.target)
		if k.collation != "" {
			on[i] += " COLLATE " + k.collation
		}
		keys[i], values[i] = dialect.Quote(k.target), alias+"."+dialect.Quote(k.target)
	}
	join := strings.Join(on, " AND ")
	where := fmt.Sprintf("%s.airlock_act = %d", alias, r.act)
	if r.when != "" {
		where += " AND (" + r.when + ")"
	}
	sets := make([]string, len(r.writes))
	for i, w := range r.writes {
		sets[i] = dialect.Quote(w.column.name) + " = " + alias + "." + w.stage
		if !p.db.IsSQLite() {
			sets[i] = targetAlias + "." + sets[i]
		}
	}
	set := strings.Join(sets, ", ")
	switch {
	case r.action == mergesql.Delete && p.db.IsSQLite():
		return fmt.Sprintf("DELETE FROM %s AS %s WHERE EXISTS (SELECT 1 FROM %s AS %s WHERE %s AND %s)", p.table(), targetAlias, p.unseen(), alias, join, where)
	case r.action == mergesql.Delete:
		return fmt.Sprintf("DELETE %s FROM %s AS %s JOIN %s AS %s ON %s WHERE %s", targetAlias, p.unseen(), alias, p.table(), targetAlias, join, where)
	case p.db.IsSQLite():
		return fmt.Sprintf("UPDATE %s AS %s SET %s FROM %s AS %s WHERE %s AND %s", p.table(), targetAlias, set, p.unseen(), alias, join, where)
	default:
		return fmt.Sprintf("UPDATE %s AS %s JOIN %s AS %s ON %s SET %s WHERE %s", p.unseen(), alias, p.table(), targetAlias, join, set, where)
	}
}

// notInSource carries out the rules for rows that the source has not. A source
// that gave nothing, or rows that nobody could read, does not say which rows it
// has: nothing is done then.
func (b *batch) notInSource(ctx context.Context, q runner, c *counts) error {
	if len(b.p.notInSource) == 0 {
		return nil
	}
	switch {
	case b.load.read == 0:
		b.job.logf("the source gave no rows; when_not_matched_by_source is left for a batch that has some")
		return nil
	case b.bad.n > 0:
		b.job.logf("%d rows are bad, so it is not known which rows the source has; when_not_matched_by_source is left for a batch without bad rows", b.bad.n)
		return nil
	}
	if _, err := q.ExecContext(ctx, "DELETE FROM "+b.p.unseen()); err != nil {
		return err
	}
	if _, err := q.ExecContext(ctx, b.p.findUnseenSQL()); err != nil {
		return fmt.Errorf("look for rows of %s that the source has not: %w", b.p.spec.Target, err)
	}
	for _, r := range b.p.notInSource {
		if r.action == mergesql.Nothing {
			continue
		}
		res, err := q.ExecContext(ctx, b.p.unseenSQL(r))
		if err != nil {
			return fmt.Errorf("change rows of %s that the source has not: %w", b.p.spec.Target, err)
		}
		n, err := res.RowsAffected()
		if err != nil {
			return err
		}
		if r.action == mergesql.Delete {
			c.deletedBySource += n
		} else {
			c.updatedBySource += n
		}
	}
	return nil
}
