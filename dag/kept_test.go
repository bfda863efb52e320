package dag_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/airlock-dag/airlock/dag"
)

// course drives a run as the store does: results come in batches, decisions are
// made by what was kept of the ones before, and each is held against a look at
// the whole run.
type course struct {
	*world
	g    *dag.Graph
	kept *dag.Kept
	now  time.Time
}

func newCourse(d *dag.DAG) *course {
	return &course{world: newWorld(d), g: dag.NewGraph(d), kept: &dag.Kept{}, now: noon}
}

// decide is the decision by what is kept, and by a look at all.
func (c *course) decide() (kept, whole dag.Decision) {
	s := c.snap
	whole = c.g.Evaluate(&s, c.now)
	s.Kept = c.kept
	return c.g.Evaluate(&s, c.now), whole
}

// apply carries a decision out. What gets a slot is queued at once, or stays
// scheduled; nobody tells when it is claimed.
func (c *course) apply(r *rapid.T, d dag.Decision) {
	place := map[int64]int{}
	for i := range c.snap.Instances {
		place[c.snap.Instances[i].ID] = i
	}
	for _, tr := range d.Transitions {
		i := place[tr.TaskInstanceID]
		ti := &c.snap.Instances[i]
		if ti.State != tr.From && (ti.State != "" || tr.From != dag.StateNone) {
			r.Fatalf("%+v begins at a state that the instance is not in: %s", tr, ti.State)
		}
		if ti.State = tr.To; tr.To == dag.StateScheduled && rapid.Bool().Draw(r, "queued at once") {
			ti.State = dag.StateQueued
		}
		if tr.To.Finished() {
			ti.NextTryAt = nil
		}
		c.kept.Changed(i)
	}
}

// results brings a batch of outcomes in random order.
func (c *course) results(r *rapid.T) (some bool) {
	for range rapid.IntRange(1, 5).Draw(r, "batch") {
		var ready []int
		for i := range c.snap.Instances {
			if s := c.snap.Instances[i].State; s == dag.StateScheduled || s == dag.StateQueued {
				ready = append(ready, i)
			}
		}
		if len(ready) == 0 {
			return some
		}
		some = true
		i := rapid.SampledFrom(ready).Draw(r, "instance")
		ti := &c.snap.Instances[i]
		ti.State, ti.NextTryAt = rapid.SampledFrom([]dag.State{
			dag.StateSuccess, dag.StateSuccess, dag.StateSuccess, dag.StateSuccess, dag.StateFailed, dag.StateSkipped,
			dag.StateUpForRetry, dag.StateUpForReschedule, dag.StateQueued,
		}).Draw(r, "outcome"), nil
		switch {
		case ti.State == dag.StateUpForRetry || ti.State == dag.StateUpForReschedule:
			if ti.TryNumber++; ti.TryNumber > 3 {
				ti.State = dag.StateFailed
				break
			}
			if wait := rapid.IntRange(-1, 4).Draw(r, "wait"); wait >= 0 {
				at := c.now.Add(time.Duration(wait) * time.Second)
				ti.NextTryAt = &at
			}
		case ti.State == dag.StateSuccess && rapid.IntRange(0, 9).Draw(r, "branches") == 0:
			for _, id := range dag.DirectDownstream(c.d, ti.TaskID) {
				if rapid.Bool().Draw(r, "skips") {
					ti.SkipTasks = append(ti.SkipTasks, id)
				}
			}
		}
		c.kept.Changed(i)
	}
	return some
}

// clear sets an instance that has ended back. The store does not tell of it: it
// forgets what it knew.
func (c *course) clear(r *rapid.T) {
	i := rapid.IntRange(0, len(c.snap.Instances)-1).Draw(r, "cleared")
	if ti := &c.snap.Instances[i]; ti.State.Finished() {
		ti.State, ti.SkipTasks = dag.StateNone, nil
		c.kept = &dag.Kept{}
	}
}

func sameDecision(a, b dag.Decision) bool {
	for _, d := range []*dag.Decision{&a, &b} {
		if len(d.Transitions) == 0 {
			d.Transitions = nil
		}
	}
	return reflect.DeepEqual(a, b)
}

// TestGoingOnIsALookAtAll: a decision made by what changed is that of a look at
// the whole run, for all trigger rules, setups and teardowns, branches, mapped
// tasks and groups, retries, limits of time and clears, whatever comes together
// in a batch and in whatever order.
func TestGoingOnIsALookAtAll(t *testing.T) {
	t.Parallel()
	steps, looks := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		d := drawDAG(r)
		if rapid.IntRange(0, 9).Draw(r, "has a limit") == 0 {
			d.DagrunTimeout = time.Duration(rapid.IntRange(60, 75).Draw(r, "limit")) * time.Second
		}
		c := newCourse(d)
		for range 60 {
			before := c.kept.Steps()
			kept, whole := c.decide()
			if !sameDecision(kept, whole) {
				r.Fatalf("by what is kept (%d): %+v\nby a look at all: %+v\ninstances: %+v", c.kept.Steps()-before, kept, whole, c.snap.Instances)
			}
			looks++
			steps += c.kept.Steps() - before
			if whole.State.Finished() {
				return
			}
			c.apply(r, kept)
			if len(kept.Expand)+len(kept.ExpandGroups) > 0 {
				c.expandAll(r, kept.Expand)
				c.expandGroups(r, kept.ExpandGroups)
				c.kept = &dag.Kept{}
			}
			if rapid.IntRange(0, 19).Draw(r, "somebody clears") == 0 {
				c.clear(r)
			}
			if !c.results(r) || rapid.Bool().Draw(r, "time passes") {
				c.now = c.now.Add(time.Duration(rapid.IntRange(0, 3).Draw(r, "seconds")) * time.Second)
			}
		}
	})
	t.Logf("%d of %d decisions went on from the one before", steps, looks)
	require.Greater(t, steps, looks/5, "too few decisions went on from the one before to say anything")
}

// TestGoingOnLooksAtWhatFollows: a result of a wide run is decided about by what
// was kept, up to the last, after which the run ends by a look at all.
func TestGoingOnLooksAtWhatFollows(t *testing.T) {
	t.Parallel()
	wide := make([]dag.Task, 0, 102)
	ids := make([]string, 100)
	for i := range ids {
		ids[i] = fmt.Sprintf("t%02d", i)
		wide = append(wide, task(ids[i]))
	}
	for name, last := range map[string]dag.Task{
		"join": task("z", after(ids...)), "any": task("z", after(ids...), rule(dag.OneSuccess)), "mapped": task("z", after(ids...), mappedOver("t00")),
	} {
		c := newCourse(dagOf(append(wide, last)...))
		started := ""
		for i := range ids {
			d, _ := c.decide()
			for _, tr := range d.Transitions {
				if tr.TaskID == "z" {
					started += fmt.Sprint(i)
				}
				c.ti(tr.TaskID, -1).State = dag.StateQueued
			}
			require.Empty(t, d.Expand)
			c.ti(ids[i], -1).State = dag.StateSuccess
			c.kept.Changed(i)
		}
		require.Equal(t, len(ids)-1, c.kept.Steps(), name)
		d, _ := c.decide()
		switch name {
		case "join":
			require.Equal(t, []string{"z scheduled"}, changes(d))
			require.Equal(t, len(ids), c.kept.Steps(), name)
		case "any":
			require.Equal(t, "1", started, "after the first, and once")
		default:
			require.Equal(t, []string{"z"}, d.Expand)
		}
	}
}

// BenchmarkGoingOn decides about 16 results at a time of 10,000 tasks side by
// side with a join, up to the last but one.
func BenchmarkGoingOn(b *testing.B) {
	const n = 10_000
	tasks, ids := make([]dag.Task, 0, n+1), make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("t%05d", i)
		tasks = append(tasks, task(ids[i]))
	}
	c := newCourse(dagOf(append(tasks, task("z", after(ids...)))...))
	place := n
	for b.Loop() {
		if place+16 >= n {
			b.StopTimer()
			for i := range c.snap.Instances[:n] {
				c.snap.Instances[i].State = dag.StateQueued
			}
			c.kept, place = &dag.Kept{}, 0
			c.snap.Kept = c.kept
			c.g.Evaluate(&c.snap, noon)
			b.StartTimer()
		}
		for range 16 {
			c.snap.Instances[place].State = dag.StateSuccess
			c.kept.Changed(place)
			place++
		}
		c.g.Evaluate(&c.snap, noon)
	}
}
