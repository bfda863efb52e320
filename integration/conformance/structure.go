package main

import (
	"reflect"
	"sort"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/timetable"
)

// structure is what both sides must read alike in a file.
type structure struct {
	Schedule struct {
		Kind string `json:"kind"`
		Text string `json:"text"`
	} `json:"schedule"`
	StartDate      *string                  `json:"start_date"`
	EndDate        *string                  `json:"end_date"`
	Catchup        bool                     `json:"catchup"`
	MaxActiveRuns  int                      `json:"max_active_runs"`
	MaxActiveTasks int                      `json:"max_active_tasks"`
	DagrunTimeout  float64                  `json:"dagrun_timeout"`
	Tasks          map[string]taskStructure `json:"tasks"`
}

type taskStructure struct {
	Upstream         []string `json:"upstream"`
	TriggerRule      string   `json:"trigger_rule"`
	Retries          int      `json:"retries"`
	RetryDelay       float64  `json:"retry_delay"`
	MaxRetryDelay    float64  `json:"max_retry_delay"`
	Exponential      float64  `json:"exponential"`
	ExecutionTimeout float64  `json:"execution_timeout"`
	Mapped           bool     `json:"mapped"`
	Setup            bool     `json:"setup"`
	Teardown         bool     `json:"teardown"`
	Pool             string   `json:"pool"`
	PoolSlots        int      `json:"pool_slots"`
	PriorityWeight   int      `json:"priority_weight"`
	TotalWeight      int      `json:"total_weight"`
	LimitPerDag      *int     `json:"limit_per_dag"`
	LimitPerRun      *int     `json:"limit_per_run"`
	Queue            string   `json:"queue"`
	Owner            string   `json:"owner"`
	DependsOnPast    bool     `json:"depends_on_past"`
	WaitDownstream   bool     `json:"wait_for_downstream"`
	StartDate        *string  `json:"start_date"`
	EndDate          *string  `json:"end_date"`
}

// kinds are Airflow's names for kinds of schedule.
var kinds = map[dag.ScheduleKind][]string{
	dag.ScheduleNone:          {"NullTimetable"},
	dag.ScheduleOnce:          {"OnceTimetable"},
	dag.ScheduleContinuous:    {"ContinuousTimetable"},
	dag.ScheduleCronTrigger:   {"CronTriggerTimetable", "MultipleCronTriggerTimetable"},
	dag.ScheduleCronInterval:  {"CronDataIntervalTimetable"},
	dag.ScheduleDelta:         {"DeltaTriggerTimetable"},
	dag.ScheduleDeltaInterval: {"DeltaDataIntervalTimetable"},
	dag.ScheduleEvents:        {"EventsTimetable"},
}

// structureOf describes a DAG in Airflow's words; theirs says which of several
// names for one thing Airflow used.
func structureOf(d *dag.DAG, theirs *structure) *structure {
	bounds := timetable.RestrictionFor(d) // wherever in the file the dates stand
	s := &structure{
		StartDate: instant(bounds.Earliest), EndDate: instant(bounds.Latest), Catchup: d.Catchup,
		MaxActiveRuns: d.MaxActiveRuns, MaxActiveTasks: d.MaxActiveTasks, DagrunTimeout: d.DagrunTimeout.Seconds(),
		Tasks: map[string]taskStructure{},
	}
	s.Schedule = theirs.Schedule
	if names := kinds[d.Schedule.Kind]; !contains(names, theirs.Schedule.Kind) {
		s.Schedule.Kind = string(d.Schedule.Kind)
	}
	weights := dag.NewGraph(d).EffectivePriority()
	for i := range d.Tasks {
		t := &d.Tasks[i]
		upstream := append([]string{}, t.Upstream...)
		sort.Strings(upstream)
		s.Tasks[t.ID] = taskStructure{
			Upstream: upstream, TriggerRule: string(t.TriggerRule), Retries: t.Retry.Retries,
			RetryDelay: t.Retry.Delay.Seconds(), MaxRetryDelay: t.Retry.MaxDelay.Seconds(), Exponential: t.Retry.Exponential,
			ExecutionTimeout: t.ExecutionTimeout.Seconds(), Mapped: t.Mapped(), Setup: t.IsSetup, Teardown: t.IsTeardown,
			Pool: t.Pool, PoolSlots: t.PoolSlots, PriorityWeight: t.PriorityWeight, TotalWeight: weights[t.ID],
			LimitPerDag: limit(t.MaxActiveTisPerDag), LimitPerRun: limit(t.MaxActiveTisPerDagrun), Queue: t.Queue, Owner: owner(t.Owner),
			DependsOnPast: t.DependsOnPast, WaitDownstream: t.WaitForDownstream,
			StartDate: instant(either(t.StartDate, d.StartDate)), EndDate: instant(either(t.EndDate, d.EndDate)),
		}
	}
	return s
}

func either(own, inherited *time.Time) *time.Time {
	if own != nil {
		return own
	}
	return inherited
}

// limit is nil where there is none, as Airflow has it.
func limit(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

// owner is Airflow's default where Airlock leaves the owner empty.
func owner(s string) string {
	if s == "" {
		return "airflow"
	}
	return s
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func instant(t *time.Time) *string {
	if t == nil {
		return nil
	}
	s := t.UTC().Format("2006-01-02T15:04:05.000000Z")
	return &s
}

// compareStructure lists where the two readings of a file differ.
func compareStructure(d *dag.DAG, theirs *structure) []difference {
	ours := structureOf(d, theirs)
	var out []difference
	add := func(what string, ours, theirs any) {
		if !reflect.DeepEqual(ours, theirs) {
			out = append(out, difference{DagID: d.ID, Part: "structure", What: what, Airlock: show(ours), Airflow: show(theirs)})
		}
	}
	ids := map[string]bool{}
	for id := range ours.Tasks {
		ids[id] = true
	}
	for id := range theirs.Tasks {
		ids[id] = true
	}
	for _, id := range sortedKeys(ids) {
		a, mine := ours.Tasks[id]
		b, yours := theirs.Tasks[id]
		if !mine || !yours {
			add("task "+id, mine, yours)
			continue
		}
		if b.Upstream == nil {
			b.Upstream = []string{}
		}
		x, y := reflect.ValueOf(a), reflect.ValueOf(b)
		for i := range x.NumField() {
			add(id+"."+x.Type().Field(i).Tag.Get("json"), x.Field(i).Interface(), y.Field(i).Interface())
		}
	}
	a, b := *ours, *theirs
	a.Tasks, b.Tasks = nil, nil
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		add(x.Type().Field(i).Tag.Get("json"), x.Field(i).Interface(), y.Field(i).Interface())
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
