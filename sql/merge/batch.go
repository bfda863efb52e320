package merge

import (
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/dag/crashpoint"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge/column"
	"github.com/airlock-dag/airlock/sql/merge/mergesql"
)

// batch is one reading of a source on its way into the target. It lives on one
// connection, which the stage belongs to.
type batch struct {
	e      *Engine
	job    *Job
	p      *plan
	effect *Effect
	conn   *sqlx.Conn
	id     string
	bad    *badRows
	load   *loader
	// dups counts the rows that lost against a newer one of the batch.
	dups  int64
	parts []Part
	// markType is the type of a query's watermark column.
	markType column.Type
	// upper is the frozen upper bound of a query's batch, "" for none.
	upper string
	// sum is what the transactions before this one have done, reading names what
	// was read, and late counts the bad rows that those transactions found.
	sum     Detail
	reading string
	late    int64
	// again are refused rows that may be taken once the batch is through.
	again []lateRow
	// contended is set after another writer changed rows under the batch: its
	// rows are locked before they are sorted then.
	contended bool
	// upserts is set when rows go the short way.
	upserts bool
}

func batchID(key, fingerprint string) string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%d:%s:%s", len(key), key, fingerprint)))
	return hex.EncodeToString(sum[:16])
}

// dropStage removes what an earlier use of the connection left.
func (b *batch) dropStage(ctx context.Context) error {
	temp := "TEMPORARY "
	if b.e.DB.IsSQLite() {
		temp = ""
	}
	for _, t := range []string{b.p.stage(), b.p.bad(), b.dupTable(), b.p.unseen()} {
		if _, err := b.conn.ExecContext(ctx, "DROP "+temp+"TABLE IF EXISTS "+t); err != nil {
			return fmt.Errorf("remove an old stage: %w", err)
		}
	}
	return nil
}

// makeStage makes the stage's tables.
func (b *batch) makeStage(ctx context.Context) error {
	if err := b.dropStage(ctx); err != nil {
		return err
	}
	for _, s := range append([]string{b.p.stageDDL(), b.p.badDDL()}, b.p.unseenDDL()...) {
		if _, err := b.conn.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("make the stage (the user needs the right to make temporary tables): %w", err)
		}
	}
	if !b.p.upserts() {
		return nil
	}
	var err error
	if b.upserts, err = b.countsUpserts(ctx); err != nil {
		return fmt.Errorf("try how the database counts: %w", err)
	}
	return nil
}

// transaction runs one transaction on the batch's own connection and says
// whether its COMMIT is known.
func (b *batch) transaction(ctx context.Context, fn func(tx *sqlx.Tx) error) error {
	tx, err := b.conn.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	done := false
	defer func() {
		if !done {
			_ = tx.Rollback()
		}
	}()
	if err := fn(tx); err != nil {
		return err
	}
	crashpoint.Point("merge: before it asks for the lease")
	if b.job.StillMine != nil {
		if err := b.job.StillMine(ctx); err != nil {
			return fmt.Errorf("nothing was written: %w", err)
		}
	}
	crashpoint.Point("merge: before its COMMIT")
	done = true
	err = tx.Commit()
	crashpoint.Point("merge: after its COMMIT")
	if err != nil && !b.e.DB.IsSQLite() && !errors.Is(err, driver.ErrBadConn) && dialect.ClassOf(err) == dialect.ClassLost {
		return &dialect.CommitLostError{Err: err}
	}
	return err
}

// counts are the rows of one transaction by what became of them.
type counts struct {
	inserted, updated, deleted, unchanged, superseded int64
	// Of rows that the source has not.
	updatedBySource, deletedBySource int64
}

// apply merges the staged rows with lo <= seq < hi, inside a transaction.
func (b *batch) apply(ctx context.Context, q runner, lo, hi int64) (counts, error) {
	var c counts
	b.again, b.bad.spared = nil, 0
	if (b.p.locks || b.contended) && !b.e.DB.IsSQLite() {
		var n int64
		if err := q.QueryRowxContext(ctx, b.p.lockSQL(), lo, hi).Scan(&n); err != nil {
			return c, fmt.Errorf("lock the rows of %s: %w", b.p.spec.Target, err)
		}
	}
	step, apply := hi-lo, b.applyRange
	switch {
	case b.upserts:
		step, apply = statementRows, b.upsert
	case b.p.interleaves():
		step = sortRows
	}
	for from := lo; from < hi; from += step {
		if err := apply(ctx, q, &c, from, min(from+step, hi)); err != nil {
			return c, err
		}
	}
	if err := b.tryAgain(ctx, q, &c); err != nil {
		return c, err
	}
	return c, b.notInSource(ctx, q, &c)
}

// applyRange sorts the rows of a range and carries their rules out.
func (b *batch) applyRange(ctx context.Context, q runner, c *counts, lo, hi int64) error {
	if reset := b.p.resetSQL(); reset != "" {
		if err := b.sort(ctx, q, reset+" WHERE "+seqRange, lo, hi); err != nil {
			return err
		}
	}
	if err := b.sort(ctx, q, b.p.matchSQL()+" AND "+seqRange, lo, hi); err != nil {
		return err
	}
	for _, v := range b.p.computed {
		set := dialect.Quote(v.name) + " = " + v.expr
		more := fmt.Sprintf("%s.airlock_act = %d AND %s", stageAlias, v.act, seqRange)
		if _, err := b.inRanges(ctx, q, b.p.updateStage(set, more), lo, hi, nil); err != nil {
			return err
		}
	}
	for _, r := range b.p.matched {
		if r.action != mergesql.Update || !b.p.computes(r) {
			continue
		}
		if err := b.sort(ctx, q, b.p.sameSQL(r)+" AND "+seqRange, lo, hi); err != nil {
			return err
		}
	}
	sorted, err := b.countSorted(ctx, q, lo, hi)
	if err != nil {
		return err
	}
	c.unchanged += sorted[actUnchanged]
	c.superseded += sorted[actSuperseded]
	// Deletes go first: they free keys that an insert may need.
	for _, action := range []mergesql.Action{mergesql.Delete, mergesql.Update, mergesql.Insert} {
		for _, r := range append(append([]rule(nil), b.p.matched...), b.p.unmatched...) {
			if r.action != action {
				continue
			}
			n, err := b.carryOut(ctx, q, r, sorted[r.act], lo, hi)
			if err != nil {
				return err
			}
			switch action {
			case mergesql.Delete:
				c.deleted += n
			case mergesql.Update:
				c.updated += n
			default:
				c.inserted += n
			}
		}
	}
	return nil
}

// sortRows bounds the stage rows that one sorting statement looks at, and with
// them what the database keeps aside for it.
const sortRows = 50000

// sort runs a statement that changes the stage only, range by range.
func (b *batch) sort(ctx context.Context, q runner, statement string, lo, hi int64) error {
	for from := lo; from < hi; from += sortRows {
		if _, err := q.ExecContext(ctx, statement, from, min(from+sortRows, hi)); err != nil {
			return fmt.Errorf("sort the rows: %w", err)
		}
	}
	return nil
}

// countSorted counts the rows by the rule that takes them.
func (b *batch) countSorted(ctx context.Context, q runner, lo, hi int64) (map[int]int64, error) {
	rows, err := q.QueryxContext(ctx, "SELECT airlock_act, COUNT(*) FROM "+b.p.stage()+" WHERE airlock_seq >= ? AND airlock_seq < ? GROUP BY airlock_act", lo, hi)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	out := map[int]int64{}
	for rows.Next() {
		var act int
		var n int64
		if err := rows.Scan(&act, &n); err != nil {
			return nil, err
		}
		out[act] = n
	}
	return out, rows.Err()
}

// resultJSON is what the effect keeps.
func resultJSON(d *Detail) (json.RawMessage, error) {
	if len(d.Sources) > 1000 {
		cut := *d
		cut.Sources = cut.Sources[:1000]
		d = &cut
	}
	return json.Marshal(d)
}
