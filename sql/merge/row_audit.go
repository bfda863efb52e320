package merge

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge/source"
)

// RowAudit is a row of airlock_dead_letter_row_audit: one decision about a row
// letter.
type RowAudit struct {
	ID             int64     `json:"id" db:"id"`
	DrainID        *string   `json:"drain_id" db:"drain_id"`
	LetterID       int64     `json:"dead_letter_id" db:"dead_letter_id"`
	Decision       string    `json:"decision" db:"decision"`
	IdempotencyKey *string   `json:"idempotency_key" db:"idempotency_key"`
	Reason         string    `json:"reason" db:"reason"`
	Actor          string    `json:"actor" db:"actor"`
	DecidedAt      time.Time `json:"decided_at" db:"-"`
}

type auditRow struct {
	drain    string // "" for a decision by hand
	letter   int64
	decision string
	key      string
	reason   string
	actor    string
	at       time.Time
}

func writeAudit(ctx context.Context, tx sqlx.ExecerContext, db *dialect.DB, a auditRow) error {
	null := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO airlock_dead_letter_row_audit (drain_id, dead_letter_id, decision, idempotency_key, reason, actor, decided_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
		null(a.drain), a.letter, a.decision, null(a.key), messageText(a.reason), a.actor, dialect.Stamp(a.at))
	if err != nil {
		return fmt.Errorf("write the audit of letter %d in %s: %w", a.letter, db, err)
	}
	return nil
}

// RowAudits lists the decisions about a letter, in their order.
func RowAudits(ctx context.Context, db *dialect.DB, letter int64) ([]RowAudit, error) {
	there, err := tableExists(ctx, db, db.Reader(), "airlock_dead_letter_row_audit")
	if err != nil || !there {
		return nil, err
	}
	var rows []struct {
		RowAudit
		Decided dialect.Time `db:"decided_at"`
	}
	if err := db.Reader().SelectContext(ctx, &rows, `SELECT id, drain_id, dead_letter_id, decision, idempotency_key, reason, actor, decided_at
		FROM airlock_dead_letter_row_audit WHERE dead_letter_id = ? ORDER BY id`, letter); err != nil {
		return nil, fmt.Errorf("read the audit of letter %d: %w", letter, err)
	}
	out := make([]RowAudit, len(rows))
	for i, r := range rows {
		out[i] = r.RowAudit
		out[i].DecidedAt = r.Decided.Time
	}
	return out, nil
}

// RowHand is a decision about a letter that a person takes.
type RowHand struct {
	Actor, Reason string
	At            time.Time
}

// change runs one decision by hand about a letter, in one transaction with its
// audit row. from are the statuses that it may have; the error says when it has
// another, or there is no such letter.
func change(ctx context.Context, db *dialect.DB, id int64, h RowHand, decision, reason string, from []dag.LetterStatus, set string, args ...any) error {
	if err := EnsureTables(ctx, db); err != nil {
		return err
	}
	return db.Write(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		var status string
		err := tx.QueryRowxContext(ctx, "SELECT status FROM airlock_dead_letter_row WHERE id = ?"+db.ForUpdate(), id).Scan(&status)
		if err != nil {
			return noRow(id, err)
		}
		ok := false
		for _, s := range from {
			ok = ok || status == string(s)
		}
		if !ok {
			return &dag.Error{Code: dag.ErrConflict, Op: fmt.Sprintf("change row letter %d", id), Err: fmt.Errorf("it is %s", status),
				Hint: "`airlock dlq rows show` tells what became of it"}
		}
		args := append(append([]any(nil), args...), dialect.Stamp(h.At), id)
		if _, err := tx.ExecContext(ctx, "UPDATE airlock_dead_letter_row SET "+set+", updated_at = ? WHERE id = ?", args...); err != nil {
			return fmt.Errorf("change row letter %d: %w", id, err)
		}
		return writeAudit(ctx, tx, db, auditRow{letter: id, decision: decision, reason: reason, actor: h.Actor, at: h.At})
	})
}

// EditRow replaces the row of an open letter; the row as it was read stays in
// original_raw, byte for byte. The count of returns begins anew, since the row is
// another one.
func EditRow(ctx context.Context, db *dialect.DB, id int64, raw []byte, h RowHand) error {
	sum := sha256.Sum256(raw)
	reason := "sha256 of the row is now " + hex.EncodeToString(sum[:])
	if h.Reason != "" {
		reason = h.Reason + "; " + reason
	}
	return change(ctx, db, id, h, RowEdited, reason, []dag.LetterStatus{dag.LetterQuarantined},
		"original_raw = COALESCE(original_raw, raw), raw = ?, return_count = 0", raw)
}

// WithFields gives the row of a letter with other values in some of its fields.
func (l *RowLetter) WithFields(ctx context.Context, set map[string]string) ([]byte, error) {
	raw, err := source.SetFields(ctx, layoutOf(l), l.Raw, set)
	if err != nil {
		return nil, &dag.Error{Code: dag.ErrInvalid, Op: fmt.Sprintf("edit row letter %d", l.ID), Err: err, Hint: "give the whole row with --raw or --file"}
	}
	return []byte(raw), nil
}

// Header is the header line of the letter's file, without a line end; empty for
// rows of another kind, and where it is not known.
func (l *RowLetter) Header() string { return source.HeaderLine(layoutOf(l)) }

// Text is the row as a text, whatever its file's encoding.
func (l *RowLetter) Text() string {
	layout := layoutOf(l)
	return layout.Decode(l.Raw)
}

// Encode gives a text as the bytes that the row's file writes for it.
func (l *RowLetter) Encode(text string) ([]byte, error) {
	layout := layoutOf(l)
	raw, err := layout.Encode(text)
	if err != nil {
		return nil, &dag.Error{Code: dag.ErrInvalid, Op: fmt.Sprintf("edit row letter %d", l.ID), Err: err, Hint: "give the bytes with --file"}
	}
	return []byte(raw), nil
}

// ResolveRow closes an open letter whose row was put right otherwise, DropRow one
// whose row is given up; ReleaseRow opens such a letter again.
func ResolveRow(ctx context.Context, db *dialect.DB, id int64, h RowHand) error {
	return change(ctx, db, id, h, RowResolved, h.Reason, []dag.LetterStatus{dag.LetterQuarantined}, "status = ?", string(dag.LetterResolved))
}

// DropRow gives the row of an open letter up.
func DropRow(ctx context.Context, db *dialect.DB, id int64, h RowHand) error {
	return change(ctx, db, id, h, RowDropped, h.Reason, []dag.LetterStatus{dag.LetterQuarantined}, "status = ?", string(dag.LetterDropped))
}

// ReleaseRow opens a letter again that was closed, and lets it come back as often
// as a new one.
func ReleaseRow(ctx context.Context, db *dialect.DB, id int64, h RowHand) error {
	return change(ctx, db, id, h, RowReleased, h.Reason, []dag.LetterStatus{dag.LetterQuarantined, dag.LetterResolved, dag.LetterDropped},
		"return_count = 0, status = ?", string(dag.LetterQuarantined))
}

func noRow(id int64, err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return &dag.Error{Code: dag.ErrNotFound, Op: fmt.Sprintf("row letter %d", id), Err: errors.New("there is none with this id"),
			Hint: "`airlock dlq rows list` shows their ids"}
	}
	return err
}
