package merge

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/crashpoint"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// Effect is one row of airlock_effect: proof in the target itself that a step's
// work is done, or that an attempt is under way.
type Effect struct {
	DB    *dialect.DB
	Clock dag.Clock
	Key   string
	// Fingerprint is the hash of what the step is to do.
	Fingerprint string
	Owner       dag.TaskInstanceKey
	Fence       int64
	// StillMine, when set, asks the state database whether the attempt holds its
	// task instance at this moment.
	StillMine func(ctx context.Context) error

	// progress is what earlier transactions of the effect have done, as Begin
	// found it.
	progress *progress
}

// MaxEffectKey is the greatest length, in bytes, of a key that is stored as it
// stands.
const MaxEffectKey = 700

// EffectKey is the key as it is stored: one that is longer than the column is
// replaced by its hash.
func EffectKey(key string) string {
	if len(key) <= MaxEffectKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Fingerprint hashes a description of what a step is to do.
func Fingerprint(v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	canonical, err := dag.CanonicalJSON(raw)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}

// Counts are the numbers of an effect.
type Counts struct{ Read, Merged, Unchanged, Quarantined, Superseded int64 }

// openEffect is the result column of an effect that is not done: who works on it.
type openEffect struct {
	Owner    string    `json:"owner"`
	Progress *progress `json:"progress,omitempty"`
}

type effectRow struct {
	Fingerprint string
	Fence       int64
	Status      string
	Result      sql.NullString
}

func (e *Effect) read(ctx context.Context, tx querier) (*effectRow, error) {
	var r effectRow
	err := tx.QueryRowxContext(ctx, "SELECT fingerprint, fence, status, result FROM airlock_effect WHERE idempotency_key = ?"+e.DB.ForUpdate(), EffectKey(e.Key)).
		Scan(&r.Fingerprint, &r.Fence, &r.Status, &r.Result)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the effect %s: %w", e.Key, err)
	}
	return &r, nil
}

// done judges an effect that is finished.
func (e *Effect) done(r *effectRow) (json.RawMessage, error) {
	if r.Fingerprint != e.Fingerprint {
		return nil, e.reused("stands for another effect: the step was changed since")
	}
	return json.RawMessage(r.Result.String), nil
}

func (e *Effect) reused(why string) error {
	return problem(CodeKeyReused, "the idempotency key %q %s", e.Key, why).
		hint("give the step another idempotency_key, or delete the row of airlock_effect when its effect was undone")
}

// Begin registers the attempt. It returns the stored result when the effect is
// done already; done is true then. An attempt with a lower fence than the
// registered one of the same task instance has lost its lease, unless the state
// database says that it has not: then the other was registered in an earlier
// life of that database, before a reset in which fences began anew.
func (e *Effect) Begin(ctx context.Context) (result json.RawMessage, done bool, err error) {
	err = e.DB.Write(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		result, done, e.progress = nil, false, nil
		r, err := e.read(ctx, tx)
		if err != nil {
			return err
		}
		if r != nil && r.Status == "done" {
			done = true
			result, err = e.done(r)
			return err
		}
		now := e.Clock.Now()
		if r == nil {
			owner, err := json.Marshal(openEffect{Owner: e.Owner.String()})
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, "INSERT INTO airlock_effect (idempotency_key, fingerprint, fence, status, result, expires_at) VALUES (?, ?, ?, 'open', ?, ?)",
				EffectKey(e.Key), e.Fingerprint, e.Fence, string(owner), dialect.Stamp(now.Add(effectTTL)))
			return err
		}
		var have openEffect
		if err := json.Unmarshal([]byte(r.Result.String), &have); err == nil && have.Owner == e.Owner.String() && r.Fence > e.Fence {
			// Asked under the lock of the row: who takes over from now on waits for it.
			if e.Fence <= 0 || e.StillMine == nil || e.StillMine(ctx) != nil {
				return e.fenced(r.Fence)
			}
		}
		clear := ""
		if r.Fingerprint == e.Fingerprint {
			e.progress = have.Progress
		} else {
			// Another step than the one that came so far: it begins at nothing.
			clear = ", rows_read = 0, rows_merged = 0, rows_unchanged = 0, rows_quarantined = 0, rows_superseded = 0"
		}
		owner, err := json.Marshal(openEffect{Owner: e.Owner.String(), Progress: e.progress})
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE airlock_effect SET fingerprint = ?, fence = ?, result = ?, expires_at = ?"+clear+" WHERE idempotency_key = ?",
			e.Fingerprint, e.Fence, string(owner), dialect.Stamp(now.Add(effectTTL)), EffectKey(e.Key))
		return err
	})
	if dialect.LostCommit(err) || dialect.ClassOf(err) == dialect.ClassDuplicate {
		// Two attempts registered at once, or nobody knows whether this one did:
		// registering is the same twice.
		return e.Begin(ctx)
	}
	crashpoint.Point("effect: registered")
	if err != nil {
		return nil, false, fmt.Errorf("register the effect: %w", err)
	}
	return result, done, nil
}

func (e *Effect) fenced(newer int64) error {
	return problem(CodeFenced, "attempt %d of this task has taken over from attempt %d: nothing was written", newer, e.Fence)
}

// Hold locks the effect inside the transaction of its work and makes sure that
// it is still this attempt's.
func (e *Effect) Hold(ctx context.Context, tx querier) error {
	r, err := e.read(ctx, tx)
	if err != nil {
		return err
	}
	switch {
	case r == nil:
		return problem(CodeFenced, "the row of the effect %q is gone: nothing was written", e.Key)
	case r.Status == "done":
		return problem(CodeFenced, "another attempt has done this work: nothing was written")
	}
	var have openEffect
	if err := json.Unmarshal([]byte(r.Result.String), &have); err != nil || have.Owner != e.Owner.String() || have.Owner == "" {
		return problem(CodeFenced, "the task %s has taken this effect over: nothing was written", have.Owner)
	}
	if r.Fence != e.Fence {
		return e.fenced(r.Fence)
	}
	return nil
}

// Finish marks the effect as done, in the transaction of its work.
func (e *Effect) Finish(ctx context.Context, tx sqlx.ExecerContext, c Counts, result json.RawMessage) error {
	now := e.Clock.Now()
	_, err := tx.ExecContext(ctx, `UPDATE airlock_effect SET status = 'done', rows_read = ?, rows_merged = ?, rows_unchanged = ?, rows_quarantined = ?,
		rows_superseded = ?, result = ?, committed_at = ?, expires_at = ? WHERE idempotency_key = ?`,
		c.Read, c.Merged, c.Unchanged, c.Quarantined, c.Superseded, string(result), dialect.Stamp(now), dialect.Stamp(now.Add(effectTTL)), EffectKey(e.Key))
	if err != nil {
		return fmt.Errorf("mark the effect as done: %w", err)
	}
	return nil
}

// Applied looks whether a COMMIT whose answer was lost has happened: the locking
// read waits for a transaction that the server has not finished yet.
func (e *Effect) Applied(ctx context.Context) (applied bool, err error) {
	err = e.DB.Write(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		r, err := e.read(ctx, tx)
		applied = r != nil && r.Status == "done" && r.Fence == e.Fence && r.Fingerprint == e.Fingerprint
		return err
	})
	if dialect.LostCommit(err) {
		err = nil // the transaction only read
	}
	return applied, err
}

// waitBetween is the pause before a batch is begun anew.
func waitBetween(try int, random float64) time.Duration {
	base := 100 * time.Millisecond << min(try, 5)
	return base/2 + time.Duration(random*float64(base/2))
}
