package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// Clear implements Desk. All of it is one transaction, with the run locked so
// that no scheduler decides about it meanwhile.
func (s *Store) Clear(ctx context.Context, r dag.ClearRequest) ([]dag.TaskInstance, error) {
	var out []dag.TaskInstance
	err := s.write(ctx, "clear "+r.RunID+" of "+r.DagID, func(ctx context.Context, t *tx) error {
		out = nil
		var runs []runRow
		if err := t.SelectContext(ctx, &runs, "SELECT "+runColumns+" FROM dag_run WHERE dag_id = ? AND run_id = ?"+s.db.ForUpdate(),
			r.DagID, r.RunID); err != nil {
			return err
		}
		if len(runs) == 0 {
			return noRun(r.DagID, r.RunID)
		}
		rows, err := t.toClear(ctx, runs[0].ID, r)
		if err != nil {
			return err
		}
		for i := range rows {
			out = append(out, rows[i].model())
		}
		if r.DryRun || len(rows) == 0 {
			return nil
		}
		if err := t.clear(ctx, &runs[0], rows); err != nil {
			return err
		}
		if err := t.resolveCleared(ctx, rows, r.Actor); err != nil {
			return err
		}
		names := make([]string, len(rows))
		for i := range rows {
			names[i] = rows[i].TaskID
		}
		return t.audit(ctx, dag.AuditEntry{
			Actor: r.Actor, Action: "clear", Subject: r.DagID + "/" + r.RunID,
			Detail: mustJSON(map[string]any{"tasks": slices.Compact(names), "instances": len(rows), "only_failed": r.OnlyFailed}),
		})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// toClear locks the instances that a request means. Those that have not begun
// anything need no clearing, and those that an expansion left over have no work.
func (t *tx) toClear(ctx context.Context, runID int64, r dag.ClearRequest) ([]instanceRow, error) {
	var c condition
	c.add("dag_run_id = ?", runID)
	c.in("task_id", anys(r.TaskIDs))
	if len(r.MapIndexes) > 0 {
		ids := make([]int64, len(r.MapIndexes))
		for i, m := range r.MapIndexes {
			ids[i] = int64(m)
		}
		c.add("map_index IN (" + idList(ids) + ")")
	}
	if r.OnlyFailed {
		c.add("state IN ('failed', 'upstream_failed')")
	}
	if r.OnlyRunning {
		c.add("state = 'running'")
	}
	c.add("state NOT IN ('none', 'restarting')")
	c.add("NOT (state = 'removed' AND map_index >= 0)")
	var rows []instanceRow
	err := t.SelectContext(ctx, &rows, "SELECT "+instanceColumns+" FROM task_instance"+c.where()+" ORDER BY id"+t.s.db.ForUpdate(), c.args...)
	return rows, err
}

func (t *tx) clear(ctx context.Context, run *runRow, rows []instanceRow) error {
	def, err := t.s.version(ctx, t, run.VersionID)
	if err != nil && dag.CodeOf(err) != dag.ErrNotFound {
		return err
	}
	ids := make([]int64, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	b := newBulk("task_instance", ids)
	var stopped []dag.Attempt
	for i := range rows {
		row := &rows[i]
		to := dag.StateNone
		if row.State == string(dag.StateRunning) {
			to = dag.StateRestarting
			stopped = append(stopped, t.clearedAttempt(row))
		} else {
			b.set(i, "lease_until", nil)
		}
		if !t.s.allowed[change{dag.State(row.State), to}] {
			return fmt.Errorf("task %s: a change from %s to %s is not in the table of transitions", row.TaskID, row.State, to)
		}
		b.set(i, "state", string(to))
		b.set(i, "fence", row.Fence+1)
		// Fresh budgets: as many tries as the task has, on top of those made.
		retries := row.MaxTries
		if task := taskOf(def, row.TaskID); task != nil {
			retries = max(row.TryNumber+max(0, task.Retry.Retries), 0)
		} else {
			retries = max(retries, row.TryNumber)
		}
		b.set(i, "max_tries", retries)
		if row.State == string(dag.StateSuccess) {
			b.set(i, "generation", row.Generation+1)
		}
		if row.Replaying {
			endReplay(b, i, row)
		}
	}
	for _, column := range []string{"failure_count", "crash_count", "throttled_us"} {
		b.setAll(column, 0)
	}
	for _, column := range []string{"scheduled_at", "queued_at", "start_date", "end_date", "next_try_at", "first_failed_at", "skip_tasks"} {
		b.setAll(column, nil)
	}
	b.setAll("updated_at", t.at)
	if err := t.insertAttempts(ctx, stopped); err != nil {
		return err
	}
	if _, err := b.run(ctx, t); err != nil {
		return err
	}
	if err := t.refold(ctx, run, def, rows); err != nil {
		return err
	}
	if !dag.RunState(run.State).Finished() {
		return t.wakeRuns(ctx, []int64{run.ID})
	}
	return t.requeue(ctx, run.ID)
}

func taskOf(d *dag.DAG, id string) *dag.Task {
	if d == nil {
		return nil
	}
	return d.Task(id)
}

// clearedAttempt keeps the attempt of an instance that was cleared while it
// ran: its worker may write no more.
func (t *tx) clearedAttempt(row *instanceRow) dag.Attempt {
	start := t.now
	if row.StartDate.Valid {
		start = row.StartDate.Time
	}
	return dag.Attempt{
		TaskInstanceID: row.ID, Fence: row.Fence, TryNumber: row.TryNumber, State: dag.StateRestarting, WorkerID: row.WorkerID,
		Hostname: row.Hostname, StartDate: start, EndDate: t.now, ErrorMessage: "cleared while it ran",
	}
}

// resolveCleared closes the open letters of cleared instances: they run again.
func (t *tx) resolveCleared(ctx context.Context, rows []instanceRow, actor string) error {
	ids := make([]int64, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	return t.resolveOpen(ctx, ids, "('sealed', 'quarantined', 'replaying')", "the instance was cleared and runs again", actor)
}

// setLetterStatus changes letters and writes one audit row for each, in the
// transaction that carries the decision out.
func (t *tx) setLetterStatus(ctx context.Context, letters []dag.DeadLetter, status dag.LetterStatus, decision, reason, actor string) error {
	t.tally.decide(decision, len(letters))
	for part := range slices.Chunk(letters, chunk) {
		ids := make([]int64, len(part))
		args := make([]any, 0, 6*len(part))
		for i, l := range part {
			ids[i] = l.ID
			t.tally.change(l, status, l.ReturnCount)
			args = append(args, l.ID, decision, l.IdempotencyKey, clean(reason), short(actor, 250), t.at)
		}
		n, err := t.exec(ctx, "UPDATE dead_letter SET status = ?, updated_at = ? WHERE id IN ("+idList(ids)+")", string(status), t.at)
		if err != nil {
			return err
		}
		if n != int64(len(ids)) {
			return errors.New("letter " + strconv.FormatInt(ids[0], 10) + " or one after it was not there any more")
		}
		if _, err := t.exec(ctx, "INSERT INTO dead_letter_audit (dead_letter_id, decision, idempotency_key, reason, actor, decided_at) VALUES "+
			dialect.Rows(len(part), 6), args...); err != nil {
			return err
		}
	}
	return nil
}
