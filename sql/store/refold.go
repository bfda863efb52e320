package store

import (
	"context"

	"github.com/airlock-dag/airlock/dag"
)

// refold makes mapped tasks unexpanded again whose values are made anew: some
// task that they come from was cleared, and all their instances wait to run. The
// first instance waits for the new values; the others are removed until the
// expansion brings them back. A mapped group is folded as a whole. What is not
// wholly cleared keeps its instances and their values.
func (t *tx) refold(ctx context.Context, run *runRow, def *dag.DAG, rows []instanceRow) error {
	if def == nil {
		return nil
	}
	again := map[string]bool{}
	for i := range rows {
		again[rows[i].TaskID] = true
	}
	done := map[string]bool{}
	for i := range def.Tasks { // in topological order: a folded task is a source, too
		task := &def.Tasks[i]
		expand, tasks := task.Expand, []string{task.ID}
		if group := def.MappedGroup(task); group != nil && expand == nil {
			if expand, tasks = group.Expand, tasksOf(def, group); done[group.ID] {
				continue
			}
			done[group.ID] = madeAnew(def, expand, tasks, again)
		}
		if expand == nil || !madeAnew(def, expand, tasks, again) {
			continue
		}
		folded, err := t.fold(ctx, run.ID, tasks)
		if err != nil {
			return err
		}
		if folded {
			for _, id := range tasks {
				again[id] = true
			}
		}
	}
	return nil
}

// tasksOf lists the tasks that are expanded with a mapped group.
func tasksOf(def *dag.DAG, group *dag.Group) []string {
	var ids []string
	for i := range def.Tasks {
		if def.MappedGroup(&def.Tasks[i]) == group && def.Tasks[i].Expand == nil {
			ids = append(ids, def.Tasks[i].ID)
		}
	}
	return ids
}

// madeAnew tells whether the values of an expansion come from a task that runs
// again: one whose XCom it is, or one that a pattern of files waits for.
func madeAnew(def *dag.DAG, e *dag.Expand, tasks []string, again map[string]bool) bool {
	files := false
	from := func(s dag.ExpandSource) bool {
		files = files || s.Glob != ""
		return s.XCom != "" && again[s.XCom]
	}
	if e.Kwargs != nil && from(*e.Kwargs) {
		return true
	}
	for _, s := range e.Args {
		if from(s) {
			return true
		}
	}
	if !files {
		return false
	}
	for _, id := range tasks {
		for _, up := range def.Task(id).Upstream {
			if again[up] {
				return true
			}
		}
	}
	return false
}

// fold makes tasks unexpanded, unless an instance of them has begun or ended.
func (t *tx) fold(ctx context.Context, runID int64, tasks []string) (bool, error) {
	var c condition
	c.add("dag_run_id = ?", runID)
	c.in("task_id", anys(tasks))
	var rows []instanceRow
	if err := t.SelectContext(ctx, &rows, "SELECT "+instanceColumns+" FROM task_instance"+c.where()+" ORDER BY id"+t.s.db.ForUpdate(), c.args...); err != nil {
		return false, err
	}
	first := map[string]*instanceRow{}
	for i := range rows {
		row := &rows[i]
		switch dag.State(row.State) {
		case dag.StateNone, dag.StateRemoved:
		default:
			return false, nil
		}
		// One without an index has been first since an earlier clear: the values that it
		// waited for never came, or there were none.
		if first[row.TaskID] == nil || row.MapIndex < first[row.TaskID].MapIndex {
			first[row.TaskID] = row
		}
	}
	var ids []int64
	var order []*instanceRow
	for i := range rows {
		if rows[i].MapIndex >= 0 {
			ids, order = append(ids, rows[i].ID), append(order, &rows[i])
		}
	}
	for start := 0; start < len(ids); start += chunk {
		end := min(start+chunk, len(ids))
		b := newBulk("task_instance", ids[start:end])
		b.setAll("updated_at", t.at)
		for i, row := range order[start:end] {
			if first[row.TaskID] == row {
				b.set(i, "map_index", -1)
				b.set(i, "state", string(dag.StateNone))
				b.set(i, "end_date", nil)
			} else {
				b.set(i, "state", string(dag.StateRemoved))
				b.set(i, "end_date", t.at)
			}
		}
		if _, err := b.run(ctx, t); err != nil {
			return false, err
		}
	}
	if len(ids) == 0 {
		return false, nil
	}
	_, err := t.exec(ctx, "DELETE FROM xcom"+c.where(), c.args...)
	return true, err
}
