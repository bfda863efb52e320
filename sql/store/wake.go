package store

import (
	"context"
	"fmt"
	"time"

	"github.com/airlock-dag/airlock/sql/dialect"
)

// NextWake is the earliest instant later than another at which DueDAGs, asked so
// far ahead, Schedule or Expired will have something to do, as far as the tables
// say now; zero for never. Each of the three questions is answered by the head of
// an index, or, past what is due and cannot be done, from there on.
func (s *Store) NextWake(ctx context.Context, later time.Time, ahead time.Duration) (time.Time, error) {
	var earliest time.Time
	if later.IsZero() {
		later = time.Unix(0, 0) // a server's years have four digits
	}
	for _, q := range []struct {
		text  string
		ahead time.Duration
	}{
		{`SELECT d.next_run_after FROM dag d WHERE d.is_paused = 0 AND d.is_stale = 0 AND d.next_run_after > ?
 AND ` + s.activeRuns() + ` < d.max_active_runs ORDER BY d.next_run_after LIMIT 1`, ahead},
		{"SELECT next_eval_at FROM dag_run" + s.force("k_eval") + " WHERE next_eval_at > ? AND state IN ('queued', 'running') AND " + notPaused +
			" ORDER BY next_eval_at LIMIT 1", 0},
		{`SELECT MIN(lease_until) FROM task_instance WHERE state IN ('running', 'restarting') AND lease_until > ?`, 0},
	} {
		var at []dialect.Time
		if err := s.db.Reader().SelectContext(ctx, &at, q.text, dialect.Stamp(later.Add(q.ahead))); err != nil {
			return time.Time{}, fmt.Errorf("when to look next: %w", err)
		}
		for _, a := range at {
			if a.Valid && (earliest.IsZero() || a.Time.Add(-q.ahead).Before(earliest)) {
				earliest = a.Time.Add(-q.ahead)
			}
		}
	}
	return earliest, nil
}
