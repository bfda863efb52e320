package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// A scheduler makes runs a little ahead of their time, so that at the due instant
// they only have to start. Until one has started it is no more than a plan, and
// whatever would have kept the schedule from making it takes it back: the row
// goes, and the DAG's plan is what it was before.

// isAhead is the condition for runs that were made ahead of their time and have
// not started: queued before they were due. One that was cleared, or is replayed,
// has started once.
const isAhead = "run_type = 'scheduled' AND state = 'queued' AND start_date IS NULL AND clear_number = 0 AND is_replay = 0 AND queued_at < run_after"

// madeAhead is isAhead of a run that was read.
func madeAhead(r *dag.Run) bool {
	return r.Type == dag.RunScheduled && r.State == dag.RunQueued && r.StartDate == nil && r.ClearNumber == 0 && !r.IsReplay &&
		r.QueuedAt != nil && r.QueuedAt.Before(r.RunAfter)
}

// RunsAhead are the runs that were made ahead and have not started, the earliest
// of each DAG, by DAG; of all DAGs when none are named. While such a run is there it
// is what its DAG runs next, and the plan in the DAG's row is the one after it.
func (s *Store) RunsAhead(ctx context.Context, dagIDs []string) (map[string]dag.PlannedRun, error) {
	out := map[string]dag.PlannedRun{}
	look := func(of string, args ...any) error {
		var rows []runRow
		if err := s.db.Reader().SelectContext(ctx, &rows, "SELECT "+runColumns+" FROM dag_run WHERE "+isAhead+of, args...); err != nil {
			return fmt.Errorf("runs made ahead: %w", err)
		}
		for i := range rows {
			r := rows[i].model()
			p := r.Planned()
			if first, found := out[r.DagID]; p != nil && (!found || p.RunAfter.Before(first.RunAfter)) {
				out[r.DagID] = *p
			}
		}
		return nil
	}
	if len(dagIDs) == 0 {
		return out, look("")
	}
	for part := range slices.Chunk(dagIDs, chunk) {
		if err := look(" AND dag_id IN ("+dialect.Marks(len(part))+")", anys(part)...); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// takeBackOf takes back what was made ahead of some DAGs, whose rows are locked.
// A run that another scheduler holds is about to start, if that scheduler finds
// nothing against it when it gets the DAG's row.
func (t *tx) takeBackOf(ctx context.Context, dagIDs []string) error {
	for part := range slices.Chunk(dagIDs, chunk) {
		ids, err := t.freeRuns(ctx, "dag_id IN ("+dialect.Marks(len(part))+") AND "+isAhead, anys(part)...)
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			continue
		}
		var rows []runRow
		in, args := t.s.among(ids)
		if err := t.SelectContext(ctx, &rows, "SELECT "+runColumns+" FROM dag_run WHERE id IN "+in+" ORDER BY id", args...); err != nil {
			return err
		}
		runs := make([]dag.Run, len(rows))
		for i := range rows {
			runs[i] = rows[i].model()
		}
		if _, err := t.takeBack(ctx, runs); err != nil {
			return err
		}
	}
	return nil
}

// takeBack takes back runs that were made ahead, which are locked, and puts each
// DAG's plan back to the earliest of its own. A run in which anything has begun is
// no plan, whatever its row says: that stays. It gives the ids of those that went.
func (t *tx) takeBack(ctx context.Context, runs []dag.Run) ([]int64, error) {
	if len(runs) == 0 {
		return nil, nil
	}
	ids := make([]int64, len(runs))
	for i := range runs {
		ids[i] = runs[i].ID
	}
	in, args := t.s.among(ids)
	var begun []int64
	if err := t.SelectContext(ctx, &begun, "SELECT dag_run_id FROM task_instance WHERE dag_run_id IN "+in+" AND (state <> 'none' OR fence > 0)", args...); err != nil {
		return nil, err
	}
	if len(begun) > 0 {
		runs = slices.DeleteFunc(runs, func(r dag.Run) bool { return slices.Contains(begun, r.ID) })
		return t.takeBack(ctx, runs)
	}
	for _, q := range []string{"DELETE FROM task_instance WHERE dag_run_id IN ", "DELETE FROM dag_run WHERE id IN "} {
		if _, err := t.exec(ctx, q+in, args...); err != nil {
			return nil, err
		}
	}
	for i := range runs {
		r := &runs[i]
		due := dialect.Stamp(r.RunAfter)
		if _, err := t.exec(ctx, `UPDATE dag SET next_logical_date = ?, next_interval_start = ?, next_interval_end = ?, next_run_after = ?, updated_at = ?
 WHERE dag_id = ? AND (next_run_after IS NULL OR next_run_after > ?)`, dialect.StampPtr(r.LogicalDate), dialect.StampPtr(r.DataIntervalStart), dialect.StampPtr(r.DataIntervalEnd), due, t.at, r.DagID, due); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// giveWay takes a run back that was made ahead and is not due, for one that
// somebody wants with its date or id now: it tells whether it did.
func (t *tx) giveWay(ctx context.Context, run dag.Run) (bool, error) {
	if !madeAhead(&run) || !run.RunAfter.After(t.now) {
		return false, nil
	}
	gone, err := t.takeBack(ctx, []dag.Run{run})
	return len(gone) > 0, err
}

// superseded finds, among runs that may start now, those that were made ahead of
// a time which is long over, nobody having looked since, and that their DAG would
// pass over now for a later tick: one without catchup makes only its latest. The
// DAGs' rows are locked.
func (t *tx) superseded(ctx context.Context, runs []*passRun) (map[int64]bool, error) {
	var ids []int64
	for _, r := range runs {
		// Ticks are a second apart at least: no later one can be over before.
		if !madeAhead(&r.run) || t.now.Sub(r.run.RunAfter) < time.Second {
			continue
		}
		def, err := t.s.version(ctx, t, r.run.VersionID)
		if err != nil && dag.CodeOf(err) != dag.ErrNotFound {
			return nil, err
		}
		if def != nil && !def.Catchup {
			ids = append(ids, r.run.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	in, args := t.s.among(ids)
	var old []int64
	if err := t.SelectContext(ctx, &old, "SELECT r.id FROM dag_run r WHERE r.id IN "+in+` AND
 (EXISTS (SELECT 1 FROM dag d WHERE d.dag_id = r.dag_id AND d.next_run_after <= ?) OR EXISTS
 (SELECT 1 FROM dag_run n WHERE n.dag_id = r.dag_id AND n.run_type = 'scheduled' AND n.logical_date > r.logical_date AND n.run_after <= ?))`,
		append(args, t.at, t.at)...); err != nil {
		return nil, err
	}
	out := make(map[int64]bool, len(old))
	for _, id := range old {
		out[id] = true
	}
	return out, nil
}
