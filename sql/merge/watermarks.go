package merge

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/sql/dialect"
)

// Watermark is a row of airlock_watermark: how far a pipeline has come.
type Watermark struct {
	Pipeline   string    `json:"pipeline"`
	ColumnName string    `json:"column_name"`
	Value      string    `json:"value"`
	TieBreaker *string   `json:"tie_breaker"`
	AdvancedAt time.Time `json:"advanced_at"`
	DagID      string    `json:"dag_id"`
	RunID      string    `json:"run_id"`
}

// ErrNoWatermark says that the target has no watermark of the name.
var ErrNoWatermark = errors.New("there is no such watermark")

// Watermarks lists the watermarks of a target database by name. A database
// without the table has none.
func Watermarks(ctx context.Context, db *dialect.DB) ([]Watermark, error) {
	there, err := tableExists(ctx, db, db.Reader(), "airlock_watermark")
	if err != nil || !there {
		return nil, err
	}
	rows, err := db.Reader().QueryxContext(ctx, "SELECT pipeline, column_name, COALESCE(value, ''), tie_breaker, advanced_at, dag_id, run_id FROM airlock_watermark ORDER BY pipeline")
	if err != nil {
		return nil, fmt.Errorf("list the watermarks: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var out []Watermark
	for rows.Next() {
		var w Watermark
		var at dialect.Time
		if err := rows.Scan(&w.Pipeline, &w.ColumnName, &w.Value, &w.TieBreaker, &at, &w.DagID, &w.RunID); err != nil {
			return nil, err
		}
		w.AdvancedAt = at.Time
		out = append(out, w)
	}
	return out, rows.Err()
}

// WatermarkChange is what a person does to a watermark. Its trace stays in the
// target as a finished effect, so that Check knows that the watermark was moved
// back on purpose.
type WatermarkChange struct {
	// Name is the pipeline's, By who does it, At when.
	Name, By string
	At       time.Time
	// Value is the new value, nil to remove the watermark: the next batch of a
	// query begins at its initial value then. It is read in the form of the
	// present one; a time without a zone is UTC.
	Value *string
	// Tie is the new tie breaker.
	Tie *string
}

// ChangeWatermark moves a watermark, also back, or removes it, and returns what
// it was. It waits for a batch that is just moving it. ErrNoWatermark when there
// is none of the name.
func ChangeWatermark(ctx context.Context, db *dialect.DB, c WatermarkChange) (was Watermark, err error) {
	err = changeWatermark(ctx, db, c.Name, &was, func(tx *sqlx.Tx) error {
		to := c.Value
		if c.Value == nil {
			if _, err := tx.ExecContext(ctx, "DELETE FROM airlock_watermark WHERE pipeline = ?", c.Name); err != nil {
				return fmt.Errorf("remove the watermark %s: %w", c.Name, err)
			}
		} else {
			canonical, err := sameForm(was, *c.Value)
			if err != nil {
				return err
			}
			to = &canonical
			_, err = tx.ExecContext(ctx, "UPDATE airlock_watermark SET value = ?, tie_breaker = ?, advanced_at = ?, dag_id = '', run_id = ? WHERE pipeline = ?",
				canonical, c.Tie, dialect.Stamp(c.At), cut(c.By, 250), c.Name)
			if err != nil {
				return fmt.Errorf("set the watermark %s: %w", c.Name, err)
			}
		}
		return c.trace(ctx, db, tx, was, to)
	})
	return was, err
}

// changed is the result of the effect that a change leaves.
type changed struct {
	Watermark string  `json:"watermark_changed"`
	From      string  `json:"from"`
	To        *string `json:"to"`
	By        string  `json:"by"`
}

const changePrefix = "watermark:"

func (c WatermarkChange) trace(ctx context.Context, db *dialect.DB, tx *sqlx.Tx, was Watermark, to *string) error {
	what := changed{Watermark: c.Name, From: was.Value, To: to, By: c.By}
	print, err := Fingerprint(what)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(what)
	if err != nil {
		return err
	}
	at := dialect.Stamp(c.At)
	_, err = tx.ExecContext(ctx, `INSERT INTO airlock_effect (idempotency_key, fingerprint, fence, status, result, committed_at, expires_at)
		VALUES (?, ?, 0, 'done', ?, ?, ?)`, EffectKey(changePrefix+c.Name+":"+at), print, string(raw), at, dialect.Stamp(c.At.Add(effectTTL)))
	if err != nil {
		return fmt.Errorf("keep a trace of the change: %w", err)
	}
	return nil
}

// changes gives the time of each watermark's last change by a person.
func changes(ctx context.Context, db *dialect.DB) (map[string]time.Time, error) {
	rows, err := db.Reader().QueryxContext(ctx, "SELECT result, committed_at FROM airlock_effect WHERE idempotency_key >= ? AND idempotency_key < ? AND status = 'done'",
		changePrefix, strings.TrimSuffix(changePrefix, ":")+";") // a range of the primary key: ; follows :
	if err != nil {
		return nil, fmt.Errorf("read the changes of watermarks: %w", err)
	}
	defer func() { _ = rows.Close() }()
	out := map[string]time.Time{}
	for rows.Next() {
		var raw []byte
		var at dialect.Time
		var what changed
		if err := rows.Scan(&raw, &at); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(raw, &what); err != nil {
			continue
		}
		if at.Time.After(out[what.Watermark]) {
			out[what.Watermark] = at.Time
		}
	}
	return out, rows.Err()
}

func cut(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "")
	}
	return s
}

func changeWatermark(ctx context.Context, db *dialect.DB, name string, was *Watermark, change func(tx *sqlx.Tx) error) error {
	there, err := tableExists(ctx, db, db.Writer(), "airlock_watermark")
	if err != nil {
		return err
	}
	if !there {
		return ErrNoWatermark
	}
	return db.Write(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		var at dialect.Time
		err := tx.QueryRowxContext(ctx, "SELECT pipeline, column_name, COALESCE(value, ''), tie_breaker, advanced_at, dag_id, run_id FROM airlock_watermark WHERE pipeline = ?"+db.ForUpdate(), name).
			Scan(&was.Pipeline, &was.ColumnName, &was.Value, &was.TieBreaker, &at, &was.DagID, &was.RunID)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNoWatermark
		}
		if err != nil {
			return fmt.Errorf("read the watermark %s: %w", name, err)
		}
		was.AdvancedAt = at.Time
		return change(tx)
	})
}

// sameForm writes a new value in the form of the stored one, which tells the
// kind of the column: an instant, a date, a number or a text.
func sameForm(was Watermark, value string) (string, error) {
	kind := markText
	w := &WatermarkSpec{Name: was.Pipeline}
	for _, k := range []watermarkKind{markTime, markDate, markNumber} {
		if out, err := k.canonical(was.Value, w); err == nil && out == was.Value && was.Value != "" {
			kind = k
			break
		}
	}
	out, err := kind.canonical(value, w)
	if err != nil {
		return "", fmt.Errorf("%q is not of the form of the present value %q", value, was.Value)
	}
	return out, nil
}
