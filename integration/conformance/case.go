package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// dagCase is one random DAG: its file, and what is asked about it.
type dagCase struct {
	DagID  string            `json:"dag_id"`
	File   string            `json:"file"`
	Extras map[string]extras `json:"extras"`
	// Script says how every attempt of every task ends; nil when the DAG is only
	// asked for its structure and runs.
	Script      map[string]*step `json:"script,omitempty"`
	LogicalDate string           `json:"logical_date,omitempty"`
	// Clock is when the scheduler first looks; Jumps are the seconds that pass
	// before it looks again, one for each run that is asked for.
	Clock   string          `json:"clock,omitempty"`
	Jumps   []float64       `json:"jumps,omitempty"`
	Manual  []string        `json:"manual,omitempty"`
	Retries []retryQuestion `json:"retries,omitempty"`
	// Scopes ask what is cleared together.
	Scopes []clearing `json:"scopes,omitempty"`
	// Campaign is what is done to several runs, one after another; Scripts say how
	// the tries of each run end, by its name.
	Campaign []action                    `json:"campaign,omitempty"`
	Scripts  map[string]map[string]*step `json:"scripts,omitempty"`
	// Rules are the named differences that Airflow's side is to follow.
	Rules []string `json:"rules,omitempty"`

	yaml     string
	failFast bool
	undated  bool     // it has no start date
	shaped   bool     // the two readings of it differ
	fired    []string // rules that have explained a part of it already
}

// extras are what dag-factory cannot say and is done to Airflow's objects.
type extras struct {
	Setups    []string        `json:"setups,omitempty"`
	Teardowns map[string]bool `json:"teardowns,omitempty"` // id to on_failure_fail_dagrun
	FailFast  bool            `json:"fail_fast,omitempty"`
	// Kwargs are tasks with expand_kwargs; GroupSources are the sources of mapped
	// groups that are expanded over the output of a task.
	Kwargs       []string          `json:"kwargs,omitempty"`
	GroupSources map[string]string `json:"group_sources,omitempty"`
}

// clearing says which instances are cleared.
type clearing struct {
	Tasks      []string `json:"tasks"`
	Upstream   bool     `json:"upstream"`
	Downstream bool     `json:"downstream"`
	OnlyFailed bool     `json:"only_failed"`
	Runs       []string `json:"runs,omitempty"` // in a campaign, by name
}

// action is one step of a campaign: a new run, or a clearing.
type action struct {
	Run   *newRun   `json:"run,omitempty"`
	Clear *clearing `json:"clear,omitempty"`
}

type newRun struct {
	Name    string `json:"name"`
	Logical string `json:"logical_date"`
	Type    string `json:"type"`
}

// step is the script of one task.
type step struct {
	Kind string `json:"kind"` // python, bash, empty, branch, short_circuit, sensor
	// Outcomes are ok, fail, skip or fatal for each try, the last for all that
	// follow, by map index; "-1" serves indexes that are not listed.
	Outcomes map[string][]string `json:"outcomes"`
	// Returns is the value of a successful attempt, nil for none.
	Returns any `json:"returns"`
	// Follow is what a branch follows: nil, an id or a list of ids.
	Follow    any  `json:"follow"`
	Condition bool `json:"condition"`
	// Waits is how often each try of a sensor looks in vain first.
	Waits int `json:"waits,omitempty"`
}

// outcome is how a try of an instance ends.
func (s *step) outcome(mapIndex, try int) string {
	list := s.Outcomes[fmt.Sprint(mapIndex)]
	if len(list) == 0 {
		list = s.Outcomes["-1"]
	}
	return list[min(try, len(list))-1]
}

type retryQuestion struct {
	TaskID      string  `json:"task_id"`
	Try         int     `json:"try"`
	LogicalDate *string `json:"logical_date"`
}

// fields writes a mapping as YAML, its keys in order: values are JSON, which
// YAML 1.1 reads as it is meant.
type fields struct {
	b      strings.Builder
	indent string
}

func (f *fields) add(key string, value any) {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err) // a value of this program's own
	}
	fmt.Fprintf(&f.b, "%s%s: %s\n", f.indent, key, raw)
}

func (f *fields) open(key string) {
	fmt.Fprintf(&f.b, "%s%s:\n", f.indent, key)
	f.indent += "  "
}

func (f *fields) close() { f.indent = f.indent[:len(f.indent)-2] }
