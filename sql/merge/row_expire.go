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
	for {
		n := 0
		err := db.Write(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
			var ids []any
			var found []int64
			if err := tx.SelectContext(ctx, &found, fmt.Sprintf("SELECT id FROM airlock_dead_letter_row WHERE status = '%s' AND expires_at < ? ORDER BY id LIMIT %d",
				dag.LetterQuarantined, expireChunk)+db.ForUpdate(), dialect.Stamp(h.At)); err != nil {
				return err
			}
			if n = len(found); n == 0 {
				return nil
			}
			for _, id := range found {
				ids = append(ids, id)
				if err := writeAudit(ctx, tx, db, auditRow{letter: id, decision: RowExpired, reason: h.Reason, actor: h.Actor, at: h.At}); err != nil {
					return err
				}
			}
			_, err := tx.ExecContext(ctx, "UPDATE airlock_dead_letter_row SET status = '"+string(dag.LetterExpired)+"', updated_at = ? WHERE id IN ("+dialect.Marks(n)+")",
				append([]any{dialect.Stamp(h.At)}, ids...)...)
			return err
		})
		if err != nil {
			return expired, fmt.Errorf("expire row letters: %w", err)
		}
		expired += n
		if n < expireChunk {
			return expired, nil
		}
	}
}

// ExpiringRows counts the open letters whose time is over before an instant.
func ExpiringRows(ctx context.Context, db *dialect.DB, before time.Time) (int, error) {
	return CountRowLetters(ctx, db, RowLetterFilter{Status: string(dag.LetterQuarantined), expiresBefore: &before})
}
