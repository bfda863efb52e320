package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/airlock-dag/airlock/cmd/app"
	"github.com/airlock-dag/airlock/dag"
)

// madeBefore are the mapped tasks whose instances were made while a task that a
// drain replayed had failed: what it gives now is in none of them.
func madeBefore(ctx context.Context, a *app.App, drain string) ([]string, error) {
	groups, err := a.Store().LetterStats(ctx, dag.LetterFilter{Drain: drain, Limit: -1})
	if err != nil {
		return nil, err
	}
	var out []string
	asked := map[[2]string]bool{}
	for _, g := range groups {
		step := [2]string{g.DagID, g.TaskID}
		if asked[step] {
			continue
		}
		asked[step] = true
		rows, err := a.Store().DAGRows(ctx, dag.DAGFilter{IDs: []string{g.DagID}})
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			d, err := a.Store().Version(ctx, row.VersionID)
			if err != nil {
				return nil, err
			}
			for _, below := range expandedInSpite(d, g.TaskID) {
				out = append(out, fmt.Sprintf("%s.%s keeps the instances that it had: `airlock tasks clear %s -t %s -d -r RUN` or the next run of the DAG takes up what %s gives now",
					d.ID, below, d.ID, g.TaskID, g.TaskID))
			}
		}
	}
	return out, nil
}

// expandedInSpite names the tasks that are expanded over what a task gives, with
// their group or by themselves, although instances of it failed.
func expandedInSpite(d *dag.DAG, taskID string) []string {
	waiting := []dag.TriggerRule{"", dag.AllSuccess, dag.AllSkipped, dag.NoneFailed, dag.NoneFailedMinOneSuccess}
	var out []string
	for i := range d.Tasks {
		t := &d.Tasks[i]
		e := t.Expand
		if g := d.MappedGroup(t); e == nil && g != nil {
			e = g.Expand
		}
		if e != nil && e.Over(taskID) && !slices.Contains(waiting, t.TriggerRule) {
			out = append(out, t.ID)
		}
	}
	return out
}
