package merge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge/row"
	"github.com/airlock-dag/airlock/sql/merge/source"
)

// Decisions about a row letter, a closed list: column decision of
// airlock_dead_letter_row_audit.
const (
	// RowReplayed: the row is in the table now; the letter is resolved.
	RowReplayed = "replayed"
	// RowDropDuplicate: the table has the row, or a newer one with its key.
	RowDropDuplicate = "drop_duplicate"
	// RowRejected: the row is still a bad one; the letter stays open.
	RowRejected = "rejected"
	// RowDeferred: nothing was decided; the letter stays open.
	RowDeferred = "deferred"
	// RowQuarantine: the row has come back too often and was not tried.
	RowQuarantine = "quarantine"
	// RowEdited, RowResolved, RowDropped, RowReleased are by hand.
	RowEdited   = "edited"
	RowResolved = "resolved"
	RowDropped  = "dropped"
	RowReleased = "released"
)

// RowDecision is what became of one letter.
type RowDecision struct {
	LetterID int64  `json:"dead_letter_id"`
	Decision string `json:"decision"`
	Reason   string `json:"reason"`
}

// Replay says how letters are merged again.
type Replay struct {
	// Drain names the replay: a letter is decided once in it.
	Drain string
	Actor string
	// Apply writes; without it each letter is tried and undone again.
	Apply bool
	// Overwrite lets a row change one that the table has when the step has no
	// version that says which is newer.
	Overwrite bool
	// MaxReturns is how often a letter may have come back before it is no longer
	// tried; negative for no limit.
	MaxReturns int
	// Told, when set, is called after each decision.
	Told func(RowDecision)

	letters []RowLetter
	out     []RowDecision
}

// Errors that undo a transaction of a replay.
var (
	errSplit = errors.New("not all rows of the group come to the same")
	errTried = errors.New("tried and undone")
	errMoved = errors.New("the letter was decided by somebody else meanwhile")
)

// replayGroup is how many letters are tried in one transaction.
const replayGroup = 200

// Replay merges the rows of letters through the step that they came from, with
// every rule of it. All letters must be of the step; they are decided in their
// order. A group of letters that all succeed is one transaction, another is
// halved until each letter stands alone; a letter's row, its status and its audit
// row commit together.
func (e *Engine) Replay(ctx context.Context, spec *Spec, letters []RowLetter, r *Replay) ([]RowDecision, error) {
	if err := EnsureTables(ctx, e.DB); err != nil {
		return nil, err
	}
	run := *r
	run.out = nil
	s := replaySpec(spec)
	var group []RowLetter
	flush := func() error {
		err := e.replayGroup(ctx, s, group, &run)
		group = nil
		return err
	}
	for i := range letters {
		l := &letters[i]
		if d := run.gate(l); d != nil {
			if err := flush(); err != nil {
				return run.out, err
			}
			if err := e.note(ctx, &run, *d); err != nil {
				return run.out, err
			}
			continue
		}
		if len(group) == replayGroup || (len(group) > 0 && len(s.Columns) == 0 && deref(group[0].SourceFormat) != deref(l.SourceFormat)) {
			if err := flush(); err != nil {
				return run.out, err
			}
		}
		group = append(group, *l)
	}
	return run.out, flush()
}

// replaySpec is the step without what concerns a batch as a whole: the watermark
// and the limits of bad rows, and clauses about rows that the source has not.
func replaySpec(spec *Spec) *Spec {
	s := *spec
	s.Watermark, s.Chunk, s.BadRows, s.keepEqual = nil, 0, BadRows{Max: -1, MaxRatio: -1}, true
	s.Clauses = slices.DeleteFunc(slices.Clone(s.Clauses), func(c Clause) bool { return c.BySource })
	return &s
}

// gate decides a letter that is not to be tried.
func (r *Replay) gate(l *RowLetter) *RowDecision {
	no := func(decision, format string, args ...any) *RowDecision {
		return &RowDecision{LetterID: l.ID, Decision: decision, Reason: fmt.Sprintf(format, args...)}
	}
	edited := l.OriginalRaw != nil
	switch {
	case l.Status != string(dag.LetterQuarantined):
		return no(RowDeferred, "the letter is %s", l.Status)
	case r.MaxReturns >= 0 && l.ReturnCount > r.MaxReturns:
		return no(RowQuarantine, "the row has come back %d times; the limit is %d", l.ReturnCount, r.MaxReturns)
	case layoutOf(l).Cut != 0 && !edited, l.ErrorCode == string(row.LineTooLong) && !edited:
		return no(RowRejected, "the letter has the row's beginning only; edit it to be whole")
	case l.ErrorCode == string(row.UnfinishedRow) && !edited:
		return no(RowRejected, "the file ended inside this row; its whole comes with the file, or edit it")
	}
	return nil
}

// layoutOf is how the letter's source was read; zero when that is not known.
func layoutOf(l *RowLetter) (out source.Layout) {
	if l.SourceFormat != nil {
		_ = json.Unmarshal([]byte(*l.SourceFormat), &out)
	}
	return out
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// replayGroup tries letters together, and in halves where they do not come to
// the same.
func (e *Engine) replayGroup(ctx context.Context, spec *Spec, letters []RowLetter, r *Replay) error {
	if len(letters) == 0 {
		return nil
	}
	decided, err := e.tryGroup(ctx, spec, letters, r)
	var own *dag.TaskError
	var apart *splitError
	if errors.As(err, &apart) {
		return e.replayApart(ctx, spec, letters, apart.bad, r)
	}
	split := errors.Is(err, errSplit) || errors.Is(err, errMoved) || (errors.As(err, &own) && own.Code == codeDuplicates)
	switch {
	case split && len(letters) > 1:
		half := len(letters) / 2
		if err := e.replayGroup(ctx, spec, letters[:half], r); err != nil {
			return err
		}
		return e.replayGroup(ctx, spec, letters[half:], r)
	case split:
		return e.note(ctx, r, RowDecision{LetterID: letters[0].ID, Decision: RowDeferred, Reason: err.Error()})
	case err != nil:
		return err
	}
	for _, d := range decided {
		r.tell(d)
	}
	// A row that waits for --overwrite was tried and undone: what is decided is
	// written in a transaction of its own.
	if r.Apply && len(decided) == 1 && decided[0].Decision == RowDeferred {
		return e.DB.Write(ctx, func(ctx context.Context, tx *sqlx.Tx) error { return r.audit(ctx, tx, e, decided[0], "") })
	}
	return nil
}

// splitError is errSplit with the places of the letters whose rows are bad ones.
type splitError struct{ bad []int64 }

// Error implements error.
func (e *splitError) Error() string { return errSplit.Error() }

// replayApart tries the good letters of a group together, and then the bad ones:
// those that are bad without the others too come to the same.
func (e *Engine) replayApart(ctx context.Context, spec *Spec, letters []RowLetter, bad []int64, r *Replay) error {
	var good, alone []RowLetter
	for i := range letters {
		if slices.Contains(bad, int64(i+1)) {
			alone = append(alone, letters[i])
		} else {
			good = append(good, letters[i])
		}
	}
	if err := e.replayGroup(ctx, spec, good, r); err != nil {
		return err
	}
	return e.replayGroup(ctx, spec, alone, r)
}

func (r *Replay) tell(d RowDecision) {
	r.out = append(r.out, d)
	if r.Told != nil {
		r.Told(d)
	}
}

// tryGroup runs the letters through the engine in one transaction.
func (e *Engine) tryGroup(ctx context.Context, spec *Spec, letters []RowLetter, r *Replay) ([]RowDecision, error) {
	one := *r
	one.letters, one.out = letters, nil
	first, last := letters[0].ID, letters[len(letters)-1].ID
	job := &Job{
		Spec: spec, Source: &letterSource{spec: spec, letters: letters}, replay: &one, Fence: 1,
		Key: fmt.Sprintf("dlq-rows/%s/%d-%d", r.Drain, first, last), Owner: letters[0].TaskInstanceKey,
	}
	d, err := e.Run(ctx, job)
	if err != nil || d.AlreadyDone {
		// What was undone leaves the effect's key behind.
		_, cleanErr := e.DB.Writer().ExecContext(context.WithoutCancel(ctx), "DELETE FROM airlock_effect WHERE idempotency_key = ? AND status = 'open'", EffectKey(job.Key))
		if err == nil && cleanErr == nil {
			// The COMMIT whose answer was lost had happened.
			one.out, cleanErr = e.stored(ctx, r.Drain, letters)
		}
		if errors.Is(err, errTried) {
			err = nil
		}
		return one.out, errors.Join(err, cleanErr)
	}
	return one.out, nil
}

// stored reads the decisions that a drain has taken about letters.
func (e *Engine) stored(ctx context.Context, drain string, letters []RowLetter) ([]RowDecision, error) {
	var out []RowDecision
	for i := range letters {
		d := RowDecision{LetterID: letters[i].ID}
		if err := e.DB.Reader().QueryRowxContext(ctx, "SELECT decision, reason FROM airlock_dead_letter_row_audit WHERE drain_id = ? AND dead_letter_id = ?", drain, d.LetterID).
			Scan(&d.Decision, &d.Reason); err != nil {
			return out, fmt.Errorf("read what was decided about letter %d: %w", d.LetterID, err)
		}
		out = append(out, d)
	}
	return out, nil
}

// note writes a decision that changes nothing but the audit.
func (e *Engine) note(ctx context.Context, r *Replay, d RowDecision) error {
	if r.Apply {
		err := e.DB.Write(ctx, func(ctx context.Context, tx *sqlx.Tx) error { return r.audit(ctx, tx, e, d, "") })
		if err != nil {
			return err
		}
	}
	r.tell(d)
	return nil
}

// audit writes the audit row of a decision; a letter that the drain has decided
// before keeps its first.
func (r *Replay) audit(ctx context.Context, tx *sqlx.Tx, e *Engine, d RowDecision, key string) error {
	var n int
	if err := tx.QueryRowxContext(ctx, "SELECT COUNT(*) FROM airlock_dead_letter_row_audit WHERE drain_id = ? AND dead_letter_id = ?", r.Drain, d.LetterID).Scan(&n); err != nil || n > 0 {
		return err
	}
	return writeAudit(ctx, tx, e.DB, auditRow{drain: r.Drain, letter: d.LetterID, decision: d.Decision, key: key, reason: d.Reason, actor: r.Actor, at: e.Clock.Now()})
}

// settle decides the letters of a replay inside the transaction that merged
// their rows.
func (b *batch) settle(ctx context.Context, tx *sqlx.Tx, d *Detail) error {
	r := b.job.replay
	r.out = nil
	if err := r.hold(ctx, tx, b.e.DB); err != nil {
		return err
	}
	changed := d.RowsUpdated+d.RowsDeleted > 0 && b.p.version == "" && !r.Overwrite
	n := int64(len(r.letters))
	same := !changed && (d.RowsMerged == n || d.RowsUnchanged == n || d.RowsQuarantined == n)
	if n > 1 && !same {
		return b.splitGroup(ctx, tx)
	}
	for i := range r.letters {
		one := RowDecision{LetterID: r.letters[i].ID, Decision: RowReplayed, Reason: "merged into " + b.p.spec.Target}
		status := string(dag.LetterResolved)
		var f *row.Fault
		switch {
		case changed:
			one.Decision, one.Reason = RowDeferred, "the table has a row with this key, and the step has no version that says which is newer; --overwrite takes the letter's"
		case d.RowsUnchanged > 0:
			one.Decision, one.Reason = RowDropDuplicate, "the table has this row, or no clause takes it"
		case d.RowsSuperseded > 0:
			one.Decision, status = RowDropDuplicate, string(dag.LetterDropped)
			if err := b.newer(ctx, tx, &one); err != nil {
				return err
			}
		case d.RowsQuarantined > 0:
			f = &row.Fault{}
			if err := tx.QueryRowxContext(ctx, "SELECT error_code, COALESCE(column_name, ''), error_message FROM "+b.p.bad()+" WHERE seq = ?", i+1).Scan(&f.Code, &f.Column, &f.Message); err != nil {
				return err
			}
			one.Decision, status, one.Reason = RowRejected, string(dag.LetterQuarantined), string(f.Code)+": "+f.Message
		}
		r.out = append(r.out, one)
		if one.Decision == RowDeferred || !r.Apply {
			continue
		}
		if err := b.close(ctx, tx, one, status, f); err != nil {
			return err
		}
	}
	if changed || !r.Apply {
		return errTried
	}
	return nil
}

// splitGroup tells which rows of a group are bad; a group without any is halved.
func (b *batch) splitGroup(ctx context.Context, tx *sqlx.Tx) error {
	var bad []int64
	if err := tx.SelectContext(ctx, &bad, "SELECT seq FROM "+b.p.bad()+" ORDER BY seq"); err != nil {
		return fmt.Errorf("look for the bad rows of a replay: %w", err)
	}
	if len(bad) == 0 {
		return errSplit
	}
	return &splitError{bad}
}

// hold locks the letters and makes sure that they are open still.
func (r *Replay) hold(ctx context.Context, tx *sqlx.Tx, db *dialect.DB) error {
	args := make([]any, len(r.letters))
	for i := range r.letters {
		args[i] = r.letters[i].ID
	}
	var open []int64
	err := tx.SelectContext(ctx, &open, "SELECT id FROM airlock_dead_letter_row WHERE status = '"+string(dag.LetterQuarantined)+"' AND id IN ("+dialect.Marks(len(args))+")"+db.ForUpdate(), args...)
	if err != nil {
		return fmt.Errorf("lock the letters: %w", err)
	}
	if len(open) != len(args) {
		return errMoved
	}
	return nil
}

// newer says which version of the table's row kept a letter's row out.
func (b *batch) newer(ctx context.Context, tx *sqlx.Tx, d *RowDecision) error {
	d.Reason = "the table has a newer row"
	if b.p.version == "" {
		return nil
	}
	var have, got any
	err := tx.QueryRowxContext(ctx, fmt.Sprintf("SELECT %s, %s FROM %s AS %s JOIN %s AS %s ON %s LIMIT 1", targetCol(b.p.targetVersion), stageCol(b.p.version),
		b.p.stage(), stageAlias, b.p.table(), targetAlias, b.p.join())).Scan(&have, &got)
	if err != nil {
		return fmt.Errorf("look at the newer row: %w", err)
	}
	d.Reason = fmt.Sprintf("the table's row has %s %s, the letter's %s", b.p.targetVersion, versionText(have), versionText(got))
	return nil
}

// close writes a decision, the letter's status and the audit row.
func (b *batch) close(ctx context.Context, tx *sqlx.Tx, d RowDecision, status string, f *row.Fault) error {
	now := dialect.Stamp(b.e.Clock.Now())
	var err error
	if f == nil {
		_, err = tx.ExecContext(ctx, "UPDATE airlock_dead_letter_row SET status = ?, updated_at = ? WHERE id = ?", status, now, d.LetterID)
	} else {
		var name any
		if f.Column != "" {
			name = f.Column
		}
		_, err = tx.ExecContext(ctx, "UPDATE airlock_dead_letter_row SET return_count = return_count + 1, error_code = ?, column_name = ?, error_message = ?, updated_at = ? WHERE id = ?",
			string(f.Code), name, messageText(f.Message), now, d.LetterID)
	}
	if err != nil {
		return fmt.Errorf("close the letter %d: %w", d.LetterID, err)
	}
	return b.job.replay.audit(ctx, tx, b.e, d, b.job.Key)
}
