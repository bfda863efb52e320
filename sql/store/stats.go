package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// Stats counts what gauges show. Every question is answered from an index or
// from the tally of letters; callers ask every few seconds, not for each page.
func (s *Store) Stats(ctx context.Context) (dag.Stats, error) {
	out := dag.Stats{Decisions: map[string]int{}, Instances: map[dag.State]int{}, Runs: map[dag.RunState]int{}}
	var err error
	if out.Now, err = s.Now(ctx); err != nil {
		return out, err
	}
	q := s.db.Reader()
	for _, step := range []func() error{
		func() error { return s.letterNumbers(ctx, q, &out) },
		func() error { return s.eventStats(ctx, q, &out) },
		func() (err error) { out.DoublePublished, err = s.audited.count(ctx, q); return err },
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
		func() (err error) { out.Unserved, err = s.Unserved(ctx, 0); return err },
		func() (err error) { out.Pools, err = s.Pools(ctx); return err },
		func() (err error) { out.Circuits, err = s.Circuits(ctx, false); return err },
	} {
		if err := step(); err != nil {
			return out, fmt.Errorf("count for the metrics: %w", err)
		}
	}
	return out, nil
}

// letterNumbers counts open letters by queue, and decisions, from the tally.
func (s *Store) letterNumbers(ctx context.Context, q queryer, out *dag.Stats) error {
	lines, err := s.tallyLines(ctx, q)
	if err != nil {
		return err
	}
	type place struct {
		status dag.LetterStatus
		queue  string
	}
	depths := map[place]int{}
	for i := range lines {
		r := &lines[i]
		if r.Decision != "" {
			if shownDecision(r.Decision) && r.Decided != 0 {
				out.Decisions[r.Decision] = int(r.Decided)
			}
			continue
		}
		depths[place{dag.LetterSealed, r.Queue}] += int(r.Sealed)
		depths[place{dag.LetterQuarantined, r.Queue}] += int(r.Quarantined)
		depths[place{dag.LetterReplaying, r.Queue}] += int(r.Replaying)
	}
	expiring := map[place]int{}
	for _, status := range []dag.LetterStatus{dag.LetterSealed, dag.LetterQuarantined, dag.LetterReplaying} {
		if err := countBy(ctx, q, `SELECT queue AS name, COUNT(*) AS n FROM (SELECT queue FROM dead_letter WHERE status = '`+string(status)+`' AND expires_at < ?
 ORDER BY expires_at`+limit(maxExpiring, maxExpiring)+`) soon GROUP BY queue`, func(name string, n int) { expiring[place{status, name}] = n },
			dialect.Stamp(out.Now.Add(dag.LetterWarning))); err != nil {
			return err
		}
	}
	for at, n := range depths {
		if n <= 0 {
			continue
		}
		var oldest []looseTime
		if err := q.SelectContext(ctx, &oldest, "SELECT enqueued_at FROM dead_letter"+s.depthIndex()+
			" WHERE status = ? AND queue = ? ORDER BY enqueued_at LIMIT 1", string(at.status), at.queue); err != nil {
			return err
		}
		d := dag.LetterDepth{Status: at.status, Queue: at.queue, Count: n, Expiring: expiring[at]}
		if len(oldest) > 0 {
			d.Oldest = oldest[0].Time.Time
		}
		out.Letters = append(out.Letters, d)
	}
	slices.SortFunc(out.Letters, func(a, b dag.LetterDepth) int {
		return cmp.Or(cmp.Compare(a.Status, b.Status), cmp.Compare(a.Queue, b.Queue))
	})
	return nil
}

// maxExpiring is where the count of letters that expire soon ends, for each
// status: when that many do, their number is no news.
const maxExpiring = 100_000

// shownDecision tells whether a decision has a gauge.
func shownDecision(d string) bool {
	switch dag.ReplayDecision(d) {
	case dag.DecisionReplayed, dag.DecisionDropDuplicate, dag.DecisionQuarantine, dag.DecisionDeferred, dag.DecisionRejected, dag.DecisionExpired:
		return true
	default:
		return false
	}
}

func (s *Store) depthIndex() string {
	if s.db.IsSQLite() {
		return s.db.ForceIndex("dead_letter_depth")
	}
	return s.db.ForceIndex("k_depth")
}

// doubles counts letters that one drain replayed twice, which a unique key
// forbids. Audit rows never change, so that each is looked at once.
type doubles struct {
	mu   sync.Mutex
	upTo int64
	n    int
}

func (d *doubles) count(ctx context.Context, q queryer) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var row struct {
		N    int   `db:"n"`
		UpTo int64 `db:"up_to"`
	}
	// Rows of transactions that were still open at the last look have ids up to
	// it, and a twin after it finds them.
	if err := q.GetContext(ctx, &row, `SELECT COUNT(CASE WHEN EXISTS (SELECT 1 FROM dead_letter_audit b WHERE b.drain_id = a.drain_id
 AND b.dead_letter_id = a.dead_letter_id AND b.id < a.id) THEN 1 END) AS n, COALESCE(MAX(a.id), 0) AS up_to FROM dead_letter_audit a WHERE a.id > ?`,
		d.upTo); err != nil {
		return d.n, err
	}
	d.n, d.upTo = d.n+row.N, max(d.upTo, row.UpTo)
	return d.n, nil
}

func (s *Store) eventStats(ctx context.Context, q queryer, out *dag.Stats) error {
	var oldest []dialect.Time
	// The oldest by id: it was written first, whenever it is due.
	if err := q.SelectContext(ctx, &oldest, `SELECT created_at FROM callback_event WHERE id =
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
func countBy(ctx context.Context, q queryer, query string, each func(name string, n int), args ...any) error {
	var rows []struct {
		Name string `db:"name"`
		N    int    `db:"n"`
	}
	if err := q.SelectContext(ctx, &rows, query, args...); err != nil {
		return err
	}
	for _, r := range rows {
		each(r.Name, r.N)
	}
	return nil
}
