package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// CreateRuns makes runs with all their task instances, in one transaction. A
// run whose id or logical date is taken changes nothing but the DAG's next run,
// and is reported with the run that was there.
func (s *Store) CreateRuns(ctx context.Context, runs []dag.NewRun) ([]dag.CreatedRun, error) {
	var out []dag.CreatedRun
	err := s.write(ctx, "make runs", func(ctx context.Context, t *tx) error {
		var err error
		if t.together(runs) {
			out, err = t.createTogether(ctx, runs)
			if dialect.ClassOf(err) != dialect.ClassDuplicate {
				return err
			}
			// One of them is there already: which one shows.
		}
		out, err = t.createEach(ctx, runs)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// createEach makes runs one by one, and the instances of many of them at once.
func (t *tx) createEach(ctx context.Context, runs []dag.NewRun) ([]dag.CreatedRun, error) {
	out := make([]dag.CreatedRun, len(runs))
	var instances []any
	for i := range runs {
		c, err := t.createRow(ctx, &runs[i])
		if err == nil && !c.Overtaken && !c.Existed {
			instances = t.instanceValues(instances, &c.Run, runs[i].Instances)
		}
		if err == nil && (len(instances) >= chunk*instanceWidth || i == len(runs)-1) {
			err = t.insertInstances(ctx, instances)
			instances = instances[:0]
		}
		if err != nil {
			return nil, fmt.Errorf("run %s of %s: %w", runs[i].Run.RunID, runs[i].Run.DagID, err)
		}
		out[i] = c
	}
	return out, nil
}

// createRun makes a run with its instances.
func (t *tx) createRun(ctx context.Context, n *dag.NewRun) (dag.CreatedRun, error) {
	out, err := t.createEach(ctx, []dag.NewRun{*n})
	if err != nil {
		return dag.CreatedRun{}, err
	}
	return out[0], nil
}

// createRow makes the row of a run.
func (t *tx) createRow(ctx context.Context, n *dag.NewRun) (dag.CreatedRun, error) {
	if n.AdvanceNext {
		rows, err := t.setNextRun(ctx, n.Run.DagID, n.Next, &planGuard{runAfter: n.PlannedFor, version: n.Run.VersionID})
		if err != nil {
			return dag.CreatedRun{}, err
		}
		if rows == 0 {
			return dag.CreatedRun{Run: n.Run, Overtaken: true}, nil
		}
	}
	run := t.completeRun(n.Run)
	id, err := t.insert(ctx, runInsert+runMarks, t.runValues(&run)...)
	if dialect.ClassOf(err) == dialect.ClassDuplicate {
		existing, err := t.existingRun(ctx, run, err)
		if err != nil || n.AdvanceNext {
			return existing, err
		}
		if gone, err := t.giveWay(ctx, existing.Run); err != nil || !gone {
			return existing, err
		}
		return t.createRow(ctx, n)
	}
	if err != nil {
		return dag.CreatedRun{}, err
	}
	run.ID = id
	return dag.CreatedRun{Run: run}, nil
}

// completeRun fills in what the caller left out of a new run.
func (t *tx) completeRun(run dag.Run) dag.Run {
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
	return run
}

// runInsert is the beginning of an INSERT of runs, runMarks the place of one.
const (
	runInsert = `INSERT INTO dag_run (dag_id, run_id, run_type, state, logical_date, data_interval_start, data_interval_end,
 run_after, queued_at, start_date, end_date, reason, conf, triggered_by, note, clear_number, dag_version_id, next_eval_at, updated_at, asked_by) VALUES `
	runMarks = "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
	runWidth = 20
)

func (t *tx) runValues(run *dag.Run) []any {
	look := run.RunAfter
	if look.Before(t.now) {
		look = t.now
	}
	return []any{
		run.DagID, run.RunID, string(run.Type), string(run.State), dialect.StampPtr(run.LogicalDate), dialect.StampPtr(run.DataIntervalStart),
		dialect.StampPtr(run.DataIntervalEnd), dialect.Stamp(run.RunAfter), dialect.StampPtr(run.QueuedAt), dialect.StampPtr(run.StartDate),
		dialect.StampPtr(run.EndDate), short(run.Reason, 100), nullJSON(run.Conf), short(run.TriggeredBy, 250), clean(run.Note),
		run.ClearNumber, run.VersionID, dialect.Stamp(look), t.at, sql.NullInt64{Int64: run.AskedBy, Valid: run.AskedBy != 0},
	}
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

// instanceValues adds the values of the instances of a new run.
func (t *tx) instanceValues(args []any, run *dag.Run, list []dag.NewInstance) []any {
	args = slices.Grow(args, instanceWidth*len(list))
	for _, n := range list {
		args = append(args, run.ID, run.DagID, run.RunID, n.TaskID, n.MaxTries, short(n.Operator, 250), cmp.Or(n.Queue, dag.DefaultQueue),
			cmp.Or(n.Pool, dag.DefaultPool), max(1, n.PoolSlots), n.PriorityWeight, -n.PriorityWeight, run.VersionID, t.at)
	}
	return args
}

// insertInstances makes instances of new runs, in state none.
func (t *tx) insertInstances(ctx context.Context, args []any) error {
	return t.insertRows(ctx, instanceInsert, "("+dialect.Marks(instanceWidth)+", -1, NULL, 'none', 0, 0, 0, 0, 0, '', '')", "", instanceWidth, args)
}

// instanceWidth is how many values an INSERT of fresh instances is given for
// each, and instanceInsert its beginning.
const instanceWidth = 13

const instanceInsert = `INSERT INTO task_instance (dag_run_id, dag_id, run_id, task_id, max_tries, operator, queue, pool, pool_slots,
 priority_weight, claim_rank, dag_version_id, updated_at, map_index, payload, state, try_number, failure_count, crash_count, throttled_us, fence, worker_id, hostname) VALUES `

// LatestScheduledRun is the newest run of a DAG that its schedule made; nil
// when there is none. One that was made ahead and has not started does not count:
// it is the next.
func (s *Store) LatestScheduledRun(ctx context.Context, dagID string) (*dag.Run, error) {
	var rows []runRow
	err := s.db.Reader().SelectContext(ctx, &rows, "SELECT "+runColumns+` FROM dag_run
 WHERE dag_id = ? AND run_type = 'scheduled' AND logical_date IS NOT NULL AND NOT (`+isAhead+`) ORDER BY logical_date DESC LIMIT 1`, dagID)
	if err != nil {
		return nil, fmt.Errorf("latest run of %s: %w", dagID, err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	run := rows[0].model()
	return &run, nil
}

// LatestScheduledRuns are the newest runs that the schedules of some DAGs made,
// by DAG, also those that were made ahead; DAGs without one are not in it.
func (s *Store) LatestScheduledRuns(ctx context.Context, dagIDs []string) (map[string]dag.Run, error) {
	out := make(map[string]dag.Run, len(dagIDs))
	for part := range slices.Chunk(dagIDs, chunk) {
		var rows []runRow
		err := s.db.Reader().SelectContext(ctx, &rows, "SELECT "+runColumns+` FROM dag_run WHERE id IN (SELECT
 (SELECT x.id FROM dag_run x WHERE x.dag_id = d.dag_id AND x.run_type = 'scheduled' AND x.logical_date IS NOT NULL ORDER BY x.logical_date DESC LIMIT 1)
 FROM dag d WHERE d.dag_id IN (`+dialect.Marks(len(part))+"))", anys(part)...)
		if err != nil {
			return nil, fmt.Errorf("latest runs: %w", err)
		}
		for _, r := range rows {
			out[r.DagID] = r.model()
		}
	}
	return out, nil
}

func noRun(dagID, runID string) error {
	return &dag.Error{
		Code: dag.ErrNotFound, Op: "run " + runID + " of " + dagID, Hint: "airlock dags list-runs " + dagID + " shows its runs",
		Err: errors.New("there is none"),
	}
}
