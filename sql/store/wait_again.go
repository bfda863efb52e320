package store

import (
	"context"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// waitAgain lets what is below replayed tasks wait for them again: what became
// upstream_failed in their runs. What another failure holds up stays as it is.
// replayed has the tasks by run.
func (t *tx) waitAgain(ctx context.Context, replayed map[int64][]string) error {
	runs := make([]int64, 0, len(replayed))
	for id := range replayed {
		runs = append(runs, id)
	}
	slices.Sort(runs)
	versions, err := t.runVersions(ctx, runs)
	if err != nil {
		return err
	}
	type alike struct { // runs in which the same tasks are replayed
		version int64
		tasks   string
	}
	groups := map[alike][]int64{}
	var order []alike
	for _, run := range runs {
		tasks := slices.Compact(slices.Sorted(slices.Values(replayed[run])))
		k := alike{versions[run], strings.Join(tasks, "\x00")}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], run)
	}
	graphs := map[int64]*dag.Graph{}
	for _, k := range order {
		def, err := t.s.version(ctx, t, k.version)
		if err != nil && dag.CodeOf(err) != dag.ErrNotFound {
			return err
		}
		in, args := t.s.among(groups[k])
		var c condition
		c.add("dag_run_id IN "+in, args...)
		c.add("state = 'upstream_failed'")
		if def != nil { // else nobody knows what is below
			if len(def.Tasks) == 1 {
				continue
			}
			if graphs[k.version] == nil {
				graphs[k.version] = dag.NewGraph(def)
			}
			c.in("task_id", anys(graphs[k.version].ClearScope(strings.Split(k.tasks, "\x00"), false, true)))
		}
		if _, err := t.exec(ctx, "UPDATE task_instance SET state = 'none', start_date = NULL, end_date = NULL, updated_at = ?"+c.where(),
			append([]any{t.at}, c.args...)...); err != nil {
			return err
		}
	}
	return nil
}

// runVersions gives the DAG's version of each run.
func (t *tx) runVersions(ctx context.Context, runs []int64) (map[int64]int64, error) {
	var rows []struct {
		ID      int64 `db:"id"`
		Version int64 `db:"dag_version_id"`
	}
	in, args := t.s.among(runs)
	if err := t.SelectContext(ctx, &rows, "SELECT id, dag_version_id FROM dag_run WHERE id IN "+in, args...); err != nil {
		return nil, err
	}
	out := make(map[int64]int64, len(rows))
	for _, r := range rows {
		out[r.ID] = r.Version
	}
	return out, nil
}
