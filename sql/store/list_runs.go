package store

import (
	"context"
	"fmt"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// Runs implements Desk.
func (s *Store) Runs(ctx context.Context, f dag.RunFilter) ([]dag.Run, error) {
	var c condition
	c.eq("dag_id", f.DagID)
	c.eq("run_id", f.RunID)
	c.in("state", anys(f.States))
	c.in("run_type", anys(f.Types))
	if f.Since != nil {
		c.add("run_after >= ?", dialect.Stamp(*f.Since))
	}
	if f.Until != nil {
		c.add("run_after < ?", dialect.Stamp(*f.Until))
	}
	if f.Before > 0 {
		c.add("id < ?", f.Before)
	}
	var rows []runRow
	query := "SELECT " + runColumns + " FROM dag_run" + c.where() + " ORDER BY id DESC" + limit(f.Limit, 100)
	if err := s.db.Reader().SelectContext(ctx, &rows, query, c.args...); err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	out := make([]dag.Run, len(rows))
	for i, r := range rows {
		out[i] = r.model()
	}
	if f.WithTaskStates && len(out) > 0 {
		return out, s.countStates(ctx, out)
	}
	return out, nil
}

func (s *Store) countStates(ctx context.Context, runs []dag.Run) error {
	ids := make([]int64, len(runs))
	place := map[int64]int{}
	for i := range runs {
		ids[i] = runs[i].ID
		place[runs[i].ID] = i
		runs[i].TaskStates = map[dag.State]int{}
	}
	var counts []struct {
		Run   int64  `db:"dag_run_id"`
		State string `db:"state"`
		N     int    `db:"n"`
	}
	err := s.db.Reader().SelectContext(ctx, &counts, "SELECT dag_run_id, state, COUNT(*) AS n FROM task_instance WHERE dag_run_id IN ("+
		idList(ids)+") GROUP BY dag_run_id, state")
	if err != nil {
		return fmt.Errorf("count task states: %w", err)
	}
	for _, c := range counts {
		runs[place[c.Run]].TaskStates[dag.State(c.State)] = c.N
	}
	return nil
}

// Run implements Desk.
func (s *Store) Run(ctx context.Context, dagID, runID string) (dag.Run, error) {
	runs, err := s.Runs(ctx, dag.RunFilter{DagID: dagID, RunID: runID, Limit: 1, WithTaskStates: true})
	if err != nil {
		return dag.Run{}, err
	}
	if len(runs) == 0 || dagID == "" || runID == "" {
		return dag.Run{}, noRun(dagID, runID)
	}
	return runs[0], nil
}

// Instances implements Desk.
func (s *Store) Instances(ctx context.Context, f dag.InstanceFilter) ([]dag.TaskInstance, error) {
	var c condition
	// The run's number leads to its instances through their unique key.
	if f.DagID != "" || f.RunID != "" {
		var r condition
		r.eq("dag_id", f.DagID)
		r.eq("run_id", f.RunID)
		c.add("dag_run_id IN (SELECT id FROM dag_run"+r.where()+")", r.args...)
	}
	c.eq("task_id", f.TaskID)
	if f.MapIndex != nil {
		c.add("map_index = ?", *f.MapIndex)
	}
	c.in("state", anys(f.States))
	var rows []instanceRow
	query := "SELECT " + instanceColumns + ", payload FROM task_instance" + c.where() + " ORDER BY dag_run_id, task_id, map_index" + limit(f.Limit, 1000)
	if err := s.db.Reader().SelectContext(ctx, &rows, query, c.args...); err != nil {
		return nil, fmt.Errorf("list task instances: %w", err)
	}
	out := make([]dag.TaskInstance, len(rows))
	for i := range rows {
		out[i] = rows[i].model()
	}
	return out, nil
}
