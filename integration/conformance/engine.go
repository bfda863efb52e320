package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/airlock-dag/airlock/cmd/app"
	"github.com/airlock-dag/airlock/cmd/config"
	"github.com/airlock-dag/airlock/dag"
)

// calm makes a graph fit for real concurrency: its ending does not depend on
// which of two tasks ends first, and its retries do not wait. A DAG has either
// failures or skips, and only rules that look at all that is above.
func (g *graph) calm() {
	g.failFast, g.campaign = false, false
	failures := g.d.chance(0.5)
	safe := []string{"all_success", "all_done", "none_failed", "none_failed_min_one_success", "none_skipped"}
	if failures {
		safe = []string{"all_success", "all_done", "none_failed", "always"}
	}
	for i, n := range g.nodes {
		n.delay, n.exponential, n.maxDelay, n.more = 0, nil, 0, nil
		if failures && (n.kind == "branch" || n.kind == "short_circuit") {
			n.kind = "python"
		}
		if n.rule != "all_success" && n.rule != "" && !n.setup {
			n.rule = pick(g.d, safe)
		}
		if (n.mapped() && n.source >= 0 || g.inMappedGroup(i)) && n.rule == "always" {
			n.rule = "all_done"
		}
		if failures && n.literal != nil && len(n.literal) == 0 {
			n.literal = values(2)
		}
		g.drawStep(i)
		if _, kwargs := g.consumers(i); !kwargs && (g.isSource(i) && n.step.Returns == nil || failures && n.kind == "python" && !n.mapped()) {
			n.step.Returns = values(2)
		} else if kwargs && n.step.Returns == nil {
			n.step.Returns = kwargsOf(n, 2)
		}
		n.step.Waits = 0
		if n.kind == "bash" || n.kind == "sensor" { // a real command or file, which is always well
			n.step.Outcomes = map[string][]string{"-1": {"ok"}}
		}
		for _, list := range n.step.Outcomes {
			for k, outcome := range list {
				switch {
				case failures && outcome == "skip":
					list[k] = "fail"
				case !failures && (outcome == "fail" || outcome == "fatal"):
					list[k] = "ok"
				}
			}
		}
		if follow, ok := n.step.Follow.(string); ok && follow == "nowhere" {
			n.step.Follow = nil
		}
	}
}

// runEngine runs the DAGs of a folder through the whole engine, their real steps
// in real processes, and compares each ending with the one that was decided in
// memory (which is compared with Airflow's elsewhere).
func runEngine(ctx context.Context, rep *report, dir string, cases []*dagCase, dags map[string]*dag.DAG) error {
	if len(cases) == 0 {
		return nil
	}
	folder := filepath.Dir(cases[0].File)
	script := map[string]map[string]*step{}
	for _, c := range cases {
		script[c.DagID] = c.Script
	}
	raw, err := json.Marshal(script)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "script.json"), raw, 0o600); err != nil {
		return err
	}
	cfg := config.Default(filepath.Join(dir, "airlock"))
	cfg.DagsFolder = folder
	cfg.Scheduler.Interval, cfg.Worker.PollInterval = 100*time.Millisecond, 100*time.Millisecond
	if err := cfg.Prepare(); err != nil {
		return err
	}
	a, err := app.New(ctx, app.Options{Config: cfg})
	if err != nil {
		return err
	}
	defer a.Close()
	for _, c := range cases {
		at := mustTime(c.LogicalDate)
		got, err := a.TestDAG(ctx, app.TestRequest{DagID: c.DagID, LogicalDate: &at, Out: io.Discard})
		if err != nil {
			return fmt.Errorf("%s: %w", c.DagID, err)
		}
		rep.engine++
		rep.add(compareEngine(dags[c.DagID], c, got)...)
	}
	return nil
}

// compareEngine compares the states of a real run, counted by task, with the
// ending that was decided in memory.
func compareEngine(d *dag.DAG, c *dagCase, got app.TestReport) []difference {
	want := newDrive(d, c).toTheEnd(false)
	var out []difference
	add := func(what, ours, theirs string) {
		if ours != theirs {
			out = append(out, difference{DagID: d.ID, Part: "engine", What: what, Airlock: ours, Airflow: theirs})
		}
	}
	add("run", string(got.Run.State), want.Run)
	counts := map[string]map[string]int{}
	for key, state := range want.States {
		task := taskOf(key)
		if counts[task] == nil {
			counts[task] = map[string]int{}
		}
		counts[task][state]++
	}
	for _, task := range got.Tasks {
		add(task.TaskID, show(task.States), show(counts[task.TaskID]))
	}
	return out
}
