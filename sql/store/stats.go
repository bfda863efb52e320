package store

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// Stats counts what gauges show. Every question is answered from an index, the
// largest by reading the index entries of the open letters; callers ask every
// few seconds, not for each page.
func (s *Store) Stats(ctx context.Context) (dag.Stats, error) {
	out := dag.Stats{Decisions: map[string]int{}, Instances: map[dag.State]int{}, Runs: map[dag.RunState]int{}}
	var err error
	if out.Now, err = s.Now(ctx); err != nil {
		return out, err
	}
	q := s.db.Reader()
	for _, step := range []func() error{
		func() error { return s.letterDepths(ctx, q, &out) },
		func() error { return s.eventStats(ctx, q, &out) },
		func() error {
			return countBy(ctx, q, `SELECT decision AS name, COUNT(*) AS n FROM dead_letter_audit
 WHERE decision IN ('replayed', 'drop_duplicate', 'quarantine', 'deferred', 'rejected', 'expired') GROUP BY decision`, func(name string, n int) {
				out.Decisions[name] = n
			})
		},
		func() error { // from the unique key that forbids it: its entries stand in this order
			return q.GetContext(ctx, &out.DoublePublished, `SELECT COUNT(*) FROM (SELECT 1 AS one FROM dead_letter_audit WHERE drain_id IS NOT NULL
 GROUP BY drain_id, dead_letter_id HAVING COUNT(*) > 1) twice`)
		},
		func() error {
			return countBy(ctx, q, `SELECT state AS name, COUNT(*) AS n FROM task_instance
 WHERE state IN ('scheduled', 'queued', 'running', 'restarting', 'up_for_retry', 'up_for_reschedule', 'deferred') GROUP BY state`,
				func(name string, n int) { out.Instances[dag.State(name)] = n })
		},
		func() error {
			return countBy(ctx, q, "SELECT state AS name, COUNT(*) AS n FROM dag_run WHERE state IN ('queued', 'running') GROUP BY state",
				func(name string, n int) { out.Runs[dag.RunState(name)] = n })
		},
		func() error {
			return q.GetContext(ctx, &out.DAGs, "SELECT COUNT(*) FROM dag WHERE is_stale = 0")
		},
		func() error {
			return q.GetContext(ctx, &out.ImportErrors, "SELECT COUNT(*) FROM import_error WHERE severity = 'error'")
		},
		func() (err error) { out.Pools, err = s.Pools(ctx); return err },
		func() (err error) { out.Circuits, err = s.Circuits(ctx, false); return err },
	} {
		if err := step(); err != nil {
			return out, fmt.Errorf("count for the metrics: %w", err)
		}
	}
	return out, nil
}

func (s *Store) letterDepths(ctx context.Context, q sqlx.QueryerContext, out *dag.Stats) error {
	var rows []struct {
		Status   string       `db:"status"`
		Queue    string       `db:"queue"`
		N        int          `db:"n"`
		Oldest   dialect.Time `db:"oldest"`
		Expiring int          `db:"expiring"`
	}
	index := s.db.ForceIndex("k_depth")
	if s.db.IsSQLite() {
		index = s.db.ForceIndex("dead_letter_depth")
	}
	err := sqlx.SelectContext(ctx, q, &rows, `SELECT status, queue, COUNT(*) AS n, MIN(enqueued_at) AS oldest,
 SUM(CASE WHEN expires_at < ? THEN 1 ELSE 0 END) AS expiring FROM dead_letter`+index+`
 WHERE status IN ('sealed', 'quarantined', 'replaying') GROUP BY status, queue`, dialect.Stamp(out.Now.Add(dag.LetterWarning)))
	for _, r := range rows {
		out.Letters = append(out.Letters, dag.LetterDepth{
			Status: dag.LetterStatus(r.Status), Queue: r.Queue, Count: r.N, Oldest: r.Oldest.Time, Expiring: r.Expiring,
		})
	}
	return err
}

func (s *Store) eventStats(ctx context.Context, q sqlx.QueryerContext, out *dag.Stats) error {
	var oldest []dialect.Time
	// The oldest by id: it was written first, whenever it is due.
	if err := sqlx.SelectContext(ctx, q, &oldest, `SELECT created_at FROM callback_event WHERE id =
 (SELECT MIN(id) FROM callback_event WHERE status = 'pending')`); err != nil {
		return err
	}
	if len(oldest) > 0 {
		out.OldestEvent = oldest[0].Ptr()
	}
	return countBy(ctx, q, "SELECT status AS name, COUNT(*) AS n FROM callback_event WHERE status IN ('pending', 'dead') GROUP BY status",
		func(name string, n int) {
			if name == string(dag.DeliveryPending) {
				out.EventsPending = n
			} else {
				out.EventsDead = n
			}
		})
}

// countBy runs a query for names with numbers.
func countBy(ctx context.Context, q sqlx.QueryerContext, query string, each func(name string, n int)) error {
	var rows []struct {
		Name string `db:"name"`
		N    int    `db:"n"`
	}
	if err := sqlx.SelectContext(ctx, q, &rows, query); err != nil {
		return err
	}
	for _, r := range rows {
		each(r.Name, r.N)
	}
	return nil
}
