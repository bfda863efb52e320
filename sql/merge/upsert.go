package merge

import (
	"context"
	"fmt"
	"strings"

	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge/mergesql"
)

// The short way for the plainest plan on MySQL and MariaDB: one INSERT .. ON
// DUPLICATE KEY UPDATE instead of sorting, updating and inserting. It is gone
// only where it can touch no stranger's row (one unique key, the declared one)
// and sets off nothing else (no triggers); and a range in which the database
// refuses a row is halved and, when it is small, carried out rule by rule.

// upsertLeast is the size of a range that is not halved any more.
const upsertLeast = 64

// simple are the types whose values IF passes on as they are.
const simple = " boolean tinyint smallint mediumint int bigint decimal char varchar tinytext text mediumtext longtext date datetime timestamp double float binary varbinary tinyblob blob mediumblob longblob "

// upserts tells whether the plan can go the short way.
func (p *plan) upserts() bool {
	if p.db.IsSQLite() || !p.target.quiet || len(p.target.unique) != 1 || p.locks || len(p.computed) > 0 || len(p.matched) != 1 || len(p.unmatched) != 1 {
		return false
	}
	update, insert := p.matched[0], p.unmatched[0]
	if update.action != mergesql.Update || update.when != "" || insert.action != mergesql.Insert || insert.when != "" || len(update.writes) == 0 {
		return false
	}
	written := map[string]bool{}
	for _, w := range insert.writes {
		written[w.column.name] = true
	}
	for _, k := range p.keys {
		if !written[k.target] {
			return false
		}
	}
	for _, w := range insert.writes {
		// A key that is written as something else than the key would find another row.
		if p.isKeyColumn(w.column) && !p.writesKey(w) {
			return false
		}
	}
	for _, w := range update.writes {
		if !w.column.known || !strings.Contains(simple, " "+w.column.data+" ") {
			return false
		}
	}
	for i := range p.target.columns {
		// A number that counts by itself would be used up by each matched row.
		if c := &p.target.columns[i]; c.counts && !written[c.name] {
			return false
		}
	}
	return true
}

func (p *plan) writesKey(w write) bool {
	for _, k := range p.keys {
		if k.target == w.column.name {
			return w.stage == k.stage
		}
	}
	return false
}

// upsertSQL writes a range of the stage. It counts the rows that were there in
// @airlock_d and those of them that are newer in @airlock_s: the first value of
// a matched row is computed before any is written, and once.
func (p *plan) upsertSQL() string {
	insert, update := p.unmatched[0], p.matched[0]
	names, values := make([]string, len(insert.writes)), make([]string, len(insert.writes))
	for i, w := range insert.writes {
		names[i], values[i] = dialect.Quote(w.column.name), w.value
	}
	have := func(column string) string { return p.table() + "." + dialect.Quote(column) }
	older := p.olderThan(have(p.targetVersion))
	sets := make([]string, len(update.writes))
	for i, w := range update.writes {
		keep := "@airlock_o"
		switch {
		case i == 0 && older == "":
			keep = "(@airlock_d := @airlock_d + 1) IS NULL"
		case i == 0:
			keep = "(@airlock_d := @airlock_d + 1) AND (@airlock_o := " + older + ") AND (@airlock_s := @airlock_s + 1)"
		case older == "":
			keep = ""
		}
		value := w.value
		if keep != "" {
			value = "IF(" + keep + ", " + have(w.column.name) + ", " + w.value + ")"
		}
		sets[i] = dialect.Quote(w.column.name) + " = " + value
	}
	return fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s AS %s WHERE %s ORDER BY %s.airlock_seq ON DUPLICATE KEY UPDATE %s",
		p.table(), strings.Join(names, ", "), strings.Join(values, ", "), p.stage(), stageAlias, seqRange, stageAlias, strings.Join(sets, ", "))
}

const (
	upsertStart = "SET @airlock_d = 0, @airlock_s = 0, @airlock_o = 0"
	upsertCount = "SELECT @airlock_d, @airlock_s"
)

// upsert goes the short way for a range.
func (b *batch) upsert(ctx context.Context, q runner, c *counts, lo, hi int64) error {
	if _, err := q.ExecContext(ctx, upsertStart); err != nil {
		return err
	}
	r, err := q.ExecContext(ctx, b.p.upsertSQL(), lo, hi)
	switch {
	case isRowFault(err) && hi-lo <= upsertLeast:
		return b.applyRange(ctx, q, c, lo, hi)
	case isRowFault(err):
		mid := lo + (hi-lo)/2
		if err := b.upsert(ctx, q, c, lo, mid); err != nil {
			return err
		}
		return b.upsert(ctx, q, c, mid, hi)
	case err != nil:
		return fmt.Errorf("merge into %s: %w", b.p.spec.Target, err)
	}
	affected, err := r.RowsAffected()
	if err != nil {
		return err
	}
	rows := hi - lo
	if b.bad.n > 0 || b.dups > 0 {
		if err := q.QueryRowxContext(ctx, "SELECT COUNT(*) FROM "+b.p.stage()+" AS "+stageAlias+" WHERE "+seqRange, lo, hi).Scan(&rows); err != nil {
			return err
		}
	}
	var there, newer int64
	if err := q.QueryRowxContext(ctx, upsertCount).Scan(&there, &newer); err != nil {
		return err
	}
	// The server counts a row once, and once more when it changed.
	updated := affected - rows
	if updated < 0 || there > rows || updated > there-newer {
		return problem(codeAccounting, "the table %s took %d rows and says that %d were there, %d newer, and %d changed", b.p.spec.Target, rows, there, newer, updated).
			hint("nothing was written; report this with the table's definition and the step")
	}
	c.inserted += rows - there
	c.updated += updated
	c.superseded += newer
	c.unchanged += there - newer - updated
	return nil
}

// countsUpserts tries on a table of four rows whether the server counts as
// upsert relies on: a variable that is set in a value is set once a row.
func (b *batch) countsUpserts(ctx context.Context) (bool, error) {
	for _, s := range []string{
		"DROP TEMPORARY TABLE IF EXISTS airlock_try",
		"CREATE TEMPORARY TABLE airlock_try (k INT PRIMARY KEY, v INT, w INT) ENGINE=InnoDB",
		"INSERT INTO airlock_try VALUES (1, 5, 0), (2, 5, 0), (3, 5, 0)",
		upsertStart,
	} {
		if _, err := b.conn.ExecContext(ctx, s); err != nil {
			return false, err
		}
	}
	r, err := b.conn.ExecContext(ctx, "INSERT INTO airlock_try (k, v, w) SELECT s.k, s.v, s.w FROM (SELECT 1 AS k, 4 AS v, 9 AS w UNION ALL SELECT 2, 5, 0 UNION ALL SELECT 3, 6, 1 UNION ALL SELECT 4, 1, 0) AS s "+
		"ON DUPLICATE KEY UPDATE v = IF((@airlock_d := @airlock_d + 1) AND (@airlock_o := (s.v < airlock_try.v)) AND (@airlock_s := @airlock_s + 1), airlock_try.v, s.v), w = IF(@airlock_o, airlock_try.w, s.w)")
	var affected, there, newer, sum int64
	if err == nil {
		affected, err = r.RowsAffected()
	}
	if err == nil {
		err = b.conn.QueryRowxContext(ctx, upsertCount).Scan(&there, &newer)
	}
	if err == nil {
		err = b.conn.QueryRowxContext(ctx, "SELECT SUM(v * 10 + w) FROM airlock_try").Scan(&sum)
	}
	if _, dropErr := b.conn.ExecContext(ctx, "DROP TEMPORARY TABLE IF EXISTS airlock_try"); err == nil {
		err = dropErr
	}
	if dialect.ClassOf(err) == dialect.ClassLost || ctx.Err() != nil {
		return false, err
	}
	// Kept, the same, changed and new: 50 + 50 + 61 + 10.
	return err == nil && affected == 5 && there == 3 && newer == 1 && sum == 171, nil
}
