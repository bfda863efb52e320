package dag

// pastAllows tells whether the previous run lets a task start: the rules of
// depends_on_past and wait_for_downstream.
func pastAllows(g *Graph, task int, past *PastRun) bool {
	t := &g.dag.Tasks[task]
	if (!t.DependsOnPast && !t.WaitForDownstream) || past == nil || !past.Exists {
		return true
	}
	if g.dag.Catchup && t.StartDate != nil && past.LogicalDate != nil && past.LogicalDate.Before(*t.StartDate) {
		return true // the task was not there yet
	}
	states := past.States[t.ID]
	if len(states) == 0 {
		return t.IgnoreFirstDependsOnPast && !past.RanBefore[t.ID]
	}
	if !allWell(states) {
		return false
	}
	if t.WaitForDownstream {
		for _, below := range g.down[task] {
			if !allWell(past.States[g.dag.Tasks[below].ID]) {
				return false
			}
		}
	}
	return true
}

func allWell(states []State) bool {
	for _, s := range states {
		if s != StateSuccess && s != StateSkipped {
			return false
		}
	}
	return true
}

// takesPart tells whether a task's own start and end dates let it take part in
// a run. Only scheduled runs are held against the start date: who backfills or
// triggers by hand has chosen the date. A trigger timetable with an interval
// puts the logical date before the tick; there the tick counts.
func takesPart(d *DAG, t *Task, run *Run) bool {
	at := run.RunAfter
	trigger := d.Schedule.Kind == ScheduleCronTrigger || d.Schedule.Kind == ScheduleDelta
	if run.LogicalDate != nil && (run.Type != RunScheduled || !trigger) {
		at = *run.LogicalDate
	}
	if at.IsZero() {
		return true
	}
	if t.StartDate != nil && run.Type == RunScheduled && at.Before(*t.StartDate) {
		return false
	}
	return t.EndDate == nil || !at.After(*t.EndDate)
}
