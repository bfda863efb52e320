package merge

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// RowExpired is the decision about an open letter whose time is over.
const RowExpired = "expired"

// expireChunk is how many letters one transaction closes.
const expireChunk = 500

// ExpireRows closes the open letters whose time is over at h.At, each with its
// audit row, in small transactions, and counts them. The rows stay in the table.
func ExpireRows(ctx context.Context, db *dialect.DB, h RowHand) (expired int, err error) {
	if err := EnsureTables(ctx, db); err != nil {
		return 0, err
	}
	last := int64(0) // what lies before it is decided: each letter is looked at once
	for {
		var found []int64
		err := db.Write(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
			found = nil
			if err := tx.SelectContext(ctx, &found, fmt.Sprintf("SELECT id FROM airlock_dead_letter_row WHERE id > ? AND status = '%s' AND expires_at < ? ORDER BY id LIMIT %d",
				dag.LetterQuarantined, expireChunk)+db.ForUpdate(), last, dialect.Stamp(h.At)); err != nil {
				return err
			}
			if len(found) == 0 {
				return nil
			}
			audit, ids := make([]any, 0, 5*len(found)), []any{dialect.Stamp(h.At)}
			for _, id := range found {
				audit = append(audit, id, RowExpired, messageText(h.Reason), h.Actor, dialect.Stamp(h.At))
				ids = append(ids, id)
			}
			if _, err := tx.ExecContext(ctx, "INSERT INTO airlock_dead_letter_row_audit (dead_letter_id, decision, reason, actor, decided_at) VALUES "+dialect.Rows(len(found), 5), audit...); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "UPDATE airlock_dead_letter_row SET status = '"+string(dag.LetterExpired)+"', updated_at = ? WHERE id IN ("+dialect.Marks(len(found))+")", ids...)
			return err
		})
		if err != nil {
			return expired, fmt.Errorf("expire row letters: %w", err)
		}
		expired += len(found)
		if len(found) < expireChunk {
			return expired, nil
		}
		last = found[len(found)-1]
	}
}

// ExpiringRows counts the open letters whose time is over before an instant.
func ExpiringRows(ctx context.Context, db *dialect.DB, before time.Time) (int, error) {
	return CountRowLetters(ctx, db, RowLetterFilter{Status: string(dag.LetterQuarantined), expiresBefore: &before})
}
