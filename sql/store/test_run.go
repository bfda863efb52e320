package store

import (
	"context"

	"github.com/airlock-dag/airlock/dag"
)

// CreateTestRun makes a run to be carried out in the foreground. A run by hand
// that holds its logical date, such as an earlier test, gives the date up: it
// stays in the history, its open letters are resolved, and what of it has not
// begun is skipped. A run that works right now, or one that the schedule or a
// backfill made, keeps its date: it is reported as Existed, and nothing is
// changed.
func (s *Store) CreateTestRun(ctx context.Context, n dag.NewRun, actor string) (dag.CreatedRun, error) {
	var out dag.CreatedRun
	err := s.write(ctx, "test "+n.Run.DagID, func(ctx context.Context, t *tx) error {
		if n.Run.LogicalDate != nil {
			old, err := t.runsOfDates(ctx, n.Run.DagID, []dag.NewRun{n})
			if err != nil {
				return err
			}
			if old[0] != nil && old[0].LogicalDate.Valid {
				gone, err := t.giveWay(ctx, old[0].model())
				if err == nil && !gone {
					gone, err = t.giveUpDate(ctx, old[0], n.Run.RunID, actor)
				}
				if err != nil || !gone {
					out = dag.CreatedRun{Run: old[0].model(), Existed: true}
					return err
				}
			}
		}
		var err error
		out, err = t.createRun(ctx, &n)
		return err
	})
	return out, err
}

// atWork tells whether an instance is in somebody's hands: a worker's whose
// lease has not ended, or a replay's.
func (t *tx) atWork(row *instanceRow) bool {
	switch dag.State(row.State) {
	case dag.StateRunning, dag.StateRestarting:
		return row.LeaseUntil.Valid && row.LeaseUntil.Time.After(t.now)
	case dag.StateDeferred:
		return true
	default:
		return row.Replaying
	}
}

// giveUpDate takes a run's logical date away for the run that is named next, if
// it may.
func (t *tx) giveUpDate(ctx context.Context, run *runRow, next, actor string) (bool, error) {
	if run.Type != string(dag.RunManual) {
		return false, nil
	}
	var rows []instanceRow
	if err := t.SelectContext(ctx, &rows, "SELECT "+instanceColumns+" FROM task_instance WHERE dag_run_id = ? ORDER BY id"+t.s.db.ForUpdate(), run.ID); err != nil {
		return false, err
	}
	ids := make([]int64, 0, len(rows))
	var open []int64
	for i := range rows {
		if t.atWork(&rows[i]) {
			return false, nil
		}
		if ids = append(ids, rows[i].ID); !dag.State(rows[i].State).Finished() {
			open = append(open, rows[i].ID)
		}
	}
	if len(open) > 0 {
		in, args := t.s.among(open)
		if _, err := t.exec(ctx, "UPDATE task_instance SET state = 'skipped', fence = fence + 1, lease_until = NULL, next_try_at = NULL, end_date = ?, updated_at = ? WHERE id IN "+in,
			append([]any{t.at, t.at}, args...)...); err != nil {
			return false, err
		}
	}
	if len(ids) > 0 {
		if err := t.resolveOpen(ctx, ids, "('sealed', 'quarantined')", "tested again as "+next, actor); err != nil {
			return false, err
		}
	}
	if _, err := t.exec(ctx, "UPDATE dag_run SET logical_date = NULL, updated_at = ? WHERE id = ?", t.at, run.ID); err != nil {
		return false, err
	}
	if !dag.RunState(run.State).Finished() {
		if _, err := t.exec(ctx, "UPDATE dag_run SET state = 'failed', reason = ?, end_date = ?, next_eval_at = NULL WHERE id = ?",
			dag.ReasonReplaced, t.at, run.ID); err != nil {
			return false, err
		}
	}
	return true, t.audit(ctx, dag.AuditEntry{
		Actor: actor, Action: "test", Subject: run.DagID + "/" + run.RunID, Detail: mustJSON(map[string]any{"replaced_by": next}),
	})
}
