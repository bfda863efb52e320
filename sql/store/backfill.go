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

// CreateBackfill makes the runs of a backfill, in the order given, in one
// transaction. A date that has a run already is treated as b.Reprocess says:
// its run is cleared, becomes a backfill run and takes the backfill's conf, or
// it is left alone. A DAG has one unfinished backfill at a time (ErrConflict).
// A dry run tells what would be done and changes nothing.
func (s *Store) CreateBackfill(ctx context.Context, b dag.Backfill, runs []dag.NewRun, dryRun bool) (dag.Backfill, []dag.BackfillRun, error) {
	var out []dag.BackfillRun
	made := b
	err := s.write(ctx, "backfill "+b.DagID, func(ctx context.Context, t *tx) error {
		out, made = make([]dag.BackfillRun, len(runs)), b
		made.CreatedAt, made.RunStates, made.Skipped = t.now, map[dag.RunState]int{}, 0
		if err := t.lockForBackfill(ctx, b.DagID); err != nil {
			return err
		}
		existing, err := t.runsOfDates(ctx, b.DagID, runs)
		if err != nil {
			return err
		}
		for i := range runs {
			old := existing[i]
			out[i] = dag.BackfillRun{Ordinal: i + 1, LogicalDate: *runs[i].Run.LogicalDate, Action: dag.BackfillCreate, RunID: runs[i].Run.RunID}
			if old != nil {
				out[i].RunID, out[i].Action = old.RunID, actionFor(b.Reprocess, dag.RunState(old.State))
			}
			if out[i].Action == dag.BackfillCreate || out[i].Action == dag.BackfillClear {
				made.RunStates[dag.RunQueued]++
			} else {
				made.Skipped++
			}
		}
		if dryRun {
			return nil
		}
		id, err := t.insert(ctx, `INSERT INTO backfill (dag_id, from_date, to_date, max_active_runs, reprocess_behavior, run_backwards, conf, actor, created_at)
 VALUES (`+dialect.Marks(9)+`)`, b.DagID, dialect.Stamp(b.From), dialect.Stamp(b.To), b.MaxActiveRuns, string(b.Reprocess), boolInt(b.RunBackwards),
			nullJSON(b.Conf), short(b.Actor, 250), t.at)
		if err != nil {
			return err
		}
		made.ID = id
		runIDs := make([]any, len(runs))
		for i := range runs {
			if runIDs[i], err = t.backfillDate(ctx, &out[i], &runs[i], existing[i], b); err != nil {
				return fmt.Errorf("run %s: %w", out[i].RunID, err)
			}
		}
		if err := t.backfillRows(ctx, id, out, runIDs); err != nil {
			return err
		}
		if err := t.letWait(ctx, runIDs, b.MaxActiveRuns); err != nil {
			return err
		}
		return t.audit(ctx, dag.AuditEntry{Actor: b.Actor, Action: "backfill", Subject: b.DagID, Detail: mustJSON(map[string]any{
			"backfill_id": id, "from_date": b.From, "to_date": b.To, "runs": made.RunStates[dag.RunQueued], "skipped": made.Skipped,
		})})
	})
	if err != nil {
		return dag.Backfill{}, nil, err
	}
	return made, out, nil
}

func actionFor(b dag.ReprocessBehavior, state dag.RunState) dag.BackfillAction {
	switch {
	case !state.Finished():
		return dag.BackfillFlight
	case b.Redoes(state):
		return dag.BackfillClear
	default:
		return dag.BackfillExists
	}
}

// lockForBackfill locks the DAG and refuses one that has a backfill under way.
func (t *tx) lockForBackfill(ctx context.Context, dagID string) error {
	var locked []string
	if err := t.SelectContext(ctx, &locked, "SELECT dag_id FROM dag WHERE dag_id = ?"+t.s.db.ForUpdate(), dagID); err != nil {
		return err
	}
	if len(locked) == 0 {
		return noDAG(dagID)
	}
	var open []int64
	if err := t.SelectContext(ctx, &open, `SELECT b.backfill_id FROM dag_run r JOIN backfill_run b ON b.dag_run_id = r.id
 WHERE r.dag_id = ? AND r.state IN ('queued', 'running') ORDER BY b.backfill_id DESC LIMIT 1`, dagID); err != nil || len(open) == 0 {
		return err
	}
	return &dag.Error{
		Code: dag.ErrConflict, Op: "backfill " + dagID, Err: errors.New("backfill " + strconv.FormatInt(open[0], 10) + " of this DAG has not ended"),
		Hint: "wait for it; `airlock backfill list --dag-id " + dagID + "` shows how far it is",
	}
}

// runsOfDates finds and locks the runs that hold the dates or ids of new ones;
// nil for each that has none.
func (t *tx) runsOfDates(ctx context.Context, dagID string, runs []dag.NewRun) ([]*runRow, error) {
	byDate, byID := map[string]*runRow{}, map[string]*runRow{}
	for part := range slices.Chunk(runs, chunk) {
		args := []any{dagID}
		for i := range part {
			args = append(args, dialect.Stamp(*part[i].Run.LogicalDate))
		}
		for i := range part {
			args = append(args, part[i].Run.RunID)
		}
		var rows []runRow
		if err := t.SelectContext(ctx, &rows, "SELECT "+runColumns+" FROM dag_run WHERE dag_id = ? AND (logical_date IN ("+dialect.Marks(len(part))+
			") OR run_id IN ("+dialect.Marks(len(part))+")) ORDER BY id"+t.s.db.ForUpdate(), args...); err != nil {
			return nil, err
		}
		for i := range rows {
			byID[rows[i].RunID] = &rows[i]
			if rows[i].LogicalDate.Valid {
				byDate[dialect.Stamp(rows[i].LogicalDate.Time)] = &rows[i]
			}
		}
	}
	out := make([]*runRow, len(runs))
	for i := range runs {
		out[i] = byDate[dialect.Stamp(*runs[i].Run.LogicalDate)]
		if out[i] == nil {
			out[i] = byID[runs[i].Run.RunID]
		}
	}
	return out, nil
}

// backfillDate carries out what was decided about one date, and gives the
// number of its run; nil when that is left alone.
func (t *tx) backfillDate(ctx context.Context, r *dag.BackfillRun, n *dag.NewRun, old *runRow, b dag.Backfill) (any, error) {
	switch r.Action {
	case dag.BackfillCreate:
		c, err := t.createRun(ctx, n)
		if err != nil {
			return nil, err
		}
		if c.Existed { // made since it was looked for
			r.Action = actionFor(dag.ReprocessNone, c.Run.State)
			return nil, nil
		}
		return c.Run.ID, nil
	case dag.BackfillClear:
		return old.ID, t.redo(ctx, old, b)
	case dag.BackfillExists, dag.BackfillFlight:
	}
	return nil, nil
}

// backfillRows keeps what was done about each date.
func (t *tx) backfillRows(ctx context.Context, id int64, dates []dag.BackfillRun, runIDs []any) error {
	args := make([]any, 0, 5*chunk)
	for i, r := range dates {
		args = append(args, id, r.Ordinal, dialect.Stamp(r.LogicalDate), runIDs[i], string(r.Action))
		if len(args) < 5*chunk && i+1 < len(dates) {
			continue
		}
		if _, err := t.exec(ctx, "INSERT INTO backfill_run (backfill_id, ordinal, logical_date, dag_run_id, action) VALUES "+
			dialect.Rows(len(args)/5, 5), args...); err != nil {
			return err
		}
		args = args[:0]
	}
	return nil
}

// letWait keeps the scheduler from looking at all runs of a new backfill at
// once: those behind the first n are woken when their turn comes.
func (t *tx) letWait(ctx context.Context, runIDs []any, n int) error {
	var ids []int64
	for _, id := range runIDs {
		if id, ok := id.(int64); ok {
			ids = append(ids, id)
		}
	}
	for part := range slices.Chunk(ids[min(n, len(ids)):], chunk) {
		if _, err := t.exec(ctx, "UPDATE dag_run SET next_eval_at = NULL WHERE state = 'queued' AND id IN ("+idList(part)+")"); err != nil {
			return err
		}
	}
	return nil
}

// redo clears all of a finished run and makes it a run of the backfill.
func (t *tx) redo(ctx context.Context, run *runRow, b dag.Backfill) error {
	rows, err := t.toClear(ctx, run.ID, dag.ClearRequest{})
	if err != nil {
		return err
	}
	if len(rows) > 0 {
		if err := t.clear(ctx, run, rows); err != nil {
			return err
		}
		if err := t.resolveCleared(ctx, rows, b.Actor); err != nil {
			return err
		}
	} else if err := t.requeue(ctx, run.ID); err != nil {
		return err
	}
	if run.Type != string(dag.RunBackfill) {
		if _, err := t.exec(ctx, "UPDATE task_instance SET priority_weight = priority_weight - ?, claim_rank = claim_rank + ? WHERE dag_run_id = ?",
			dag.BackfillPriority, dag.BackfillPriority, run.ID); err != nil {
			return err
		}
	}
	_, err = t.exec(ctx, "UPDATE dag_run SET run_type = 'backfill', triggered_by = 'backfill', conf = ? WHERE id = ?", nullJSON(b.Conf), run.ID)
	return err
}

// Backfills lists the backfills of a DAG, of all for "", newest first.
func (s *Store) Backfills(ctx context.Context, dagID string) ([]dag.Backfill, error) {
	var c condition
	c.eq("dag_id", dagID)
	var rows []struct {
		ID        int64        `db:"id"`
		DagID     string       `db:"dag_id"`
		From      dialect.Time `db:"from_date"`
		To        dialect.Time `db:"to_date"`
		Max       int          `db:"max_active_runs"`
		Reprocess string       `db:"reprocess_behavior"`
		Backwards bool         `db:"run_backwards"`
		Conf      *string      `db:"conf"`
		Actor     string       `db:"actor"`
		CreatedAt dialect.Time `db:"created_at"`
	}
	if err := s.db.Reader().SelectContext(ctx, &rows, `SELECT id, dag_id, from_date, to_date, max_active_runs, reprocess_behavior, run_backwards,
 conf, actor, created_at FROM backfill`+c.where()+" ORDER BY id DESC", c.args...); err != nil {
		return nil, fmt.Errorf("list backfills: %w", err)
	}
	out := make([]dag.Backfill, len(rows))
	place := map[int64]int{}
	for i, r := range rows {
		place[r.ID] = i
		out[i] = dag.Backfill{
			ID: r.ID, DagID: r.DagID, From: r.From.Time, To: r.To.Time, MaxActiveRuns: r.Max, Reprocess: dag.ReprocessBehavior(r.Reprocess),
			RunBackwards: r.Backwards, Conf: rawOrNil(r.Conf), Actor: r.Actor, CreatedAt: r.CreatedAt.Time, RunStates: map[dag.RunState]int{},
		}
	}
	var counts []struct {
		ID    int64   `db:"backfill_id"`
		State *string `db:"state"`
		N     int     `db:"n"`
	}
	if err := s.db.Reader().SelectContext(ctx, &counts, `SELECT b.backfill_id, r.state, COUNT(*) AS n FROM backfill_run b
 LEFT JOIN dag_run r ON r.id = b.dag_run_id GROUP BY b.backfill_id, r.state`); err != nil {
		return nil, fmt.Errorf("count the runs of backfills: %w", err)
	}
	for _, n := range counts {
		i, listed := place[n.ID]
		switch {
		case !listed:
		case n.State == nil:
			out[i].Skipped += n.N
		default:
			out[i].RunStates[dag.RunState(*n.State)] += n.N
		}
	}
	return out, nil
}

// backfillsOf tells which backfill runs belong to: the newest that has them.
func (t *tx) backfillsOf(ctx context.Context, runs []*passRun) (map[int64]int64, error) {
	var ids []int64
	for _, r := range runs {
		if r.run.Type == dag.RunBackfill {
			ids = append(ids, r.run.ID)
		}
	}
	out := map[int64]int64{}
	if len(ids) == 0 {
		return out, nil
	}
	slices.Sort(ids)
	var rows []struct {
		Run      int64 `db:"dag_run_id"`
		Backfill int64 `db:"backfill_id"`
	}
	if err := t.SelectContext(ctx, &rows, "SELECT dag_run_id, MAX(backfill_id) AS backfill_id FROM backfill_run WHERE dag_run_id IN ("+
		idList(ids)+") GROUP BY dag_run_id"); err != nil {
		return nil, err
	}
	for _, r := range rows {
		out[r.Run] = r.Backfill
	}
	return out, nil
}

// nextOfBackfill lists the first n queued runs of a backfill, in its order.
func (t *tx) nextOfBackfill(ctx context.Context, backfill int64, n int) ([]int64, error) {
	if n <= 0 {
		return nil, nil
	}
	var ids []int64
	err := t.SelectContext(ctx, &ids, `SELECT b.dag_run_id FROM backfill_run b JOIN dag_run r ON r.id = b.dag_run_id
 WHERE b.backfill_id = ? AND r.state = 'queued' ORDER BY b.ordinal`+limit(n, n), backfill)
	return ids, err
}

// firstOfBackfill tells whether a run is the first of its backfill: it looks at
// nothing before it.
func (t *tx) firstOfBackfill(ctx context.Context, run *dag.Run) (bool, error) {
	if run.Type != dag.RunBackfill {
		return false, nil
	}
	var first []int64
	err := t.SelectContext(ctx, &first, `SELECT b.dag_run_id FROM backfill_run b WHERE b.dag_run_id IS NOT NULL AND b.backfill_id =
 (SELECT MAX(m.backfill_id) FROM backfill_run m WHERE m.dag_run_id = ?) ORDER BY b.ordinal LIMIT 1`, run.ID)
	return err == nil && len(first) > 0 && first[0] == run.ID, err
}

// requeue lets a finished run begin anew.
func (t *tx) requeue(ctx context.Context, runID int64) error {
	_, err := t.exec(ctx, `UPDATE dag_run SET state = 'queued', queued_at = ?, start_date = NULL, end_date = NULL, reason = '',
 clear_number = clear_number + 1, is_replay = 0, next_eval_at = ?, updated_at = ? WHERE id = ?`, t.at, t.at, t.at, runID)
	return err
}
