package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// CreateRuns makes runs with all their task instances, in one transaction. A
// run whose id or logical date is taken changes nothing but the DAG's next run,
// and is reported with the run that was there.
func (s *Store) CreateRuns(ctx context.Context, runs []dag.NewRun) ([]dag.CreatedRun, error) {
	var out []dag.CreatedRun
	err := s.write(ctx, "make runs", func(ctx context.Context, t *tx) error {
		out = make([]dag.CreatedRun, len(runs))
		for i := range runs {
			c, err := t.createRun(ctx, &runs[i])
			if err != nil {
				return fmt.Errorf("run %s of %s: %w", runs[i].Run.RunID, runs[i].Run.DagID, err)
			}
			out[i] = c
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (t *tx) createRun(ctx context.Context, n *dag.NewRun) (dag.CreatedRun, error) {
	if n.AdvanceNext {
		rows, err := t.setNextRun(ctx, n.Run.DagID, n.Next, &planGuard{runAfter: n.PlannedFor, version: n.Run.VersionID})
		if err != nil {
			return dag.CreatedRun{}, err
		}
		if rows == 0 {
			return dag.CreatedRun{Run: n.Run, Overtaken: true}, nil
		}
	}
	run := n.Run
	if run.State == "" {
		run.State = dag.RunQueued
	}
	if run.QueuedAt == nil {
		at := t.now
		run.QueuedAt = &at
	}
	if run.RunAfter.IsZero() {
		run.RunAfter = t.now
	}
	look := run.RunAfter
	if look.Before(t.now) {
		look = t.now
	}
	id, err := t.insert(ctx, `INSERT INTO dag_run (dag_id, run_id, run_type, state, logical_date, data_interval_start, data_interval_end,
 run_after, queued_at, start_date, end_date, reason, conf, triggered_by, note, clear_number, dag_version_id, next_eval_at, updated_at)
 VALUES (`+dialect.Marks(19)+`)`,
		run.DagID, run.RunID, string(run.Type), string(run.State), dialect.StampPtr(run.LogicalDate), dialect.StampPtr(run.DataIntervalStart),
		dialect.StampPtr(run.DataIntervalEnd), dialect.Stamp(run.RunAfter), dialect.StampPtr(run.QueuedAt), dialect.StampPtr(run.StartDate),
		dialect.StampPtr(run.EndDate), short(run.Reason, 100), nullJSON(run.Conf), short(run.TriggeredBy, 250), clean(run.Note),
		run.ClearNumber, run.VersionID, dialect.Stamp(look), t.at)
	if dialect.ClassOf(err) == dialect.ClassDuplicate {
		return t.existingRun(ctx, run, err)
	}
	if err != nil {
		return dag.CreatedRun{}, err
	}
	run.ID = id
	return dag.CreatedRun{Run: run}, t.insertInstances(ctx, &run, n.Instances)
}

// existingRun finds the run that holds the id or, failing that, the date. It
// reads with a lock, so that it sees a run that was committed meanwhile.
func (t *tx) existingRun(ctx context.Context, run dag.Run, cause error) (dag.CreatedRun, error) {
	var rows []runRow
	err := t.SelectContext(ctx, &rows, "SELECT "+runColumns+" FROM dag_run WHERE dag_id = ? AND run_id = ?"+t.s.db.ForUpdate(),
		run.DagID, run.RunID)
	if err == nil && len(rows) == 0 && run.LogicalDate != nil {
		err = t.SelectContext(ctx, &rows, "SELECT "+runColumns+" FROM dag_run WHERE dag_id = ? AND logical_date = ?"+t.s.db.ForUpdate(),
			run.DagID, dialect.Stamp(*run.LogicalDate))
	}
	if err != nil {
		return dag.CreatedRun{}, err
	}
	if len(rows) == 0 {
		return dag.CreatedRun{}, cause
	}
	return dag.CreatedRun{Run: rows[0].model(), Existed: true}, nil
}

// insertInstances makes the instances of a new run, in state none.
func (t *tx) insertInstances(ctx context.Context, run *dag.Run, list []dag.NewInstance) error {
	args := make([]any, 0, 13*len(list))
	for _, n := range list {
		args = append(args, run.ID, run.DagID, run.RunID, n.TaskID, n.MaxTries, short(n.Operator, 250), cmp.Or(n.Queue, dag.DefaultQueue),
			cmp.Or(n.Pool, dag.DefaultPool), max(1, n.PoolSlots), n.PriorityWeight, -n.PriorityWeight, run.VersionID, t.at)
	}
	return t.insertRows(ctx, instanceInsert, "("+dialect.Marks(13)+", -1, NULL, 'none', 0, 0, 0, 0, 0, '', '')", "", 13, args)
}

// instanceInsert is the beginning of an INSERT of fresh instances.
const instanceInsert = `INSERT INTO task_instance (dag_run_id, dag_id, run_id, task_id, max_tries, operator, queue, pool, pool_slots,
 priority_weight, claim_rank, dag_version_id, updated_at, map_index, payload, state, try_number, failure_count, crash_count, throttled_us, fence, worker_id, hostname) VALUES `

// LatestScheduledRun is the newest run of a DAG that its schedule made; nil
// when there is none.
func (s *Store) LatestScheduledRun(ctx context.Context, dagID string) (*dag.Run, error) {
	var rows []runRow
	err := s.db.Reader().SelectContext(ctx, &rows, "SELECT "+runColumns+` FROM dag_run
 WHERE dag_id = ? AND run_type = 'scheduled' AND logical_date IS NOT NULL ORDER BY logical_date DESC LIMIT 1`, dagID)
	if err != nil {
		return nil, fmt.Errorf("latest run of %s: %w", dagID, err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	run := rows[0].model()
	return &run, nil
}

func noRun(dagID, runID string) error {
	return &dag.Error{
		Code: dag.ErrNotFound, Op: "run " + runID + " of " + dagID, Hint: "airlock dags list-runs " + dagID + " shows its runs",
		Err: errors.New("there is none"),
	}
}
