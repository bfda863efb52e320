package main

import (
	"slices"

	"github.com/airlock-dag/airlock/dag"
)

// judgeAll compares every DAG. DAGs whose endings differ are given back to be
// asked again under the named rules.
func judgeAll(rep *report, cases []*dagCase, dags map[string]*dag.DAG, answers map[string]*answer, campaigns map[string][]map[string]*ending) []*dagCase {
	var again []*dagCase
	for _, c := range cases {
		d, theirs := dags[c.DagID], answers[c.DagID]
		switch {
		case theirs == nil:
			rep.add(difference{DagID: c.DagID, Part: "answer", Airflow: "none"})
			continue
		case theirs.Error != "":
			rep.add(difference{DagID: c.DagID, Part: "answer", Airlock: "loaded", Airflow: theirs.Error + "\n" + theirs.Trace})
			continue
		}
		rep.dags++
		rep.tasks += len(d.Tasks)
		shaped := len(compareStructure(d, theirs.Structure)) > 0
		n, diffs := compareRuns(d, c, theirs)
		rep.steps += n
		m, more := compareManual(d, c, theirs)
		rep.manual += m
		moved := len(diffs)+len(more) > 0
		n, diffs = compareRetries(d, c, theirs)
		rep.retries += n
		rep.add(diffs...)
		rep.scopes += len(c.Scopes)
		rep.add(compareScopes(d, c, theirs)...)
		ours := newDrive(d, c).toTheEnd(!c.failFast)
		rep.instances += len(ours.States)
		if settled := newDrive(d, c).toTheEnd(false); !c.failFast && len(compareEndings(c.DagID, c.Script, &settled, &ours)) > 0 {
			rep.paced++
		}
		campaign := false
		if c.Campaign != nil {
			rep.countCampaign(c, campaigns[c.DagID])
			campaign = len(compareCampaign(c, campaigns[c.DagID], theirs)) > 0
		}
		ended := len(compareEndings(c.DagID, c.Script, &ours, theirs.States)) > 0
		if ended || moved || shaped || campaign {
			c2 := underRules(c, ended || shaped, moved, campaign)
			c2.shaped = shaped
			again = append(again, c2)
		}
	}
	return again
}

// shapedBy is the rule that makes the two readings of a file alike.
func shapedBy(d *dag.DAG) string {
	for i := range d.Tasks {
		if t := &d.Tasks[i]; t.Mapped() && t.WaitForDownstream {
			return "wait-implies-past"
		}
	}
	return "groups-as-written"
}

// underRules asks again what differed, of an Airflow that follows the rules.
func underRules(c *dagCase, ended, moved, campaign bool) *dagCase {
	again := *c
	again.Rules, again.Retries, again.Scopes = ruleNames(), nil, nil
	if !campaign {
		again.Campaign = nil
	}
	if !moved {
		again.Jumps, again.Manual = nil, nil
	}
	if !ended {
		again.Script = nil
	}
	return &again
}

// judgeAgain compares what differed with an Airflow that follows the named rules.
// DAGs whose several runs still differ, and nothing else of them, are given back
// to be asked once more at Airlock's own pace, which the runs in the state
// database have.
func judgeAgain(rep *report, cases []*dagCase, dags map[string]*dag.DAG, answers map[string]*answer, campaigns map[string][]map[string]*ending) []*dagCase {
	var paced []*dagCase
	for _, c := range cases {
		theirs := answers[c.DagID]
		if theirs == nil || theirs.Error != "" {
			rep.add(difference{DagID: c.DagID, Part: "answer", Airflow: show(theirs)})
			continue
		}
		d := dags[c.DagID]
		diffs, fired := compareStructure(d, theirs.Structure), []string(nil)
		if len(diffs) > 0 {
			rep.add(diffs...)
			continue
		}
		if c.shaped {
			fired = append(fired, shapedBy(d))
		}
		if c.Jumps != nil {
			_, runs := compareRuns(d, c, theirs)
			_, manual := compareManual(d, c, theirs)
			diffs, fired = append(runs, manual...), append(fired, theirs.Fired...)
		}
		if c.Script != nil {
			ours := newDrive(d, c).toTheEnd(!c.failFast) // that rule settles at once
			diffs, fired = append(diffs, compareEndings(c.DagID, c.Script, &ours, theirs.States)...), append(fired, theirs.States.Fired...)
		}
		if c.Campaign != nil {
			moved := compareCampaign(c, campaigns[c.DagID], theirs)
			if len(diffs) == 0 && len(moved) > 0 && !contains(c.Rules, settlesAtOnce) {
				paced = append(paced, atOwnPace(c, fired))
				continue
			}
			diffs, fired = append(diffs, moved...), append(fired, firedIn(theirs.Campaign)...)
		}
		if rep.add(diffs...); len(diffs) == 0 {
			fired = append(fired, c.fired...)
			slices.Sort(fired)
			rep.explain(slices.Compact(fired))
		}
	}
	return paced
}

// atOwnPace asks for the several runs of a DAG alone. What explained the rest of
// it stays noted.
func atOwnPace(c *dagCase, fired []string) *dagCase {
	slow := *c
	slow.Rules = append(slices.Clone(c.Rules), settlesAtOnce)
	slow.Script, slow.Jumps, slow.Manual = nil, nil, nil
	slow.fired = append(fired, settlesAtOnce)
	return &slow
}

// firedIn are the rules that fired in a campaign, each once.
func firedIn(states []map[string]*ending) []string {
	seen := map[string]bool{}
	for _, runs := range states {
		for _, e := range runs {
			for _, name := range e.Fired {
				seen[name] = true
			}
		}
	}
	return sortedKeys(seen)
}
