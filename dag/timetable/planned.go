package timetable

import (
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// Planned is what the schedule makes next of a plan that was stored for the same
// version of its DAG; nil for none. A plan for a time to come is carried out as it
// stands. One that is due may be old (the DAG was paused, or nobody ran for days),
// so it is made again from last, as Next does. Without catchup that gives the
// latest tick; with it the same one, or an earlier one whose date another run has
// already (one started by hand, a backfill): the stored plan has passed it, so the
// later counts. last is only looked at for a plan that is due.
func (t *Timetable) Planned(stored, last *dag.PlannedRun, r Restriction, now time.Time) *dag.PlannedRun {
	if stored == nil || stored.RunAfter.After(now) {
		return stored
	}
	next := t.Next(last, r, now)
	if next != nil && r.Catchup && stored.RunAfter.After(next.RunAfter) {
		return stored
	}
	return next
}
