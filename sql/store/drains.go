package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// drainColumns are the columns of drainRow.
const drainColumns = `id, state, reason, filter, where_expr, rate, burst, max_in_flight, max_letters, canary, canary_passed, max_returns, pause_share,
 max_id, cursor_id, gpu_cursor_id, total, replayed, drop_duplicate, quarantine, deferred, rejected, next_at,
 (SELECT rest_until FROM replay_drain_rest WHERE drain_id = replay_drain.id) AS slow_until, actor, created_at, updated_at, ended_at`

type drainRow struct {
	ID            string       `db:"id"`
	State         string       `db:"state"`
	Reason        string       `db:"reason"`
	Filter        string       `db:"filter"`
	Where         string       `db:"where_expr"`
	Rate          float64      `db:"rate"`
	Burst         int          `db:"burst"`
	MaxInFlight   int          `db:"max_in_flight"`
	Limit         int          `db:"max_letters"`
	Canary        int          `db:"canary"`
	CanaryPassed  bool         `db:"canary_passed"`
	MaxReturns    int          `db:"max_returns"`
	PauseShare    float64      `db:"pause_share"`
	MaxID         int64        `db:"max_id"`
	Cursor        int64        `db:"cursor_id"`
	GPUCursor     int64        `db:"gpu_cursor_id"`
	Total         int          `db:"total"`
	Replayed      int          `db:"replayed"`
	DropDuplicate int          `db:"drop_duplicate"`
	Quarantine    int          `db:"quarantine"`
	Deferred      int          `db:"deferred"`
	Rejected      int          `db:"rejected"`
	NextAt        dialect.Time `db:"next_at"`
	SlowUntil     dialect.Time `db:"slow_until"`
	Actor         string       `db:"actor"`
	CreatedAt     dialect.Time `db:"created_at"`
	UpdatedAt     dialect.Time `db:"updated_at"`
	EndedAt       dialect.Time `db:"ended_at"`
}

func (r drainRow) model() (dag.Drain, error) {
	d := dag.Drain{
		ID: r.ID, State: dag.DrainState(r.State), Reason: r.Reason, Where: r.Where, Rate: r.Rate, Burst: r.Burst, MaxInFlight: r.MaxInFlight,
		Limit: r.Limit, Canary: r.Canary, CanaryPassed: r.CanaryPassed, MaxReturns: r.MaxReturns, PauseShare: r.PauseShare,
		MaxID: r.MaxID, Cursor: r.Cursor, GPUCursor: r.GPUCursor, Total: r.Total,
		DrainCounts: dag.DrainCounts{
			Replayed: r.Replayed, DropDuplicate: r.DropDuplicate, Quarantine: r.Quarantine, Deferred: r.Deferred, Rejected: r.Rejected,
		},
		NextAt: r.NextAt.Ptr(), SlowUntil: r.SlowUntil.Ptr(), Actor: r.Actor,
		CreatedAt: r.CreatedAt.Time, UpdatedAt: r.UpdatedAt.Time, EndedAt: r.EndedAt.Ptr(),
	}
	if err := json.Unmarshal([]byte(r.Filter), &d.Filter); err != nil {
		return d, fmt.Errorf("the filter of drain %s cannot be read: %w", r.ID, err)
	}
	return d, nil
}

// drainFilter is the filter with what a drain adds to it: without ids only
// sealed letters are candidates.
func drainFilter(f dag.LetterFilter) dag.LetterFilter {
	if len(f.IDs) == 0 {
		f.Status = dag.LetterSealed
	}
	return f
}

// NewDrain keeps a drain, running, and fills in its bounds: the newest letter
// that is there now, and how many the filter finds. Its ID and settings are the
// caller's. Letters that are sealed later are not the drain's.
func (s *Store) NewDrain(ctx context.Context, d dag.Drain) (dag.Drain, error) {
	err := s.write(ctx, "make drain "+d.ID, func(ctx context.Context, t *tx) error {
		filter, err := json.Marshal(d.Filter)
		if err != nil {
			return err
		}
		if d.MaxID, d.Total, err = s.drainBounds(ctx, t, d.Filter); err != nil {
			return err
		}
		d.State, d.Cursor, d.GPUCursor, d.DrainCounts, d.CreatedAt, d.UpdatedAt = dag.DrainRunning, 0, 0, dag.DrainCounts{}, t.now, t.now
		_, err = t.exec(ctx, `INSERT INTO replay_drain (id, state, reason, filter, where_expr, rate, burst, max_in_flight, max_letters, canary, canary_passed,
 max_returns, pause_share, max_id, cursor_id, gpu_cursor_id, total, replayed, drop_duplicate, quarantine, deferred, rejected, actor, created_at, updated_at)
 VALUES (`+dialect.Marks(14)+", 0, 0, ?, 0, 0, 0, 0, 0, ?, ?, ?)",
			short(d.ID, 64), string(d.State), "", string(filter), clean(d.Where), d.Rate, max(1, d.Burst), d.MaxInFlight, d.Limit, d.Canary,
			boolInt(d.CanaryPassed), d.MaxReturns, d.PauseShare, d.MaxID, d.Total, short(d.Actor, 250), t.at, t.at)
		return err
	})
	return d, err
}

func (s *Store) drainBounds(ctx context.Context, q queryer, f dag.LetterFilter) (maxID int64, total int, err error) {
	c := letterCondition(drainFilter(f))
	var row struct {
		MaxID int64 `db:"max_id"`
		N     int   `db:"n"`
	}
	err = q.GetContext(ctx, &row, "SELECT COALESCE(MAX(id), 0) AS max_id, COUNT(*) AS n FROM dead_letter"+c.where(), c.args...)
	return row.MaxID, row.N, err
}

// DrainBounds tells what NewDrain would fill in, for a dry run.
func (s *Store) DrainBounds(ctx context.Context, f dag.LetterFilter) (maxID int64, total int, err error) {
	maxID, total, err = s.drainBounds(ctx, s.db.Reader(), f)
	return maxID, total, s.explain("count dead letters", err)
}

// Drain finds one drain.
func (s *Store) Drain(ctx context.Context, id string) (dag.Drain, error) {
	return s.findDrain(ctx, s.db.Reader(), id, "")
}

func (s *Store) findDrain(ctx context.Context, q queryer, id, lock string) (dag.Drain, error) {
	var rows []drainRow
	if err := q.SelectContext(ctx, &rows, "SELECT "+drainColumns+" FROM replay_drain WHERE id = ?"+lock, id); err != nil {
		return dag.Drain{}, fmt.Errorf("drain %s: %w", id, err)
	}
	if len(rows) == 0 {
		return dag.Drain{}, &dag.Error{
			Code: dag.ErrNotFound, Op: "drain " + id, Hint: "airlock dlq drains shows those that there are", Err: errors.New("there is none"),
		}
	}
	return rows[0].model()
}

// Drains lists drains, newest first; n is the greatest number, 0 for 100.
func (s *Store) Drains(ctx context.Context, n int) ([]dag.Drain, error) {
	var rows []drainRow
	if err := s.db.Reader().SelectContext(ctx, &rows, "SELECT "+drainColumns+" FROM replay_drain ORDER BY created_at DESC, id DESC"+limit(n, 100)); err != nil {
		return nil, fmt.Errorf("list drains: %w", err)
	}
	out := make([]dag.Drain, len(rows))
	for i, r := range rows {
		d, err := r.model()
		if err != nil {
			return nil, err
		}
		out[i] = d
	}
	return out, nil
}

// SetDrainState moves a drain that is not done to another state, with a reason,
// and tells how it stands then. A drain that is done stays so. One that paused
// by itself for what came back and is made running again has no canary and pauses
// no more for that.
func (s *Store) SetDrainState(ctx context.Context, id string, to dag.DrainState, reason string) (dag.Drain, error) {
	var d dag.Drain
	err := s.write(ctx, "drain "+id, func(ctx context.Context, t *tx) error {
		var err error
		if d, err = s.findDrain(ctx, t, id, s.db.ForUpdate()); err != nil || d.State == dag.DrainDone {
			return err
		}
		if d.State == dag.DrainPaused && to == dag.DrainRunning && !strings.HasPrefix(d.Reason, dag.PausedByCircuit) {
			d.CanaryPassed, d.PauseShare = true, 1
		}
		d.State, d.Reason = to, reason
		if to == dag.DrainDone {
			d.EndedAt = &t.now
		}
		_, err = t.exec(ctx, `UPDATE replay_drain SET state = ?, reason = ?, canary_passed = ?, pause_share = ?, ended_at = ?, updated_at = ?
 WHERE id = ?`, string(to), clean(reason), boolInt(d.CanaryPassed), d.PauseShare, dialect.StampPtr(d.EndedAt), t.at, id)
		return err
	})
	return d, err
}

// DrainOutcome tells what became of the letters that a drain replayed, of its
// own replays: what a later drain makes of a letter that came back is that
// drain's.
func (s *Store) DrainOutcome(ctx context.Context, id string) (dag.DrainOutcome, error) {
	out, err := drainOutcome(ctx, s.db.Reader(), id)
	return out, s.explain("drain "+id, err)
}

func drainOutcome(ctx context.Context, q queryer, id string) (dag.DrainOutcome, error) {
	var rows []struct {
		Outcome string `db:"outcome"`
		N       int    `db:"n"`
	}
	var out dag.DrainOutcome
	if err := q.SelectContext(ctx, &rows, "SELECT outcome, COUNT(*) AS n FROM dead_letter_audit WHERE drain_id = ? AND outcome IS NOT NULL GROUP BY outcome",
		id); err != nil {
		return out, err
	}
	for _, r := range rows {
		switch r.Outcome {
		case outcomeInFlight:
			out.InFlight += r.N
		case outcomeResolved:
			out.Resolved += r.N
		default:
			out.Back += r.N
		}
	}
	return out, nil
}

// DrainReasons counts why a drain did not put letters back, the most frequent
// reason first. There is none for a drain that replayed all.
func (s *Store) DrainReasons(ctx context.Context, id string) ([]dag.DrainReason, error) {
	var rows []struct {
		Decision string `db:"decision"`
		Reason   string `db:"reason"`
		N        int    `db:"n"`
		Sample   int64  `db:"sample"`
	}
	err := s.db.Reader().SelectContext(ctx, &rows, `SELECT decision, reason, COUNT(*) AS n, MIN(dead_letter_id) AS sample FROM dead_letter_audit
 WHERE drain_id = ? AND decision <> 'replayed' GROUP BY decision, reason ORDER BY n DESC, sample`, id)
	if err != nil {
		return nil, s.explain("drain "+id, err)
	}
	out := make([]dag.DrainReason, len(rows))
	for i, r := range rows {
		out[i] = dag.DrainReason{Decision: dag.ReplayDecision(r.Decision), Reason: r.Reason, Count: r.N, Sample: r.Sample}
	}
	return out, nil
}

// DoublePublished counts letters that a drain replayed more than once; "" for
// any drain. The unique key on (drain_id, dead_letter_id) keeps it 0.
func (s *Store) DoublePublished(ctx context.Context, drain string) (int, error) {
	var c condition
	c.add("decision = 'replayed'")
	c.add("drain_id IS NOT NULL")
	c.eq("drain_id", drain)
	var n int
	err := s.db.Reader().GetContext(ctx, &n, "SELECT COUNT(*) FROM (SELECT 1 AS one FROM dead_letter_audit"+c.where()+
		" GROUP BY drain_id, dead_letter_id HAVING COUNT(*) > 1) x", c.args...)
	return n, s.explain("count decisions", err)
}
