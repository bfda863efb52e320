package main

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// difference is one thing that both sides say differently.
type difference struct {
	DagID   string
	Part    string // structure, runs, manual interval, retry delay, states
	What    string
	Airlock string
	Airflow string
}

func (d difference) String() string {
	return fmt.Sprintf("%s: %s: %s\n    airlock: %s\n    airflow: %s", d.DagID, d.Part, d.What, d.Airlock, d.Airflow)
}

func show(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}

func sortInstances(list []*dag.TaskInstance) {
	sort.Slice(list, func(i, j int) bool {
		a, b := list[i], list[j]
		return a.TaskID < b.TaskID || a.TaskID == b.TaskID && a.MapIndex < b.MapIndex
	})
}

// compareEndings compares the state of a run and of every instance in it, and
// how often each was tried. Two things are alike though they are counted in
// another way: a mapped task that ends before it is expanded has one instance
// in Airlock, and one for each literal value in Airflow, or for each that it had
// before it was cleared; and an empty task has no attempt in Airlock, and one
// that nobody made in Airflow.
func compareEndings(id string, script map[string]*step, ours, theirs *ending) []difference {
	ours, theirs = foldUnexpanded(ours, theirs), foldUnexpanded(theirs, ours)
	ours = foldCleared(ours, theirs)
	var out []difference
	if ours.Run != theirs.Run {
		out = append(out, difference{DagID: id, Part: "states", What: "run", Airlock: ours.Run, Airflow: theirs.Run})
	}
	keys := map[string]bool{}
	for k := range ours.States {
		keys[k] = true
	}
	for k := range theirs.States {
		keys[k] = true
	}
	for _, k := range sortedKeys(keys) {
		a, b := ours.States[k], theirs.States[k]
		switch {
		case a != b:
			out = append(out, difference{DagID: id, Part: "states", What: k, Airlock: a, Airflow: b})
		case script[taskOf(k)].Kind != "empty" && (a == "success" || a == "failed") && ours.Tries[k] != theirs.Tries[k]:
			out = append(out, difference{DagID: id, Part: "tries", What: k, Airlock: fmt.Sprint(ours.Tries[k]), Airflow: fmt.Sprint(theirs.Tries[k])})
		}
	}
	return out
}

// taskOf is the task of an instance's key: "t03[1]" gives "t03".
func taskOf(key string) string { return key[:strings.LastIndex(key, "[")] }

// foldUnexpanded gives e with the instances of a mapped task as one, where they
// all ended alike and other has the task unexpanded and never run.
func foldUnexpanded(e, other *ending) *ending {
	out := &ending{Run: e.Run, States: map[string]string{}, Tries: map[string]int{}}
	alike := map[string]string{}
	for k, s := range e.States {
		task := taskOf(k)
		if first, seen := alike[task]; seen && first != s {
			alike[task] = "mixed"
		} else if !seen {
			alike[task] = s
		}
	}
	for k, s := range e.States {
		whole := taskOf(k) + "[-1]"
		state, there := other.States[whole]
		if _, mine := e.States[whole]; !mine && there && state == alike[taskOf(k)] && (state == "skipped" || state == "upstream_failed" || state == "none") {
			out.States[whole] = s
			continue
		}
		out.States[k], out.Tries[k] = s, e.Tries[k]
	}
	return out
}

// foldCleared gives ours without the instances that Airlock has taken back into
// one when a mapped task was cleared together with its source.
func foldCleared(ours, theirs *ending) *ending {
	out := &ending{Run: ours.Run, States: map[string]string{}, Tries: ours.Tries}
	for k, s := range ours.States {
		_, both := theirs.States[k]
		_, one := ours.States[taskOf(k)+"[-1]"]
		if s != "removed" || both || !one {
			out.States[k] = s
		}
	}
	return out
}
