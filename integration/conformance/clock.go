package main

import (
	"fmt"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/retry"
	"github.com/airlock-dag/airlock/dag/timetable"
)

// plannedRun is one run as a timetable plans it.
type plannedRun struct {
	LogicalDate string `json:"logical_date"`
	Start       string `json:"start"`
	End         string `json:"end"`
	RunAfter    string `json:"run_after"`
	RunID       string `json:"run_id"`
	Error       string `json:"error,omitempty"`
}

// planned gives the same runs as Airflow's side, asked in the same way.
func planned(d *dag.DAG, c *dagCase) ([]*plannedRun, error) {
	table, err := timetable.ForDAG(d)
	if err != nil {
		return nil, err
	}
	restriction := timetable.RestrictionFor(d)
	now := mustTime(c.Clock)
	var last *dag.PlannedRun
	var out []*plannedRun
	for _, jump := range c.Jumps {
		next := table.Next(last, restriction, now)
		if next == nil {
			return append(out, nil), nil
		}
		out = append(out, &plannedRun{
			LogicalDate: *instant(&next.LogicalDate), Start: *instant(&next.DataIntervalStart),
			End: *instant(&next.DataIntervalEnd), RunAfter: *instant(&next.RunAfter), RunID: timetable.RunID(dag.RunScheduled, *next),
		})
		if next.RunAfter.After(now) {
			now = next.RunAfter
		}
		now = now.Add(time.Duration(jump * float64(time.Second)))
		last = next
	}
	return out, nil
}

func mustTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err) // a time of this program's own
	}
	return t
}

// compareRuns compares planned runs one by one up to the first difference, and
// says how many were compared.
func compareRuns(d *dag.DAG, c *dagCase, theirs *answer) (int, []difference) {
	ours, err := planned(d, c)
	if err != nil {
		return 0, []difference{{DagID: d.ID, Part: "runs", What: "timetable", Airlock: err.Error(), Airflow: show(theirs.Structure.Schedule)}}
	}
	for i := range max(len(ours), len(theirs.Runs)) {
		var a, b *plannedRun
		if i < len(ours) {
			a = ours[i]
		}
		if i < len(theirs.Runs) {
			b = theirs.Runs[i]
		}
		if show(a) != show(b) {
			return i, []difference{{DagID: d.ID, Part: "runs", What: fmt.Sprintf("run %d, looked at from %s", i+1, c.Clock), Airlock: show(a), Airflow: show(b)}}
		}
	}
	return len(ours), nil
}

func compareManual(d *dag.DAG, c *dagCase, theirs *answer) (int, []difference) {
	table, err := timetable.ForDAG(d)
	if err != nil {
		return 0, nil // said by compareRuns
	}
	var out []difference
	for i, at := range c.Manual {
		start, end := table.ManualInterval(mustTime(at))
		ours := [2]string{*instant(&start), *instant(&end)}
		if ours != theirs.Manual[i] {
			out = append(out, difference{DagID: d.ID, Part: "manual interval", What: at, Airlock: show(ours), Airflow: show(theirs.Manual[i])})
		}
	}
	return len(c.Manual), out
}

// compareRetries compares the delay before each retry that was asked for.
func compareRetries(d *dag.DAG, c *dagCase, theirs *answer) (int, []difference) {
	var out []difference
	for i, q := range c.Retries {
		a := retry.Attempt{DagID: d.ID, TaskID: q.TaskID, TryNumber: q.Try, Failures: q.Try}
		if q.LogicalDate != nil {
			at := mustTime(*q.LogicalDate)
			a.LogicalDate = &at
		}
		ours := retry.Next(d.Task(q.TaskID).Retry, a, nil).Delay.Seconds()
		if ours != theirs.Retries[i] {
			p := d.Task(q.TaskID).Retry
			out = append(out, difference{DagID: d.ID, Part: "retry delay",
				What:    fmt.Sprintf("%s try %d, delay %s x %g, cap %s", q.TaskID, q.Try, p.Delay, p.Exponential, p.MaxDelay),
				Airlock: show(ours), Airflow: show(theirs.Retries[i])})
		}
	}
	return len(c.Retries), out
}
