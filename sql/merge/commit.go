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
// whole of it. The last one closes the batch. It gives what the batch has done
// so far.
func (b *batch) commit(ctx context.Context, lo, hi int64, last bool) (*Detail, error) {
	for try := 1; ; try++ {
		var d Detail
		var p *progress
		err := b.transaction(ctx, func(tx *sqlx.Tx) error {
			if err := b.effect.Hold(ctx, tx); err != nil {
				return err
			}
			if err := b.bad.restart(ctx, tx, lo); err != nil {
				return err
			}
			b.bad.limit = b.badLimit()
			c, err := b.apply(ctx, tx, lo, hi)
			if err != nil {
				return err
			}
			if b.job.Spec.BadRows.Exceeded(b.bad.n, b.load.read) {
				return errTooMany
			}
			again := b.bad.n // in a replay the rows have their letters
			if b.job.replay == nil {
				if again, err = b.writeLetters(ctx, tx, lo, hi); err != nil {
					return err
				}
			}
			if d, err = b.tally(ctx, tx, c, again, lo, hi); err != nil {
				return err
			}
			if b.job.replay != nil {
				if err := b.settle(ctx, tx, &d); err != nil {
					return err
				}
			}
			if err := b.moveWatermark(ctx, tx, &d, hi); err != nil {
				return err
			}
			if last {
				return b.finish(ctx, tx, &d)
			}
			p, err = b.step(ctx, tx, &d, hi)
			return err
		})
		switch class := dialect.ClassOf(err); {
		case err == nil:
			b.effect.progress = p
			return &d, nil
		case errors.Is(err, errTooMany):
			return nil, b.tooManyBad(b.load.read)
		case errors.Is(err, errContended):
			b.contended = true
			if try == tries {
				return nil, problem(codeContended, "other writers keep changing the rows of %s that this batch changes", b.p.spec.Target).
					hint("run the step when they are done, or give it a pool of one slot")
			}
		case dialect.LostCommit(err), class != dialect.ClassRetryable && class != dialect.ClassBusy, try == tries, ctx.Err() != nil:
			return nil, err
		}
		b.job.logf("the transaction is run again from its start: %v", err)
		if err := b.e.wait(ctx, try); err != nil {
			return nil, err
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

// finish marks the effect as done.
func (b *batch) finish(ctx context.Context, tx *sqlx.Tx, d *Detail) error {
	raw, err := resultJSON(d)
	if err != nil {
		return err
	}
	return b.effect.Finish(ctx, tx, d.counts(), raw)
}

// moveWatermark advances the pipeline's watermark to the greatest of the rows
// that the effect's transactions up to this one keep, unless a row is still to
// come that lies before it. It never goes back.
func (b *batch) moveWatermark(ctx context.Context, tx *sqlx.Tx, d *Detail, hi int64) error {
	w := b.job.Spec.Watermark
	if w == nil {
		return nil
	}
	stored, err := readMark(ctx, tx, b.e.DB.ForUpdate(), w)
	if err != nil {
		return err
	}
	d.Watermark, d.WatermarkColumn = w.Name, w.Column
	to := b.load.marks.reached(hi, hi > b.load.read)
	if b.upper != "" && b.p.markKind.less(b.upper, to.value) {
		// Rows beyond the frozen bound are merged and will be read again.
		to = mark{value: b.upper}
	}
	if w.TieBreaker == "" {
		to.tie = ""
	}
	if stored != nil {
		if d.WatermarkFrom == nil && b.sum.Transactions == 0 {
			from := stored.value
			d.WatermarkFrom = &from
		}
		at := stored.value
		d.WatermarkTo = &at
		if to.value == "" || !b.load.marks.less(*stored, to) {
			return nil
		}
	} else if to.value == "" {
		return nil
	}
	d.WatermarkTo = &to.value
	var tie any
	if w.TieBreaker != "" {
		tie = to.tie
	}
	now, o := dialect.Stamp(b.e.Clock.Now()), b.job.Owner
	if stored == nil {
		_, err = tx.ExecContext(ctx, "INSERT INTO airlock_watermark (pipeline, column_name, value, tie_breaker, advanced_at, dag_id, run_id) VALUES (?, ?, ?, ?, ?, ?, ?)",
			w.Name, w.Column, to.value, tie, now, o.DagID, o.RunID)
		if dialect.ClassOf(err) == dialect.ClassDuplicate {
			return errContended
		}
	} else {
		_, err = tx.ExecContext(ctx, "UPDATE airlock_watermark SET value = ?, tie_breaker = ?, advanced_at = ?, dag_id = ?, run_id = ? WHERE pipeline = ?",
			to.value, tie, now, o.DagID, o.RunID, w.Name)
	}
	if err != nil {
		return fmt.Errorf("move the watermark %s: %w", w.Name, err)
	}
	return nil
}

func sourceError(err error) error {
	switch {
	case errors.Is(err, source.ErrNotFound):
		return problem(CodeSourceMissing, "%s", err).hint("check the pattern and the folder; on_missing: skip or empty makes this no failure")
	case errors.Is(err, source.ErrNotAFile):
		return problem(CodeInvalid, "%s", err).hint("name a file; what comes through a pipe is written to one first")
	case errors.Is(err, source.ErrEncoding):
		return problem(codeSourceEncoding, "%s", err)
	case errors.Is(err, source.ErrHeader):
		return problem(codeSourceHeader, "%s", err).hint("nothing was written; correct the file or the step's columns")
	case errors.Is(err, source.ErrTruncated):
		return problem(codeSourceTruncated, "%s", err).hint("is it still being written? Write it under another name and rename it when it is whole")
	case errors.Is(err, source.ErrTooLarge):
		return problem(codeSourceDamaged, "%s", err).hint("nothing was written; write the file anew with smaller pages and row groups, or bring it again from where it came")
	case errors.Is(err, source.ErrDamaged):
		return problem(codeSourceDamaged, "%s", err).hint("nothing was written; bring the file again from where it came")
	case errors.Is(err, source.ErrChanged):
		return problem(codeSourceChanged, "%s", err).hint("write it under another name and rename it when it is whole")
	default:
		return err
	}
}
