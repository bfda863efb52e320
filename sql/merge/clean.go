package merge

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/sql/dialect"
)

// cleanChunk is how many effect keys one transaction deletes.
const cleanChunk = 500

// OldEffect is a row of airlock_effect whose own time is over.
type OldEffect struct {
	Key string `db:"idempotency_key"`
	// CommittedAt is when its work was committed, zero for one that is not done.
	CommittedAt dialect.Time `db:"committed_at"`
}

// StayingKeys tells which of some old effects must not be deleted, by their keys.
type StayingKeys func(ctx context.Context, old []OldEffect) (map[string]bool, error)

// CleanEffects deletes the effect keys of a target whose own time is over and
// that were committed before the given instant, in small transactions. Keys
// that stays knows remain: somebody may still replay what they belong to. It is
// asked about some at a time, as they are stored (see EffectKey). It counts what
// is gone, or with dryRun would be.
func CleanEffects(ctx context.Context, db *dialect.DB, now, before time.Time, stays StayingKeys, dryRun bool) (int, error) {
	there, err := tableExists(ctx, db, db.Reader(), "airlock_effect")
	if err != nil || !there {
		return 0, err
	}
	deleted, after := 0, ""
	for {
		var old []OldEffect
		err := db.Reader().SelectContext(ctx, &old, fmt.Sprintf(`SELECT idempotency_key, committed_at FROM airlock_effect
 WHERE idempotency_key > ? AND expires_at < ? AND (committed_at IS NULL OR committed_at < ?) ORDER BY idempotency_key LIMIT %d`, cleanChunk),
			after, dialect.Stamp(now), dialect.Stamp(before))
		if err != nil {
			return deleted, fmt.Errorf("list old effects: %w", err)
		}
		if len(old) == 0 {
			return deleted, nil
		}
		after = old[len(old)-1].Key
		open, err := stays(ctx, old)
		if err != nil {
			return deleted, err
		}
		var gone []any
		for _, e := range old {
			if !open[e.Key] {
				gone = append(gone, e.Key)
			}
		}
		if len(gone) > 0 && !dryRun {
			err = db.Write(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
				// The time is asked again: an effect that was taken up since has a new one.
				_, err := tx.ExecContext(ctx, "DELETE FROM airlock_effect WHERE expires_at < ? AND idempotency_key IN ("+dialect.Marks(len(gone))+")",
					append([]any{dialect.Stamp(now)}, gone...)...)
				return err
			})
			if err != nil {
				return deleted, fmt.Errorf("delete old effects: %w", err)
			}
		}
		deleted += len(gone)
	}
}
