package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// checkGrace is how long a lease may have ended before its instance counts as
// forgotten: several rounds of a living reaper.
const checkGrace = 2 * time.Minute

// maxViolations bounds what Check lists for one rule.
const maxViolations = 1000

// rule is one promise as a query for what breaks it. The query gives dag_id,
// run_id, task_id, map_index and found, a word or number for the text.
type rule struct {
	name  string
	query string
	text  string // with one %s for found
	args  []any
}

const instanceSubject = "SELECT ti.dag_id, ti.run_id, ti.task_id, ti.map_index, "

// checkRules lists the promises that one query each can prove. now is the
// database's time.
func checkRules(now time.Time) []rule {
	return []rule{
		{
			name: "failed-without-letter", text: "the instance is failed under fence %s and no dead letter seals that attempt",
			query: instanceSubject + `ti.fence AS found FROM task_instance ti WHERE ti.state = 'failed' AND NOT EXISTS
 (SELECT 1 FROM dead_letter l WHERE l.task_instance_id = ti.id AND l.fence >= ti.fence - 1)`,
		},
		{
			name: "letter-without-failure", text: "an open dead letter seals the instance and its state is %s, not failed",
			query: instanceSubject + `ti.state AS found FROM dead_letter l JOIN task_instance ti ON ti.id = l.task_instance_id
 WHERE l.status IN ('sealed', 'quarantined') AND ti.state <> 'failed'`,
		},
		{
			name: "replay-without-letter", text: "the instance is %s and marked as being replayed, and no dead letter of it is",
			query: instanceSubject + `ti.state AS found FROM task_instance ti WHERE ti.replaying = 1 AND NOT EXISTS
 (SELECT 1 FROM dead_letter l WHERE l.task_instance_id = ti.id AND l.status = 'replaying')`,
		},
		{
			name: "letter-without-replay", text: "a dead letter is being replayed and the instance is %s and not marked so",
			query: instanceSubject + `ti.state AS found FROM dead_letter l JOIN task_instance ti ON ti.id = l.task_instance_id
 WHERE l.status = 'replaying' AND (ti.replaying = 0 OR ti.state IN ` + endedStates + `)`,
		},
		{
			name: "letter-without-attempt", text: "dead letter %s seals an attempt that is not recorded",
			query: `SELECT l.dag_id, l.run_id, l.task_id, l.map_index, l.id AS found FROM dead_letter l
 WHERE EXISTS (SELECT 1 FROM task_instance ti WHERE ti.id = l.task_instance_id) AND NOT EXISTS
 (SELECT 1 FROM task_attempt a WHERE a.task_instance_id = l.task_instance_id AND a.fence = l.fence)`,
		},
		{
			name: "failed-without-attempt", text: "the instance is %s and no attempt ended so",
			query: instanceSubject + `ti.state AS found FROM task_instance ti WHERE ti.state IN ('failed', 'success') AND ti.try_number > 0
 AND NOT EXISTS (SELECT 1 FROM task_attempt a WHERE a.task_instance_id = ti.id AND a.state = ti.state)`,
		},
		{
			name: "attempt-without-letter", text: "try %s ended failed for good and no dead letter seals it",
			query: instanceSubject + `a.try_number AS found FROM task_attempt a JOIN task_instance ti ON ti.id = a.task_instance_id
 WHERE a.state = 'failed' AND NOT EXISTS (SELECT 1 FROM dead_letter l WHERE l.task_instance_id = a.task_instance_id
 AND (l.fence = a.fence OR l.fence > a.fence AND l.return_count > 0))`,
		},
		{
			name: "running-without-lease", text: "the instance is running and its lease ended at %s UTC",
			query: instanceSubject + `ti.lease_until AS found FROM task_instance ti WHERE ti.state IN ('running', 'restarting')
 AND (ti.lease_until IS NULL OR ti.lease_until < ?)`,
			args: []any{dialect.Stamp(now.Add(-checkGrace))},
		},
		{
			name: "orphan-attempt", text: "an attempt belongs to task instance %s, which does not exist",
			query: `SELECT '' AS dag_id, '' AS run_id, '' AS task_id, -1 AS map_index, a.task_instance_id AS found FROM task_attempt a
 WHERE NOT EXISTS (SELECT 1 FROM task_instance ti WHERE ti.id = a.task_instance_id)`,
		},
		{
			name: "orphan-xcom", text: "XCom %s belongs to no task instance",
			query: `SELECT x.dag_id, x.run_id, x.task_id, x.map_index, x.xcom_key AS found FROM xcom x WHERE NOT EXISTS
 (SELECT 1 FROM task_instance ti WHERE ti.dag_run_id = x.dag_run_id AND ti.task_id = x.task_id AND ti.map_index = x.map_index)`,
		},
		{
			name: "orphan-instance", text: "the instance belongs to run %s, which does not exist",
			query: instanceSubject + `ti.dag_run_id AS found FROM task_instance ti WHERE NOT EXISTS (SELECT 1 FROM dag_run r WHERE r.id = ti.dag_run_id)`,
		},
		{
			name: "ended-run-with-live-task", text: "its run has ended and the instance is %s",
			query: instanceSubject + `ti.state AS found FROM task_instance ti JOIN dag_run r ON r.id = ti.dag_run_id
 WHERE ti.state IN ('scheduled', 'queued', 'running', 'up_for_retry', 'up_for_reschedule') AND r.state IN ('success', 'failed')`,
		},
		{
			name: "run-asleep", text: "the run is %s, nothing in it moves, and nobody is to look at it",
			query: `SELECT r.dag_id, r.run_id, '' AS task_id, -1 AS map_index, r.state AS found FROM dag_run r WHERE r.state = 'running' AND r.next_eval_at IS NULL
 AND NOT EXISTS (SELECT 1 FROM task_instance ti WHERE ti.dag_run_id = r.id AND ti.state IN ('scheduled', 'queued', 'running', 'restarting'))`,
		},
		{
			name: "letter-tally", text: "the running count of the letters in group %s is not their number; airlock dlq stats --recount counts anew",
			query: "SELECT dag_id, '' AS run_id, task_id, -1 AS map_index, CASE WHEN decision <> '' THEN decision ELSE fingerprint END AS found FROM (" +
				tallyGap() + ") gap",
		},
		{
			name: "effect-accounting", text: "%s: rows read are not rows merged + unchanged + quarantined",
			query: `SELECT '' AS dag_id, '' AS run_id, '' AS task_id, -1 AS map_index, idempotency_key AS found FROM effect
 WHERE rows_read <> rows_merged + rows_unchanged + rows_quarantined`,
		},
	}
}

type breach struct {
	dag.TaskInstanceKey
	Found *string `db:"found"`
}

// Check implements Desk. It reads one state of the database and writes nothing.
func (s *Store) Check(ctx context.Context) ([]dag.Violation, error) {
	var out []dag.Violation
	err := s.db.Snapshot(ctx, func(ctx context.Context, x *sqlx.Tx) error {
		out = nil
		now, err := s.nowBy(ctx, x)
		if err != nil {
			return err
		}
		for _, r := range checkRules(now) {
			var rows []breach
			if err := x.SelectContext(ctx, &rows, r.query+limit(maxViolations, maxViolations), r.args...); err != nil {
				return fmt.Errorf("rule %s: %w", r.name, err)
			}
			for _, b := range rows {
				found := "nothing"
				if b.Found != nil {
					found = *b.Found
				}
				out = append(out, dag.Violation{Rule: r.name, Subject: subject(b.TaskInstanceKey, found), Found: fmt.Sprintf(r.text, found)})
			}
		}
		more, err := s.checkCallbacks(ctx, x)
		out = append(out, more...)
		return err
	})
	if err != nil {
		return nil, s.explain("check the database", err)
	}
	return out, nil
}

func subject(k dag.TaskInstanceKey, found string) string {
	switch {
	case k.DagID == "":
		return found
	case k.TaskID == "":
		return k.DagID + "/" + k.RunID
	default:
		return k.String()
	}
}

// checkCallbacks proves that each sealed instance of a task with failure
// callbacks has its event. Which tasks have them stands in the DAG versions, so
// the last step is made here and not by a query.
func (s *Store) checkCallbacks(ctx context.Context, x *sqlx.Tx) ([]dag.Violation, error) {
	var failed []struct {
		dag.TaskInstanceKey
		Version int64 `db:"dag_version_id"`
	}
	if err := x.SelectContext(ctx, &failed, "SELECT dag_id, run_id, task_id, map_index, dag_version_id FROM task_instance WHERE state = 'failed'"); err != nil {
		return nil, fmt.Errorf("rule failed-without-event: %w", err)
	}
	if len(failed) == 0 {
		return nil, nil
	}
	var told []dag.TaskInstanceKey
	if err := x.SelectContext(ctx, &told, "SELECT DISTINCT dag_id, run_id, task_id, map_index FROM callback_event WHERE kind = 'on_failure_callback'"); err != nil {
		return nil, fmt.Errorf("rule failed-without-event: %w", err)
	}
	has := make(map[dag.TaskInstanceKey]bool, len(told))
	for _, k := range told {
		has[k] = true
	}
	var out []dag.Violation
	for _, f := range failed {
		def, err := s.version(ctx, x, f.Version)
		if err != nil {
			if dag.CodeOf(err) != dag.ErrNotFound {
				return nil, err
			}
			out = append(out, dag.Violation{Rule: "version-missing", Subject: f.String(), Found: fmt.Sprintf("its DAG version %d does not exist", f.Version)})
			continue
		}
		if task := def.Task(f.TaskID); task != nil && len(task.Callbacks.OnFailure) > 0 && !has[f.TaskInstanceKey] && len(out) < maxViolations {
			out = append(out, dag.Violation{
				Rule: "failed-without-event", Subject: f.String(), Found: "the instance is failed, its task has failure callbacks, and no event tells of it",
			})
		}
	}
	return out, nil
}
