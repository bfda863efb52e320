package store

import (
	"context"
	"fmt"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// maxInstancesAtOnce bounds the task instances that one transaction deletes
// with their runs; a single run may have more.
const maxInstancesAtOnce = 1000

// liveLetter is the condition for letters that somebody may still act on.
const liveLetter = "status IN ('sealed', 'quarantined', 'replaying')"

// oldRuns selects finished runs that nothing needs any more. Kept are runs
//   - with a letter that somebody may still replay,
//   - whose callbacks are not delivered yet,
//   - that are the newest of their schedule: the next run is planned from it,
//   - that an unfinished run may look back at (depends_on_past).
//
// The pending callbacks are read once, not once a run: they have no index by
// run, and while a receiver is away they are many.
const oldRuns = `SELECT r.id, r.dag_id, r.run_id, (SELECT COUNT(*) FROM task_instance ti WHERE ti.dag_run_id = r.id) AS instances
 FROM dag_run r WHERE r.id > ? AND r.state IN ('success', 'failed') AND r.end_date < ?
 AND NOT EXISTS (SELECT 1 FROM dead_letter l WHERE l.dag_id = r.dag_id AND l.run_id = r.run_id AND l.` + liveLetter + `)
 AND (r.dag_id, r.run_id) NOT IN (SELECT e.dag_id, e.run_id FROM callback_event e WHERE e.status = 'pending')
 AND (r.run_type <> 'scheduled' OR r.logical_date IS NULL OR EXISTS
  (SELECT 1 FROM dag_run n WHERE n.dag_id = r.dag_id AND n.run_type = 'scheduled' AND n.logical_date > r.logical_date))
 AND (r.logical_date IS NULL OR NOT EXISTS
  (SELECT 1 FROM dag_run u WHERE u.dag_id = r.dag_id AND u.state IN ('queued', 'running') AND u.logical_date > r.logical_date AND NOT EXISTS
   (SELECT 1 FROM dag_run m WHERE m.dag_id = r.dag_id AND m.run_type <> 'manual' AND m.logical_date > r.logical_date AND m.logical_date < u.logical_date)))
 ORDER BY r.id`

// oldAttempts selects attempts that were followed by another: the last one of
// an instance, which says how it ended, goes only with its run.
const oldAttempts = `SELECT a.id FROM task_attempt a WHERE a.id > ? AND a.end_date < ? AND a.state IN ('up_for_retry', 'restarting')
 AND EXISTS (SELECT 1 FROM task_instance ti JOIN dag_run r ON r.id = ti.dag_run_id WHERE ti.id = a.task_instance_id AND r.state IN ('success', 'failed'))
 AND NOT EXISTS (SELECT 1 FROM dead_letter l WHERE l.task_instance_id = a.task_instance_id AND l.` + liveLetter + `)
 ORDER BY a.id`

// oldEvents selects callback events that need no delivery. The one that tells
// of a failure stays as long as the failed instance, to prove that it was told.
const oldEvents = `SELECT e.id FROM callback_event e WHERE e.id > ? AND e.created_at < ? AND e.status IN ('delivered', 'dead')
 AND (e.kind <> 'on_failure_callback' OR NOT EXISTS (SELECT 1 FROM dag_run r WHERE r.dag_id = e.dag_id AND r.run_id = e.run_id))
 ORDER BY e.id`

// Clean deletes one batch of history that is older than the batch says, in one
// transaction, and never what an open dead letter refers to. Call it again with
// the After that it returned for as long as it says More. Two cleaners at once
// are harmless.
func (s *Store) Clean(ctx context.Context, b dag.CleanBatch) (dag.CleanedBatch, error) {
	if b.Limit <= 0 {
		b.Limit = chunk
	}
	var out dag.CleanedBatch
	err := s.write(ctx, "clean "+string(b.Kind), func(ctx context.Context, t *tx) error {
		var err error
		switch b.Kind {
		case dag.CleanRuns:
			out, err = t.cleanRuns(ctx, b)
		case dag.CleanAttempts:
			out, err = t.cleanRows(ctx, b, "task_attempt", oldAttempts)
		case dag.CleanEvents:
			out, err = t.cleanRows(ctx, b, "callback_event", oldEvents)
		case dag.CleanEffects:
			out, err = t.cleanEffects(ctx, b)
		default:
			err = fmt.Errorf("the state database keeps no %s", b.Kind)
		}
		return err
	})
	return out, err
}

func (t *tx) cleanRuns(ctx context.Context, b dag.CleanBatch) (dag.CleanedBatch, error) {
	var rows []struct {
		ID        int64  `db:"id"`
		DagID     string `db:"dag_id"`
		RunID     string `db:"run_id"`
		Instances int    `db:"instances"`
	}
	if err := t.SelectContext(ctx, &rows, oldRuns+limit(b.Limit, b.Limit), b.After, dialect.Stamp(b.Before)); err != nil {
		return dag.CleanedBatch{}, err
	}
	out := dag.CleanedBatch{After: b.After, More: len(rows) == b.Limit}
	var ids []int64
	instances := 0
	for _, r := range rows {
		if instances += r.Instances; instances > maxInstancesAtOnce && len(ids) > 0 {
			out.More = true
			break
		}
		ids = append(ids, r.ID)
		out.After = r.ID
	}
	out.Deleted = len(ids)
	if b.DryRun || len(ids) == 0 {
		return out, nil
	}
	// A run that was cleared since the look at it is no history any more. It is
	// locked before its instances, as Clear does.
	in, args := t.s.among(ids)
	var still []int64
	if err := t.SelectContext(ctx, &still, "SELECT id FROM dag_run WHERE id IN "+in+" AND state IN ('success', 'failed') ORDER BY id"+t.s.db.ForUpdate(),
		args...); err != nil {
		return out, err
	}
	if out.Deleted = len(still); len(still) == 0 {
		return out, nil
	}
	in, args = t.s.among(still)
	ofRuns := " WHERE task_instance_id IN (SELECT id FROM task_instance WHERE dag_run_id IN " + in + ")"
	for _, q := range []string{
		"DELETE FROM task_attempt" + ofRuns,
		"DELETE FROM task_progress" + ofRuns,
		"DELETE FROM media_input_use" + ofRuns,
		"DELETE FROM xcom WHERE dag_run_id IN " + in,
		"DELETE FROM task_instance WHERE dag_run_id IN " + in,
		"DELETE FROM dag_run WHERE id IN " + in,
	} {
		if _, err := t.exec(ctx, q, args...); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (t *tx) cleanRows(ctx context.Context, b dag.CleanBatch, table, query string) (dag.CleanedBatch, error) {
	var ids []int64
	if err := t.SelectContext(ctx, &ids, query+limit(b.Limit, b.Limit), b.After, dialect.Stamp(b.Before)); err != nil {
		return dag.CleanedBatch{}, err
	}
	out := dag.CleanedBatch{Deleted: len(ids), After: b.After, More: len(ids) == b.Limit}
	if len(ids) == 0 {
		return out, nil
	}
	out.After = ids[len(ids)-1]
	if b.DryRun {
		return out, nil
	}
	in, args := t.s.among(ids)
	_, err := t.exec(ctx, "DELETE FROM "+table+" WHERE id IN "+in, args...)
	return out, err
}

// cleanEffects deletes effect keys whose own time is over as well, and that no
// open letter names.
func (t *tx) cleanEffects(ctx context.Context, b dag.CleanBatch) (dag.CleanedBatch, error) {
	var keys []string
	// The outer rows are few; the letters' keys have no index on every server, so
	// that they are read once.
	err := t.SelectContext(ctx, &keys, `SELECT idempotency_key FROM effect WHERE expires_at < ? AND committed_at < ?
 AND idempotency_key NOT IN (SELECT idempotency_key FROM dead_letter WHERE `+liveLetter+`) ORDER BY expires_at`+limit(b.Limit, b.Limit),
		t.at, dialect.Stamp(b.Before))
	out := dag.CleanedBatch{Deleted: len(keys), More: len(keys) == b.Limit && !b.DryRun}
	if err != nil || len(keys) == 0 || b.DryRun {
		return out, err
	}
	_, err = t.exec(ctx, "DELETE FROM effect WHERE idempotency_key IN ("+dialect.Marks(len(keys))+")", anys(keys)...)
	return out, err
}

// OpenKeys lists what open dead letters and unfinished runs refer to: the
// instances whose logs must stay, and the effect keys that must.
func (s *Store) OpenKeys(ctx context.Context) (instances []dag.TaskInstanceKey, effects []string, err error) {
	err = s.db.Reader().SelectContext(ctx, &instances, `SELECT dag_id, run_id, task_id, map_index FROM dead_letter WHERE `+liveLetter+`
 UNION SELECT ti.dag_id, ti.run_id, ti.task_id, ti.map_index FROM dag_run r JOIN task_instance ti ON ti.dag_run_id = r.id WHERE r.state IN ('queued', 'running')`)
	if err == nil {
		err = s.db.Reader().SelectContext(ctx, &effects, "SELECT DISTINCT idempotency_key FROM dead_letter WHERE "+liveLetter)
	}
	return instances, effects, s.explain("list what open dead letters refer to", err)
}
