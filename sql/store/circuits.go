package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// circuitBuckets is how many pieces a window is counted in: what is older than
// the window leaves it piece by piece.
const circuitBuckets = 10

const circuitColumns = `name, state, version, openings, by_hand, opened_at, retry_at, probes, probe_until, successes, reason, policy, changed_at`

type circuitRow struct {
	Name       string       `db:"name"`
	State      string       `db:"state"`
	Version    int64        `db:"version"`
	Openings   int          `db:"openings"`
	ByHand     bool         `db:"by_hand"`
	OpenedAt   dialect.Time `db:"opened_at"`
	RetryAt    dialect.Time `db:"retry_at"`
	Probes     int          `db:"probes"`
	ProbeUntil dialect.Time `db:"probe_until"`
	Successes  int          `db:"successes"`
	Reason     string       `db:"reason"`
	Policy     string       `db:"policy"`
	ChangedAt  dialect.Time `db:"changed_at"`
}

func (r circuitRow) model() (dag.Circuit, error) {
	c := dag.Circuit{
		Name: r.Name, State: dag.CircuitState(r.State), Version: r.Version, Openings: r.Openings, ByHand: r.ByHand, OpenedAt: r.OpenedAt.Ptr(),
		RetryAt: r.RetryAt.Ptr(), Probes: r.Probes, ProbeUntil: r.ProbeUntil.Ptr(), Successes: r.Successes, Reason: r.Reason, ChangedAt: r.ChangedAt.Time,
	}
	if err := json.Unmarshal([]byte(r.Policy), &c.Policy); err != nil {
		return c, fmt.Errorf("circuit %s: its stored policy: %w", r.Name, err)
	}
	return c, nil
}

// errCircuitMoved says that the row changed between the look and the write.
var errCircuitMoved = errors.New("the circuit breaker was changed by another process at the same moment")

// UpdateCircuit counts calls and makes one step of a breaker, in one
// transaction: either all of it happened (the counts, the new state, its
// events, its audit entry) or nothing. Steps of one breaker follow each other,
// whichever processes ask. It returns the breaker before and after the step.
func (s *Store) UpdateCircuit(ctx context.Context, u dag.CircuitUpdate) (before, after dag.Circuit, err error) {
	if u.Name == "" || len([]rune(u.Name)) > 250 {
		return before, after, &dag.Error{Code: dag.ErrInvalid, Op: "update a circuit", Err: fmt.Errorf("%q is no name", dag.CutText(u.Name, 80)),
			Hint: "a circuit's name has 1 to 250 characters"}
	}
	err = s.write(ctx, "update circuit "+u.Name, func(ctx context.Context, t *tx) error {
		var err error
		if before, err = t.circuit(ctx, u.Name); err != nil {
			return err
		}
		w, err := t.countCalls(ctx, u)
		if err != nil {
			return err
		}
		next, events := u.Decide(before, w, t.now)
		if after, err = t.writeCircuit(ctx, before, next); err != nil {
			return err
		}
		if u.Audit != nil {
			if err := t.audit(ctx, *u.Audit); err != nil {
				return err
			}
		}
		return t.insertEvents(ctx, events)
	})
	return before, after, err
}

// circuit locks a breaker's row, which it makes when there is none.
func (t *tx) circuit(ctx context.Context, name string) (dag.Circuit, error) {
	var r circuitRow
	query := "SELECT " + circuitColumns + " FROM circuit_breaker WHERE name = ?" + t.s.db.ForUpdate()
	err := t.GetContext(ctx, &r, query, name)
	if errors.Is(err, sql.ErrNoRows) {
		if _, err = t.exec(ctx, `INSERT INTO circuit_breaker (name, state, version, openings, by_hand, probes, successes, reason, policy, changed_at,
 updated_at) VALUES (?, 'closed', 0, 0, 0, 0, 0, '', '{}', ?, ?)`+t.s.db.Upsert([]string{"name"}, nil), name, t.at, t.at); err != nil {
			return dag.Circuit{}, err
		}
		err = t.GetContext(ctx, &r, query, name)
	}
	if err != nil {
		return dag.Circuit{}, err
	}
	return r.model()
}

// countCalls adds calls to the window and reads it. What no window can reach
// any more is removed.
func (t *tx) countCalls(ctx context.Context, u dag.CircuitUpdate) (dag.CircuitWindow, error) {
	var w dag.CircuitWindow
	width := max(u.Window/circuitBuckets, time.Millisecond)
	if u.Calls > 0 {
		if _, err := t.exec(ctx, "INSERT INTO circuit_window (name, bucket, calls, failures) VALUES (?, ?, ?, ?)"+t.addCounts(),
			u.Name, dialect.Stamp(t.now.Truncate(width)), u.Calls, u.Failures, u.Calls, u.Failures); err != nil {
			return w, err
		}
		if _, err := t.exec(ctx, "DELETE FROM circuit_window WHERE name = ? AND bucket < ?", u.Name, dialect.Stamp(t.now.Add(-2*u.Window))); err != nil {
			return w, err
		}
	}
	return t.s.window(ctx, t, u.Name, u.Window, t.now)
}

// addCounts is the end of an INSERT that adds to what is there.
func (t *tx) addCounts() string {
	if t.s.db.IsSQLite() {
		return " ON CONFLICT (name, bucket) DO UPDATE SET calls = calls + ?, failures = failures + ?"
	}
	return " ON DUPLICATE KEY UPDATE calls = calls + ?, failures = failures + ?"
}

// getter is a database or a transaction.
type getter interface {
	GetContext(ctx context.Context, dest any, query string, args ...any) error
}

// window sums up the pieces that begin within the window.
func (s *Store) window(ctx context.Context, q getter, name string, length time.Duration, now time.Time) (dag.CircuitWindow, error) {
	var sums struct {
		Calls    int `db:"calls"`
		Failures int `db:"failures"`
	}
	err := q.GetContext(ctx, &sums, `SELECT COALESCE(SUM(calls), 0) AS calls, COALESCE(SUM(failures), 0) AS failures FROM circuit_window
 WHERE name = ? AND bucket > ?`, name, dialect.Stamp(now.Add(-length)))
	return dag.CircuitWindow{Calls: sums.Calls, Failures: sums.Failures}, err
}

// writeCircuit stores the next value of a breaker over the version that it was
// decided from. A breaker that closes begins with an empty window.
func (t *tx) writeCircuit(ctx context.Context, before, next dag.Circuit) (dag.Circuit, error) {
	policy, err := json.Marshal(next.Policy)
	if err != nil {
		return next, err
	}
	old, err := json.Marshal(before.Policy)
	if err != nil {
		return next, err
	}
	next.Name, next.Version, next.ChangedAt = before.Name, before.Version+1, t.now
	if next.State == before.State {
		next.ChangedAt = before.ChangedAt
	}
	if sameCircuit(before, next) && string(old) == string(policy) {
		next.Version = before.Version
		return next, nil
	}
	n, err := t.exec(ctx, `UPDATE circuit_breaker SET state = ?, version = ?, openings = ?, by_hand = ?, opened_at = ?, retry_at = ?, probes = ?,
 probe_until = ?, successes = ?, reason = ?, policy = ?, changed_at = ?, updated_at = ? WHERE name = ? AND version = ?`,
		string(next.State), next.Version, next.Openings, boolInt(next.ByHand), dialect.StampPtr(next.OpenedAt), dialect.StampPtr(next.RetryAt),
		next.Probes, dialect.StampPtr(next.ProbeUntil), next.Successes, dag.CutText(next.Reason, dag.MaxErrorMessage), string(policy),
		dialect.Stamp(next.ChangedAt), t.at, before.Name, before.Version)
	if err != nil {
		return next, err
	}
	if n != 1 {
		return next, errCircuitMoved
	}
	if next.State == dag.CircuitClosed && before.State != dag.CircuitClosed {
		_, err = t.exec(ctx, "DELETE FROM circuit_window WHERE name = ?", before.Name)
	}
	return next, err
}

// sameCircuit tells whether a step changed nothing but perhaps the policy.
func sameCircuit(a, b dag.Circuit) bool {
	return a.State == b.State && a.Openings == b.Openings && a.ByHand == b.ByHand && sameInstant(a.OpenedAt, b.OpenedAt) &&
		sameInstant(a.RetryAt, b.RetryAt) && a.Probes == b.Probes && sameInstant(a.ProbeUntil, b.ProbeUntil) &&
		a.Successes == b.Successes && a.Reason == b.Reason
}

func sameInstant(a, b *time.Time) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Equal(*b)
}

// Circuits lists the breakers, sorted by name, with their windows when they are
// asked for.
func (s *Store) Circuits(ctx context.Context, windows bool) ([]dag.Circuit, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	var rows []circuitRow
	if err := s.db.Reader().SelectContext(ctx, &rows, "SELECT "+circuitColumns+" FROM circuit_breaker ORDER BY name"); err != nil {
		return nil, fmt.Errorf("list circuits: %w", err)
	}
	out := make([]dag.Circuit, len(rows))
	for i, r := range rows {
		if out[i], err = r.model(); err != nil {
			return nil, err
		}
		if !windows {
			continue
		}
		if out[i].Window, err = s.window(ctx, s.db.Reader(), r.Name, out[i].Policy.Window, now); err != nil {
			return nil, fmt.Errorf("list circuits: %w", err)
		}
	}
	return out, nil
}

// CircuitOpen tells whether a breaker lets nothing through at this moment, and
// until when (nil when a person holds it, or it is not open). One that is due
// for a probe, or that nobody has used, is not open.
func (s *Store) CircuitOpen(ctx context.Context, name string) (open bool, until *time.Time, err error) {
	now, err := s.Now(ctx)
	if err != nil {
		return false, nil, err
	}
	var rows []circuitRow
	if err := s.db.Reader().SelectContext(ctx, &rows, "SELECT "+circuitColumns+" FROM circuit_breaker WHERE name = ? AND state = 'open'", name); err != nil {
		return false, nil, fmt.Errorf("look at circuit %s: %w", name, err)
	}
	if len(rows) == 0 {
		return false, nil, nil
	}
	retry := rows[0].RetryAt
	if retry.Valid && !retry.Time.After(now) {
		return false, nil, nil
	}
	return true, retry.Ptr(), nil
}
