package merge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge/source"
)

func utc() *time.Location { return time.UTC }

// commit merges a range of the stage in one transaction, which is begun anew
// after a deadlock, a lock wait or another writer's interference: always the
// whole of it. last, when set, closes the batch in the same transaction.
func (b *batch) commit(ctx context.Context, lo, hi int64, last func(context.Context, *sqlx.Tx, counts, int64) error) (c counts, again int64, err error) {
	for try := 1; ; try++ {
		err = b.transaction(ctx, func(tx *sqlx.Tx) error {
			if err := b.effect.Hold(ctx, tx); err != nil {
				return err
			}
			if err := b.bad.restart(ctx, tx); err != nil {
				return err
			}
			b.bad.limit = b.badLimit()
			var err error
			if c, err = b.apply(ctx, tx, lo, hi); err != nil {
				return err
			}
			if b.job.Spec.BadRows.Exceeded(b.bad.n, b.load.read) {
				return errTooMany
			}
			if last == nil {
				return nil
			}
			if again, err = b.writeLetters(ctx, tx); err != nil {
				return err
			}
			return last(ctx, tx, c, again)
		})
		switch class := dialect.ClassOf(err); {
		case err == nil:
			return c, again, nil
		case errors.Is(err, errTooMany):
			return c, 0, b.tooManyBad(b.load.read)
		case errors.Is(err, errContended):
			b.contended = true
			if try == tries {
				return c, 0, problem(codeContended, "other writers keep changing the rows of %s that this batch changes", b.p.spec.Target).
					hint("run the step when they are done, or give it a pool of one slot")
			}
		case dialect.LostCommit(err), class != dialect.ClassRetryable && class != dialect.ClassBusy, try == tries, ctx.Err() != nil:
			return c, 0, err
		}
		b.job.logf("the transaction is run again from its start: %v", err)
		if err := b.e.wait(ctx, try); err != nil {
			return c, 0, err
		}
	}
}

// badLimit is the number of bad rows at which the batch has failed, now that
// the number of rows is known; -1 for none.
func (b *batch) badLimit() int64 {
	s := b.job.Spec.BadRows
	limit := s.Max
	ratio := s.MaxRatio
	if s.Default {
		ratio = defaultMaxRatio
	}
	if ratio >= 0 {
		if byRatio := int64(ratio * float64(b.load.read)); limit < 0 || byRatio < limit {
			limit = byRatio
		}
	}
	if s.Default {
		limit = max(limit, defaultMinBad)
	}
	return limit
}

// finish writes the watermark and the effect and fills in the result.
func (b *batch) finish(ctx context.Context, tx *sqlx.Tx, c counts, again int64, d *Detail) error {
	*d = Detail{
		Result: Result{
			RowsRead: b.load.read, RowsMerged: c.inserted + c.updated + c.deleted, RowsUnchanged: c.unchanged,
			RowsQuarantined: b.bad.n, RowsSuperseded: c.superseded, BatchID: b.id,
		},
		RowsInserted: c.inserted, RowsUpdated: c.updated, RowsDeleted: c.deleted, RowsQuarantinedAgain: again,
		Target: b.p.spec.Target, Sources: b.parts,
	}
	if sum := d.RowsMerged + d.RowsUnchanged + d.RowsQuarantined + d.RowsSuperseded; sum != d.RowsRead {
		return problem(codeAccounting, "read %d rows and can account for %d: %s", d.RowsRead, sum, d.Summary()).
			hint("nothing was written; report this with the table's triggers and the step")
	}
	var err error
	if d.QuarantinedByCode, err = b.countCodes(ctx, tx); err != nil {
		return err
	}
	if err := b.moveWatermark(ctx, tx, d); err != nil {
		return err
	}
	raw, err := resultJSON(d)
	if err != nil {
		return err
	}
	return b.effect.Finish(ctx, tx, Counts{
		Read: d.RowsRead, Merged: d.RowsMerged, Unchanged: d.RowsUnchanged, Quarantined: d.RowsQuarantined, Superseded: d.RowsSuperseded,
	}, raw)
}

// moveWatermark advances the pipeline's watermark to the greatest of the rows
// that this transaction keeps. It never goes back.
func (b *batch) moveWatermark(ctx context.Context, tx *sqlx.Tx, d *Detail) error {
	w := b.job.Spec.Watermark
	if w == nil {
		return nil
	}
	stored, err := readMark(ctx, tx, b.e.DB.ForUpdate(), w)
	if err != nil {
		return err
	}
	d.Watermark, d.WatermarkColumn = w.Name, w.Column
	mark, tie := b.load.mark, b.load.tie
	if b.upper != "" && b.p.markKind.less(b.upper, mark) {
		// Rows beyond the frozen bound are merged and will be read again.
		mark, tie = b.upper, ""
	}
	if stored != nil {
		from, to := stored.Value, stored.Value
		d.WatermarkFrom, d.WatermarkTo = &from, &to
		if mark == "" || !b.p.markKind.less(stored.Value, mark) {
			return nil
		}
	} else if mark == "" {
		return nil
	}
	d.WatermarkTo = &mark
	var tieValue any
	if w.TieBreaker != "" {
		tieValue = tie
	}
	now, o := dialect.Stamp(b.e.Clock.Now()), b.job.Owner
	if stored == nil {
		_, err = tx.ExecContext(ctx, "INSERT INTO airlock_watermark (pipeline, column_name, value, tie_breaker, advanced_at, dag_id, run_id) VALUES (?, ?, ?, ?, ?, ?, ?)",
			w.Name, w.Column, mark, tieValue, now, o.DagID, o.RunID)
		if dialect.ClassOf(err) == dialect.ClassDuplicate {
			return errContended
		}
	} else {
		_, err = tx.ExecContext(ctx, "UPDATE airlock_watermark SET value = ?, tie_breaker = ?, advanced_at = ?, dag_id = ?, run_id = ? WHERE pipeline = ?",
			mark, tieValue, now, o.DagID, o.RunID, w.Name)
	}
	if err != nil {
		return fmt.Errorf("move the watermark %s: %w", w.Name, err)
	}
	return nil
}

// bounds freezes the limits of a query's batch before it is read.
func (b *batch) bounds(ctx context.Context, t *target) (Bounds, error) {
	w, spec := b.job.Spec.Watermark, b.job.Spec
	q, isQuery := b.job.Source.(*QuerySource)
	if w == nil || !isQuery {
		return Bounds{}, nil
	}
	out := Bounds{Column: w.Column}
	typ := column0(t, w.Column)
	for _, c := range spec.Columns {
		if c.Name == w.Column {
			out.Column, typ = c.Source(), c.Type
		}
	}
	if typ.Kind == 0 {
		var err error
		if typ, err = sourceType(ctx, q, out.Column); err != nil {
			return out, err
		}
	}
	b.markType = typ
	out.Kind = watermarkKindOf(typ)
	stored, err := readMark(ctx, b.conn, "", w)
	if err != nil {
		return out, err
	}
	switch {
	case stored != nil:
		if out.From, err = out.Kind.back(stored.Value, w); err != nil {
			return out, err
		}
	case w.Initial != "":
		out.From = w.Initial
	}
	if out.To, err = b.upperBound(ctx, q, out); err != nil {
		return out, err
	}
	b.upper, out.CutTo = out.To, w.Lag > 0 || out.Kind == markNumber
	return out, nil
}

func sourceError(err error) error {
	switch {
	case errors.Is(err, source.ErrNotFound):
		return problem(CodeSourceMissing, "%s", err).hint("check the pattern and the folder; on_missing: skip or empty makes this no failure")
	case errors.Is(err, source.ErrEncoding):
		return problem(codeSourceEncoding, "%s", err)
	case errors.Is(err, source.ErrHeader):
		return problem(codeSourceHeader, "%s", err).hint("nothing was written; correct the file or the step's columns")
	case errors.Is(err, source.ErrTruncated):
		return problem(codeSourceTruncated, "%s", err).hint("is it still being written? Write it under another name and rename it when it is whole")
	case errors.Is(err, source.ErrChanged):
		return problem(codeSourceChanged, "%s", err).hint("write it under another name and rename it when it is whole")
	default:
		return err
	}
}
