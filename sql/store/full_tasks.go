package store

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/airlock-dag/airlock/dag"
)

// maxFullTasks bounds how many tasks the look at what waits leaves out.
const maxFullTasks = 200

// versionTask is a task as one version of its DAG has it.
type versionTask struct {
	version int64
	task    string
}

// withoutFullTasks leaves out what waits for a task that is at a limit of its
// own, max_active_tis_per_dag or max_active_tis_per_dagrun: a thousand instances
// of one that runs alone would hide what can run behind them.
func (l *slots) withoutFullTasks(ctx context.Context, t *tx, c *condition) error {
	full := map[versionTask][]int64{} // the runs, none for all of them
	for rt, n := range l.runTasks {
		version := l.versions[rt.run]
		def, err := t.s.version(ctx, t, version)
		if err != nil && dag.CodeOf(err) != dag.ErrNotFound {
			return err
		}
		task := taskOf(def, rt.task)
		if task == nil {
			continue
		}
		vt := versionTask{version, rt.task}
		if runs, all := full[vt]; all && runs == nil {
			continue
		}
		switch {
		case task.MaxActiveTisPerDag > 0 && l.dagTasks[dagTask{def.ID, rt.task}] >= task.MaxActiveTisPerDag:
			full[vt] = nil
		case task.MaxActiveTisPerDagrun > 0 && n >= task.MaxActiveTisPerDagrun:
			full[vt] = append(full[vt], rt.run)
		}
	}
	order := slices.SortedFunc(maps.Keys(full), func(a, b versionTask) int {
		return cmp.Or(cmp.Compare(a.version, b.version), cmp.Compare(a.task, b.task))
	})
	for _, vt := range order[:min(len(order), maxFullTasks)] {
		which := "ti.dag_version_id = ? AND ti.task_id = ?"
		if runs := full[vt]; runs != nil {
			slices.Sort(runs)
			which += " AND ti.dag_run_id IN (" + idList(runs) + ")"
		}
		c.add("NOT ("+which+")", vt.version, vt.task)
	}
	return nil
}
