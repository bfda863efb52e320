package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor"
	"github.com/airlock-dag/airlock/executor/fault"
)

// ending is how a run ended: its state, and state and tries of each instance,
// by task id and map index.
type ending struct {
	Run    string            `json:"run"`
	States map[string]string `json:"states"`
	Tries  map[string]int    `json:"tries"`
	// Fired are the named rules that made a difference on Airflow's side.
	Fired []string `json:"fired,omitempty"`
}

// drive runs a DAG in memory with Airlock's own decisions, dag.Evaluate and
// executor.Decide; a script says how each attempt ends.
type drive struct {
	dag    *dag.DAG
	script map[string]*step
	graph  *dag.Graph
	s      dag.RunSnapshot
	now    time.Time
	values map[dag.TaskInstanceKey]any // return values
	poked  map[string]int              // how often a sensor's try has looked
	// asAirflow is the pace: see toTheEnd.
	asAirflow bool
	nextID    int64
}

const maxRounds = 400

func newDrive(d *dag.DAG, c *dagCase) *drive {
	logical := mustTime(c.LogicalDate)
	r := &drive{dag: d, script: c.Script, graph: dag.NewGraph(d), now: logical.Add(time.Hour), values: map[dag.TaskInstanceKey]any{}, poked: map[string]int{}}
	r.s.Run = dag.Run{ID: 1, DagID: d.ID, RunID: "conformance", Type: dag.RunScheduled, State: dag.RunRunning,
		LogicalDate: &logical, RunAfter: logical, StartDate: &logical}
	for _, in := range r.graph.NewInstances() {
		r.add(in.TaskID, -1, in.MaxTries)
	}
	return r
}

func (r *drive) add(taskID string, mapIndex, maxTries int) {
	r.nextID++
	r.s.Instances = append(r.s.Instances, dag.TaskInstance{
		ID: r.nextID, State: dag.StateNone, MaxTries: maxTries,
		TaskInstanceKey: dag.TaskInstanceKey{DagID: r.dag.ID, RunID: "conformance", TaskID: taskID, MapIndex: mapIndex},
	})
}

// toTheEnd settles, runs all that is ready at once, and settles again. Paced as
// Airflow means that skips and failures go down one level a pass, as its
// scheduler has it; otherwise a pass settles all, as Airlock's does.
func (r *drive) toTheEnd(asAirflow bool) ending {
	r.asAirflow = asAirflow
	for range maxRounds {
		if state := r.settle(); state.Finished() {
			return r.result(string(state))
		}
		ready := false
		var running []*dag.TaskInstance
		for i := range r.s.Instances {
			if ti := &r.s.Instances[i]; ti.State == dag.StateScheduled {
				ti.State, ti.TryNumber, ti.NextTryAt, ready = dag.StateRunning, ti.TryNumber+1, nil, true
				running = append(running, ti)
			}
		}
		if !ready {
			return r.result("stuck")
		}
		sortInstances(running)
		for _, ti := range running {
			r.attempt(ti)
		}
	}
	return r.result("endless")
}

func (r *drive) settle() dag.RunState {
	for range maxRounds {
		changed := false
		if r.asAirflow {
			changed = r.pass()
		}
		if changed {
			continue
		}
		decision := r.graph.Evaluate(&r.s, r.now)
		changed = r.apply(decision.Transitions, decision.Expand, decision.ExpandGroups)
		if decision.State.Finished() || !changed {
			return decision.State
		}
	}
	return dag.RunRunning
}

// pass decides for each task by the states that all others have now, and then
// makes all changes at once.
func (r *drive) pass() bool {
	var changes []dag.Transition
	var expand, groups []string
	for t := range r.dag.Tasks {
		id := r.dag.Tasks[t].ID
		s := r.s
		s.Instances = append([]dag.TaskInstance(nil), r.s.Instances...)
		open := false
		for i := range s.Instances {
			ti := &s.Instances[i]
			switch {
			case ti.TaskID == id:
				open = open || !ti.State.Finished()
			case !ti.State.Finished():
				ti.State = dag.StateRunning // whatever it is, it stays so in this pass
			}
		}
		if !open {
			continue
		}
		decision := r.graph.Evaluate(&s, r.now)
		for _, change := range decision.Transitions {
			if change.TaskID == id {
				changes = append(changes, change)
			}
		}
		for _, x := range decision.Expand {
			if x == id {
				expand = append(expand, x)
			}
		}
		if group := r.dag.MappedGroup(r.dag.Task(id)); group != nil && contains(decision.ExpandGroups, group.ID) && !contains(groups, group.ID) {
			groups = append(groups, group.ID)
		}
	}
	return r.apply(changes, expand, groups)
}

func (r *drive) apply(changes []dag.Transition, expand, groups []string) bool {
	for _, change := range changes {
		for i := range r.s.Instances {
			if ti := &r.s.Instances[i]; ti.ID == change.TaskInstanceID && ti.State == change.From {
				ti.State = change.To
			}
		}
	}
	for _, id := range expand {
		t := r.dag.Task(id)
		r.expand(t, r.count(t.Expand))
	}
	for _, id := range groups {
		n := r.count(r.dag.Group(id).Expand)
		for i := range r.dag.Tasks {
			if group := r.dag.MappedGroup(&r.dag.Tasks[i]); group != nil && group.ID == id {
				r.expand(&r.dag.Tasks[i], n)
			}
		}
	}
	return len(changes)+len(expand)+len(groups) > 0
}

// count is how many instances a mapping gives.
func (r *drive) count(e *dag.Expand) int {
	if e.Kwargs != nil {
		return r.length(*e.Kwargs)
	}
	n := 1
	for _, src := range e.Args {
		n *= r.length(src)
	}
	return n
}

// expand makes a mapped task's instances as the scheduler does: none is a skip.
func (r *drive) expand(t *dag.Task, n int) {
	found := false
	for i := range r.s.Instances {
		ti := &r.s.Instances[i]
		if ti.TaskID != t.ID || ti.MapIndex >= 0 || ti.State.Finished() {
			continue
		}
		if n == 0 {
			ti.State = dag.StateSkipped
			return
		}
		ti.MapIndex, found = 0, true
	}
	for index := 1; found && index < n; index++ {
		r.add(t.ID, index, t.Retry.Retries)
	}
}

// length is how many values a source has: the items of a list, or the successful
// instances of a mapped task that returned something.
func (r *drive) length(src dag.ExpandSource) int {
	if src.XCom == "" {
		return len(src.Literal)
	}
	if r.dag.Task(src.XCom).Mapped() {
		n := 0
		for key := range r.values {
			if key.TaskID == src.XCom {
				n++
			}
		}
		return n
	}
	list, _ := r.values[dag.TaskInstanceKey{DagID: r.dag.ID, RunID: "conformance", TaskID: src.XCom, MapIndex: -1}].([]any)
	return len(list)
}

// attempt ends an attempt as the script says and has the executor decide.
func (r *drive) attempt(ti *dag.TaskInstance) {
	st := r.script[ti.TaskID]
	out := outcomeOf(r.dag, st, ti, r.poked)
	result := executor.Decide(executor.Ending{
		DAG: r.dag, Task: r.dag.Task(ti.TaskID), Claim: dag.Claim{TaskInstance: *ti, Run: r.s.Run}, Outcome: out, Start: r.now, End: r.now,
	}, nil)
	ti.State, ti.SkipTasks = result.State, result.SkipTasks
	if r.asAirflow && ti.MapIndex < 0 {
		r.skip(result.SkipTasks)
	}
	if result.NextTryAt != nil {
		ti.NextTryAt = &r.now // every retry is due at once
	}
	switch result.State {
	case dag.StateUpForRetry:
		ti.FailureCount++
	case dag.StateUpForReschedule:
		ti.TryNumber--
	default:
	}
	if raw, ok := result.XComs[dag.XComReturnValue]; ok {
		var v any
		if json.Unmarshal(raw, &v) == nil {
			r.values[ti.TaskInstanceKey] = v
		}
	}
}

// skip makes a skip list take effect at once, as Airflow's API server does.
func (r *drive) skip(ids []string) {
	for i := range r.s.Instances {
		ti := &r.s.Instances[i]
		if contains(ids, ti.TaskID) && (ti.State == dag.StateNone || ti.State == dag.StateScheduled) && ti.NextTryAt == nil {
			ti.State = dag.StateSkipped
		}
	}
}

// outcomeOf is how an attempt ends by the script. poked counts how often the try
// of a sensor has looked.
func outcomeOf(d *dag.DAG, st *step, ti *dag.TaskInstance, poked map[string]int) dag.Outcome {
	if key := fmt.Sprint(ti.TaskInstanceKey, ti.TryNumber); poked[key] < st.Waits {
		poked[key]++
		return dag.Outcome{Kind: dag.OutcomeReschedule}
	}
	switch st.outcome(ti.MapIndex, ti.TryNumber) {
	case "fail":
		return dag.Failed(fault.New(fault.CodeExitCode, "the script fails this try"))
	case "fatal":
		return dag.Failed(&dag.TaskError{Class: dag.ClassPermanent, Code: fault.CodeExitCode, Message: "the script ends this try"})
	case "skip":
		return dag.Outcome{Kind: dag.OutcomeSkipped}
	}
	switch st.Kind {
	case "branch":
		return dag.Outcome{Kind: dag.OutcomeSuccess, Branch: follow(st.Follow)}
	case "short_circuit":
		out := dag.Success(st.Condition)
		if !st.Condition {
			out.SkipTasks = dag.ShortCircuitSkips(d, ti.TaskID, false)
		}
		return out
	case "python":
		return dag.Success(st.Returns)
	default:
		return dag.Success(nil)
	}
}

// follow is a branch's answer as the branch operator hands it on.
func follow(v any) *[]string {
	ids := []string{}
	switch v := v.(type) {
	case string:
		ids = append(ids, v)
	case []any:
		for _, x := range v {
			ids = append(ids, fmt.Sprint(x))
		}
	}
	return &ids
}

func (r *drive) result(run string) ending {
	e := ending{Run: run, States: map[string]string{}, Tries: map[string]int{}}
	for i := range r.s.Instances {
		ti := &r.s.Instances[i]
		key := fmt.Sprintf("%s[%d]", ti.TaskID, ti.MapIndex)
		e.States[key], e.Tries[key] = string(ti.State), ti.TryNumber
	}
	return e
}
