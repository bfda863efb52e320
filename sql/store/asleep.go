package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/airlock-dag/airlock/sql/dialect"
)

// What the end of a run lets go on is woken with it; what somebody holds just then
// is woken in a transaction of its own, see wakeLate. Who dies between the two
// leaves runs behind that nobody looks at. These are found by what they look like: a
// run that goes on with nothing in it that moves, and the first that waits of a DAG
// that has room, or of a backfill.

// asleepRunning and asleepQueued list them. A look at one that has good reason to
// wait (for the run before it, for room) costs a pass and changes nothing.
const (
	asleepRunning = `SELECT id FROM dag_run WHERE state = 'running' AND next_eval_at IS NULL AND updated_at < ? AND ` + notPaused + ` AND NOT EXISTS
 (SELECT 1 FROM task_instance ti WHERE ti.dag_run_id = dag_run.id AND ti.state IN ('scheduled', 'queued', 'running', 'restarting')) ORDER BY updated_at, id LIMIT ` + maxAsleep
	asleepQueued = `SELECT id FROM (SELECT dag_run.id, dag_run.next_eval_at, dag_run.updated_at, ROW_NUMBER() OVER (PARTITION BY dag_run.dag_id, b.backfill_id ORDER BY dag_run.run_after, dag_run.id) AS nth
 FROM dag_run JOIN dag ON dag.dag_id = dag_run.dag_id LEFT JOIN backfill_run b ON b.dag_run_id = dag_run.id
 WHERE dag_run.state = 'queued' AND dag.is_paused = 0 AND (b.backfill_id IS NOT NULL OR
 (SELECT COUNT(*) FROM dag_run o WHERE o.dag_id = dag_run.dag_id AND o.state = 'running' AND o.run_type <> 'backfill' AND o.is_replay = 0) < dag.max_active_runs)) q
 WHERE nth = 1 AND next_eval_at IS NULL AND updated_at < ? ORDER BY id LIMIT ` + maxAsleep
	maxAsleep = "1000"
)

// WakeAsleep lets the next pass look at runs that nobody is to look at though they
// may go on, and that have not changed for some time. It gives how many.
func (s *Store) WakeAsleep(ctx context.Context, unchanged time.Duration) (int, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return 0, err
	}
	var ids []int64
	for _, query := range []string{asleepRunning, asleepQueued} {
		var some []int64
		if err := s.db.Reader().SelectContext(ctx, &some, query, dialect.Stamp(now.Add(-unchanged))); err != nil {
			return 0, fmt.Errorf("look for runs that are asleep: %w", err)
		}
		ids = append(ids, some...)
	}
	if len(ids) == 0 {
		return 0, nil
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	var woken []int64
	err = s.write(ctx, "wake runs that are asleep", func(ctx context.Context, t *tx) error {
		var err error
		if woken, err = t.unheld(ctx, ids, "next_eval_at IS NULL AND state IN ('queued', 'running')"); err != nil {
			return err
		}
		return t.wakeRuns(ctx, woken)
	})
	if err != nil {
		return 0, err
	}
	return len(woken), nil
}
