package merge

import (
	"context"
	"fmt"
	"slices"

	"github.com/airlock-dag/airlock/sql/dialect"
)

// DoneEffects tells which of some idempotency keys are done by a target's own
// ledger. A target without one has done nothing.
func DoneEffects(ctx context.Context, db *dialect.DB, keys []string) (map[string]bool, error) {
	out := map[string]bool{}
	there, err := tableExists(ctx, db, db.Reader(), "airlock_effect")
	if err != nil || !there {
		return out, err
	}
	for part := range slices.Chunk(keys, 500) {
		stored := make(map[string]string, len(part))
		args := make([]any, len(part))
		for i, k := range part {
			args[i] = EffectKey(k)
			stored[EffectKey(k)] = k
		}
		var done []string
		if err := db.Reader().SelectContext(ctx, &done, "SELECT idempotency_key FROM airlock_effect WHERE status = 'done' AND idempotency_key IN ("+
			dialect.Marks(len(part))+")", args...); err != nil {
			return nil, fmt.Errorf("read the effects: %w", err)
		}
		for _, k := range done {
			out[stored[k]] = true
		}
	}
	return out, nil
}
