package store

import (
	"context"
	"fmt"
	"time"

	"github.com/airlock-dag/airlock/sql/dialect"
)

// NextWake is the earliest instant at which DueDAGs, Schedule or Expired will
// have something to do, as far as the tables say now; zero for never. Each of
// the three questions is answered by the head of an index.
func (s *Store) NextWake(ctx context.Context) (time.Time, error) {
	var earliest time.Time
	for _, query := range []string{
		`SELECT d.next_run_after FROM dag d WHERE d.is_paused = 0 AND d.is_stale = 0 AND d.next_run_after IS NOT NULL
 AND ` + activeRuns + ` < d.max_active_runs ORDER BY d.next_run_after LIMIT 1`,
		`SELECT next_eval_at FROM dag_run WHERE next_eval_at IS NOT NULL AND state IN ('queued', 'running') AND NOT EXISTS
 (SELECT 1 FROM dag d WHERE d.dag_id = dag_run.dag_id AND d.is_paused = 1) ORDER BY next_eval_at LIMIT 1`,
		`SELECT MIN(lease_until) FROM task_instance WHERE state IN ('running', 'restarting')`,
	} {
		var at []dialect.Time
		if err := s.db.Reader().SelectContext(ctx, &at, query); err != nil {
			return time.Time{}, fmt.Errorf("when to look next: %w", err)
		}
		for _, a := range at {
			if a.Valid && (earliest.IsZero() || a.Time.Before(earliest)) {
				earliest = a.Time
			}
		}
	}
	return earliest, nil
}
