package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// drawScopes asks what is cleared together with some of the tasks.
func drawScopes(d dice, g *graph) []clearing {
	var out []clearing
	for range 3 {
		out = append(out, g.drawClearing(d))
	}
	return out
}

func (g *graph) drawClearing(d dice) clearing {
	c := clearing{Upstream: d.chance(0.3), Downstream: d.chance(0.5), OnlyFailed: d.chance(0.3)}
	for _, n := range some(d, g.nodes, 0.3) {
		c.Tasks = append(c.Tasks, n.id())
	}
	if len(c.Tasks) == 0 {
		c.Tasks = append(c.Tasks, g.nodes[d.IntN(len(g.nodes))].id())
	}
	return c
}

// drawCampaign makes two or three runs of a DAG, an hour apart, and clears
// instances of them in between.
func drawCampaign(g *graph, c *dagCase) {
	d := g.d
	c.Scripts = map[string]map[string]*step{}
	var names []string
	for k := range d.between(2, 3) {
		run := &newRun{Name: fmt.Sprintf("run%d", k), Logical: iso(mustTime(c.LogicalDate).Add(time.Duration(k) * time.Hour)), Type: "scheduled"}
		if d.chance(0.25) {
			run.Type = "manual"
		}
		names = append(names, run.Name)
		c.Campaign = append(c.Campaign, action{Run: run})
		for i := range g.nodes {
			g.drawStep(i)
		}
		c.Scripts[run.Name], _ = g.script()
		if !d.chance(0.7) {
			continue
		}
		clear := g.drawClearing(d)
		at := d.IntN(len(names))
		switch r := d.Float64(); {
		case r < 0.2:
			clear.Runs = slices.Clone(names[:at+1])
		case r < 0.4:
			clear.Runs = slices.Clone(names[at:])
		default:
			clear.Runs = []string{names[at]}
		}
		c.Campaign = append(c.Campaign, action{Clear: &clear})
	}
}

func compareScopes(d *dag.DAG, c *dagCase, theirs *answer) []difference {
	var out []difference
	g := dag.NewGraph(d)
	for i, q := range c.Scopes {
		ours := g.ClearScope(q.Tasks, q.Upstream, q.Downstream)
		slices.Sort(ours)
		if show(ours) != show(theirs.Scopes[i]) {
			out = append(out, difference{DagID: d.ID, Part: "cleared together", What: show(q), Airlock: show(ours), Airflow: show(theirs.Scopes[i])})
		}
	}
	return out
}

// runCampaigns does to the state database what the campaigns say.
func runCampaigns(ctx context.Context, dir string, cases []*dagCase) (map[string][]map[string]*ending, error) {
	out := map[string][]map[string]*ending{}
	var mine []*dagCase
	for _, c := range cases {
		if c.Campaign != nil {
			mine = append(mine, c)
		}
	}
	if len(mine) == 0 {
		return out, nil
	}
	s, err := newStage(ctx, filepath.Join(dir, "campaigns.db"), mine)
	if err != nil {
		return nil, err
	}
	defer s.close()
	for _, c := range mine {
		endings, err := s.act(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.DagID, err)
		}
		out[c.DagID] = endings
	}
	return out, nil
}

// compareCampaign compares all runs after each action, up to the first action
// after which they differ.
func compareCampaign(c *dagCase, ours []map[string]*ending, theirs *answer) []difference {
	for i := range ours {
		var out []difference
		for _, name := range sortedKeys(ours[i]) {
			b := theirs.Campaign[i][name]
			if b == nil {
				b = &ending{}
			}
			for _, diff := range compareEndings(c.DagID, c.Scripts[name], ours[i][name], b) {
				diff.Part, diff.What = "campaign", fmt.Sprintf("after %s: %s %s", show(c.Campaign[i]), name, diff.What)
				out = append(out, diff)
			}
		}
		if out != nil {
			return out
		}
	}
	return nil
}
