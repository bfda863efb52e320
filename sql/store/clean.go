package store

import (
	"context"
	"fmt"
	"slices"

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
//   - that are the newest of their schedule to have started: the next run is
//     planned from it (one that was made ahead may be taken back),
//   - that an unfinished run may look back at (depends_on_past),
//   - that a task of an unfinished run asked for, or one with a letter that may be
//     replayed: it waits for the run's end, and tried again it would make it anew.
//
// The pending callbacks are read once, not once a run: they have no index by
// run, and while a receiver is away they are many.
const oldRuns = `SELECT r.id, r.dag_id, r.run_id, (SELECT COUNT(*) FROM task_instance ti WHERE ti.dag_run_id = r.id) AS instances
 FROM dag_run r WHERE r.id > ? AND r.end_date < ? AND r.state IN ('success', 'failed')
 AND NOT EXISTS (SELECT 1 FROM dead_letter l WHERE l.dag_id = r.dag_id AND l.run_id = r.run_id AND l.` + liveLetter + `)
 AND (r.dag_id, r.run_id) NOT IN (SELECT e.dag_id, e.run_id FROM callback_event e WHERE e.status = 'pending')
 AND (r.run_type <> 'scheduled' OR r.logical_date IS NULL OR EXISTS
  (SELECT 1 FROM dag_run n WHERE n.dag_id = r.dag_id AND n.run_type = 'scheduled' AND n.logical_date > r.logical_date AND n.start_date IS NOT NULL))
 AND (r.asked_by IS NULL OR NOT EXISTS
  (SELECT 1 FROM task_instance p JOIN dag_run a ON a.id = p.dag_run_id WHERE p.id = r.asked_by AND (a.state IN ('queued', 'running') OR EXISTS
   (SELECT 1 FROM dead_letter o WHERE o.task_instance_id = p.id AND o.` + liveLetter + `))))
 AND (r.logical_date IS NULL OR NOT EXISTS
  (SELECT 1 FROM dag_run u WHERE u.dag_id = r.dag_id AND u.state IN ('queued', 'running') AND u.logical_date > r.logical_date AND NOT EXISTS
   (SELECT 1 FROM dag_run m WHERE m.dag_id = r.dag_id AND m.run_type <> 'manual' AND m.logical_date > r.logical_date AND m.logical_date < u.logical_date)))`

// oldAttempts selects attempts that were followed by another: the last one of
// an instance, which says how it ended, goes only with its run.
const oldAttempts = `SELECT a.id FROM task_attempt a WHERE a.id > ? AND a.end_date < ? AND a.state IN ('up_for_retry', 'restarting')
 AND EXISTS (SELECT 1 FROM task_instance ti JOIN dag_run r ON r.id = ti.dag_run_id WHERE ti.id = a.task_instance_id AND r.state IN ('success', 'failed'))
 AND NOT EXISTS (SELECT 1 FROM dead_letter l WHERE l.task_instance_id = a.task_instance_id AND l.` + liveLetter + `)`

// oldEvents selects callback events that need no delivery. The one that tells
// of a failure stays as long as the failed instance, to prove that it was told.
const oldEvents = `SELECT e.id FROM callback_event e WHERE e.id > ? AND e.created_at < ? AND e.status IN ('delivered', 'dead')
 AND (e.kind <> 'on_failure_callback' OR NOT EXISTS (SELECT 1 FROM dag_run r WHERE r.dag_id = e.dag_id AND r.run_id = e.run_id))`

// oldEdits selects the edits of letters that are settled. One of an open letter
// stays: its payload may have to be looked at.
const oldEdits = `SELECT e.id FROM dead_letter_edit e WHERE e.id > ? AND e.edited_at < ?
 AND NOT EXISTS (SELECT 1 FROM dead_letter l WHERE l.id = e.dead_letter_id AND l.` + liveLetter + `)`

// oldDrains selects replays that ended with all their letters. What they decided
// stays in the audit.
const oldDrains = `SELECT d.id FROM replay_drain d WHERE d.state = 'done' AND d.ended_at < ?
 AND NOT EXISTS (SELECT 1 FROM dead_letter_audit a WHERE a.drain_id = d.id AND a.outcome = 'in_flight')`

// Clean deletes one batch of history that is older than the batch says, in one
// transaction, and never what an open dead letter refers to. Call it again with
// the After that it returned for as long as it says More. Two cleaners at once
// are harmless.
func (s *Store) Clean(ctx context.Context, b dag.CleanBatch) (dag.CleanedBatch, error) {
	if b.Limit <= 0 {
		b.Limit = chunk
	}
	var out dag.CleanedBatch
	var err error
	switch b.Kind {
	case dag.CleanRuns:
		out, err = s.cleanRuns(ctx, b)
	case dag.CleanAttempts:
		out, err = s.cleanRows(ctx, b, "task_attempt", "a", oldAttempts)
	case dag.CleanEvents:
		out, err = s.cleanRows(ctx, b, "callback_event", "e", oldEvents)
	case dag.CleanEffects:
		err = s.write(ctx, "clean "+string(b.Kind), func(ctx context.Context, t *tx) (err error) {
			out, err = t.cleanEffects(ctx, b)
			return err
		})
	case dag.CleanDesk:
		out, err = s.cleanDesk(ctx, b)
	default:
		err = fmt.Errorf("the state database keeps no %s", b.Kind)
	}
	return out, s.explain("clean "+string(b.Kind), err)
}

func (s *Store) cleanRuns(ctx context.Context, b dag.CleanBatch) (dag.CleanedBatch, error) {
	var rows []struct {
		ID        int64  `db:"id"`
		DagID     string `db:"dag_id"`
		RunID     string `db:"run_id"`
		Instances int    `db:"instances"`
	}
	if err := s.db.Reader().SelectContext(ctx, &rows, oldRuns+" ORDER BY r.id"+limit(b.Limit, b.Limit), b.After, dialect.Stamp(b.Before)); err != nil {
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
	err := s.write(ctx, "clean runs", func(ctx context.Context, t *tx) (err error) {
		out.Deleted, err = t.deleteRuns(ctx, b, ids)
		return err
	})
	return out, err
}

// deleteRuns deletes those of the runs that are still no use to anybody: the look
// at them was before this transaction.
func (t *tx) deleteRuns(ctx context.Context, b dag.CleanBatch, ids []int64) (int, error) {
	// A run that was cleared since is no history any more. It is locked before its
	// instances, as Clear does.
	in, args := t.s.among(ids)
	var still []int64
	if err := t.SelectContext(ctx, &still, "SELECT id FROM dag_run WHERE id IN "+in+" AND state IN ('success', 'failed') ORDER BY id"+t.s.db.ForUpdate(),
		args...); err != nil || len(still) == 0 {
		return 0, err
	}
	in, args = t.s.among(still)
	var rows []struct {
		ID int64 `db:"id"`
	}
	if err := t.x.Unsafe().SelectContext(ctx, &rows, oldRuns+" AND r.id IN "+in, append([]any{0, dialect.Stamp(b.Before)}, args...)...); err != nil || len(rows) == 0 {
		return 0, err
	}
	still = still[:0]
	for _, r := range rows {
		still = append(still, r.ID)
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
			return 0, err
		}
	}
	return len(still), nil
}

// cleanRows deletes rows of a table that a query selects under an alias. The
// query may read much: that is done outside of the transaction, which looks only
// at what was found once more.
func (s *Store) cleanRows(ctx context.Context, b dag.CleanBatch, table, alias, query string) (dag.CleanedBatch, error) {
	var ids []int64
	if err := s.db.Reader().SelectContext(ctx, &ids, query+" ORDER BY "+alias+".id"+limit(b.Limit, b.Limit), b.After, dialect.Stamp(b.Before)); err != nil {
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
	err := s.write(ctx, "clean "+string(b.Kind), func(ctx context.Context, t *tx) error {
		in, args := s.among(ids)
		var still []int64
		if err := t.SelectContext(ctx, &still, query+" AND "+alias+".id IN "+in, append([]any{0, dialect.Stamp(b.Before)}, args...)...); err != nil {
			return err
		}
		if out.Deleted = len(still); len(still) == 0 {
			return nil
		}
		in, args = s.among(still)
		_, err := t.exec(ctx, "DELETE FROM "+table+" WHERE id IN "+in, args...)
		return err
	})
	return out, err
}

// cleanDesk deletes edits, and with the first batch replays. Before that letters
// are counted anew, in case that somebody wrote the tables by hand.
func (s *Store) cleanDesk(ctx context.Context, b dag.CleanBatch) (dag.CleanedBatch, error) {
	drains := 0
	if b.After == 0 {
		var ids []string
		if err := s.db.Reader().SelectContext(ctx, &ids, oldDrains, dialect.Stamp(b.Before)); err != nil {
			return dag.CleanedBatch{}, err
		}
		drains = len(ids)
		if !b.DryRun {
			if err := s.deleteDrains(ctx, ids); err != nil {
				return dag.CleanedBatch{}, err
			}
			if err := s.write(ctx, "clean desk", func(ctx context.Context, t *tx) error {
				_, err := t.exec(ctx, "DELETE FROM letter_incident WHERE state = 'resolved' AND changed_at < ?", dialect.Stamp(b.Before))
				return err
			}); err != nil {
				return dag.CleanedBatch{}, err
			}
			if n, err := s.Recount(ctx); err != nil {
				return dag.CleanedBatch{}, err
			} else if n > 0 {
				s.log.WarnContext(ctx, "the running count of letters was not their number; it is mended", "lines", n)
			}
		}
	}
	out, err := s.cleanRows(ctx, b, "dead_letter_edit", "e", oldEdits)
	out.Deleted += drains
	return out, err
}

func (s *Store) deleteDrains(ctx context.Context, ids []string) error {
	for part := range slices.Chunk(ids, chunk) {
		if err := s.write(ctx, "clean desk", func(ctx context.Context, t *tx) error {
			in, args := s.amongTexts(part)
			for _, q := range []string{"DELETE FROM replay_drain_rest WHERE drain_id IN ", "DELETE FROM replay_drain WHERE id IN "} {
				if _, err := t.exec(ctx, q+in, args...); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
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

// openAtOnce is how many open letters are read at a time.
const openAtOnce = 5000

// OpenInstances gives each the instances that open dead letters seal and those
// of unfinished runs, some at a time: their logs must stay.
func (s *Store) OpenInstances(ctx context.Context, each func([]dag.TaskInstanceKey) error) error {
	type row struct {
		ID int64 `db:"id"`
		dag.TaskInstanceKey
	}
	for _, query := range []string{
		"SELECT id, dag_id, run_id, task_id, map_index FROM dead_letter WHERE id > ? AND " + liveLetter + " ORDER BY id",
		`SELECT ti.id, ti.dag_id, ti.run_id, ti.task_id, ti.map_index FROM dag_run r JOIN task_instance ti ON ti.dag_run_id = r.id
 WHERE ti.id > ? AND r.state IN ('queued', 'running') ORDER BY ti.id`,
	} {
		for after := int64(0); ; {
			var rows []row
			if err := s.db.Reader().SelectContext(ctx, &rows, query+limit(openAtOnce, openAtOnce), after); err != nil {
				return s.explain("list what open dead letters refer to", err)
			}
			keys := make([]dag.TaskInstanceKey, len(rows))
			for i := range rows {
				keys[i] = rows[i].TaskInstanceKey
			}
			if err := each(keys); err != nil {
				return err
			}
			if len(rows) < openAtOnce {
				break
			}
			after = rows[len(rows)-1].ID
		}
	}
	return nil
}

// OpenEffects tells which of some effect keys open dead letters name.
func (s *Store) OpenEffects(ctx context.Context, keys []string) (map[string]bool, error) {
	out := map[string]bool{}
	for part := range slices.Chunk(keys, chunk) {
		var open []string
		in, args := s.amongTexts(part)
		if err := s.db.Reader().SelectContext(ctx, &open, "SELECT DISTINCT idempotency_key FROM dead_letter WHERE idempotency_key IN "+in+" AND "+liveLetter,
			args...); err != nil {
			return nil, s.explain("list what open dead letters refer to", err)
		}
		for _, k := range open {
			out[k] = true
		}
	}
	return out, nil
}

// LongEffects lists the effect keys of open dead letters that have more than so
// many bytes. Few have, since that needs names of hundreds of characters.
func (s *Store) LongEffects(ctx context.Context, bytes int) ([]string, error) {
	length := "LENGTH(idempotency_key)"
	if s.db.IsSQLite() { // which counts the characters of a text
		length = "LENGTH(CAST(idempotency_key AS BLOB))"
	}
	var out []string
	err := s.db.Reader().SelectContext(ctx, &out, "SELECT DISTINCT idempotency_key FROM dead_letter WHERE "+length+" > ? AND "+liveLetter, bytes)
	return out, s.explain("list what open dead letters refer to", err)
}
