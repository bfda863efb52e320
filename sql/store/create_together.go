package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// together tells whether runs may be made by one statement a table instead of
// one a run: on a server, where a statement is a round trip, and when none of
// them can be in another's way. One statement writes all of them or none.
func (t *tx) together(runs []dag.NewRun) bool {
	if t.s.db.IsSQLite() || len(runs) < 2 || len(runs) > chunk {
		return false
	}
	seen := make(map[string]bool, len(runs))
	for i := range runs {
		if seen[runs[i].Run.DagID] {
			return false
		}
		seen[runs[i].Run.DagID] = true
	}
	return true
}

// createTogether makes the runs of different DAGs. A run that is there already
// is an error, and has changed nothing.
func (t *tx) createTogether(ctx context.Context, runs []dag.NewRun) ([]dag.CreatedRun, error) {
	overtaken, err := t.lockPlans(ctx, runs)
	if err != nil {
		return nil, err
	}
	out := make([]dag.CreatedRun, len(runs))
	var values []any
	var which condition
	place := map[string]int{} // of the DAG that a run is made of
	for i := range runs {
		if overtaken[i] {
			out[i] = dag.CreatedRun{Run: runs[i].Run, Overtaken: true}
			continue
		}
		run := t.completeRun(runs[i].Run)
		out[i] = dag.CreatedRun{Run: run}
		values = append(values, t.runValues(&run)...)
		which.add("(dag_id = ? AND run_id = ?)", run.DagID, run.RunID)
		place[run.DagID] = i
	}
	if len(place) == 0 {
		return out, nil
	}
	if err := t.insertRows(ctx, runInsert, runMarks, "", runWidth, values); err != nil {
		return nil, err
	}
	if err := t.setPlans(ctx, runs, place); err != nil {
		return nil, err
	}
	var made []struct {
		ID    int64  `db:"id"`
		DagID string `db:"dag_id"`
	}
	if err := t.SelectContext(ctx, &made, "SELECT id, dag_id FROM dag_run WHERE "+strings.Join(which.parts, " OR "), which.args...); err != nil {
		return nil, err
	}
	if len(made) != len(place) {
		return nil, fmt.Errorf("%d of %d new runs are there", len(made), len(place))
	}
	values = values[:0]
	for _, m := range made {
		i := place[m.DagID]
		out[i].Run.ID = m.ID
		values = t.instanceValues(values, &out[i].Run, runs[i].Instances)
	}
	return out, t.insertInstances(ctx, values)
}

// lockPlans locks the rows of the DAGs whose plan is to move on and tells whose
// plan is not the one that was seen.
func (t *tx) lockPlans(ctx context.Context, runs []dag.NewRun) ([]bool, error) {
	var ids []string
	for i := range runs {
		if runs[i].AdvanceNext {
			ids = append(ids, runs[i].Run.DagID)
		}
	}
	overtaken := make([]bool, len(runs))
	if len(ids) == 0 {
		return overtaken, nil
	}
	var rows []struct {
		ID      string       `db:"dag_id"`
		Next    dialect.Time `db:"next_run_after"`
		Version int64        `db:"version_id"`
		Off     bool         `db:"off"`
	}
	slices.Sort(ids)
	if err := t.SelectContext(ctx, &rows, "SELECT dag_id, next_run_after, version_id, is_paused + is_stale > 0 AS off FROM dag"+t.force("PRIMARY")+" WHERE dag_id IN ("+dialect.Marks(len(ids))+
		") ORDER BY dag_id"+t.s.db.ForUpdate(), anys(ids)...); err != nil {
		return nil, err
	}
	for i := range runs {
		overtaken[i] = runs[i].AdvanceNext
		for _, r := range rows {
			if r.ID == runs[i].Run.DagID && !r.Off && r.Version == runs[i].Run.VersionID && r.Next.Valid && dialect.Stamp(r.Next.Time) == dialect.Stamp(runs[i].PlannedFor) {
				overtaken[i] = false
			}
		}
	}
	return overtaken, nil
}

// setPlans stores the next plans of DAGs that are locked.
func (t *tx) setPlans(ctx context.Context, runs []dag.NewRun, place map[string]int) error {
	var ids []string
	for id, i := range place {
		if runs[i].AdvanceNext {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	var q strings.Builder
	var args []any
	for n, column := range []string{"next_logical_date", "next_interval_start", "next_interval_end", "next_run_after"} {
		q.WriteString(column + " = CASE dag_id")
		for _, id := range ids {
			q.WriteString(" WHEN ? THEN ?")
			args = append(args, id, planArgs(runs[place[id]].Next)[n])
		}
		q.WriteString(" END, ")
	}
	args = append(append(args, t.at), anys(ids)...)
	_, err := t.exec(ctx, "UPDATE dag SET "+q.String()+"updated_at = ? WHERE dag_id IN ("+dialect.Marks(len(ids))+")", args...)
	return err
}
