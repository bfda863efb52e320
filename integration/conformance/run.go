package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/airlock-dag/airlock/cmd/app"
	"github.com/airlock-dag/airlock/cmd/config"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
	"github.com/airlock-dag/airlock/dag/load"
)

// compare does one whole comparison and tells whether every difference is
// explained.
func compare(ctx context.Context, o settings) (bool, error) {
	clock := dag.SystemClock{}
	began := clock.Now()
	fmt.Println("seed", o.seed)
	dir, err := workFolder(o.keep)
	if err != nil {
		return false, err
	}
	if o.keep == "" {
		defer os.RemoveAll(dir)
	}
	flow, err := install(ctx, o.cache, o.python)
	if err != nil {
		return false, fmt.Errorf("no Airflow to compare with: %w", err)
	}
	cases, err := generate(o, filepath.Join(dir, "dags"), "conf", o.dags, false)
	if err != nil {
		return false, err
	}
	real, err := generate(o, filepath.Join(dir, "engine"), "real", o.engine, true)
	if err != nil {
		return false, err
	}
	cases = append(cases, real...)
	stageDir, err := os.MkdirTemp(memoryFolder(dir), "airlock-conformance-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(stageDir)
	dags, err := loadOurs(cases)
	if err != nil {
		return false, err
	}
	fmt.Printf("%d DAGs made and loaded in %s; asking Airflow\n", len(cases), clock.Now().Sub(began).Round(time.Second))
	answers, seen, err := askAll(ctx, flow, dir, cases, o.parallel)
	if err != nil {
		return false, err
	}
	campaigns, err := runCampaigns(ctx, stageDir, cases)
	if err != nil {
		return false, fmt.Errorf("the campaigns: %w", err)
	}
	rep := newReport(o, seen)
	again := judgeAll(rep, cases, dags, answers, campaigns)
	if len(again) > 0 {
		second, _, err := askAll(ctx, flow, filepath.Join(dir, "again"), again, o.parallel)
		if err != nil {
			return false, err
		}
		if paced := judgeAgain(rep, again, dags, second, campaigns); len(paced) > 0 {
			third, _, err := askAll(ctx, flow, filepath.Join(dir, "paced"), paced, o.parallel)
			if err != nil {
				return false, err
			}
			judgeAgain(rep, paced, dags, third, campaigns)
		}
	}
	if err := runEngine(ctx, rep, dir, real, dags); err != nil {
		return false, fmt.Errorf("the engine's runs: %w", err)
	}
	if err := compareCorpus(ctx, rep, flow, filepath.Join(dir, "corpus"), o.corpus); err != nil {
		return false, fmt.Errorf("the corpus: %w", err)
	}
	rep.took = clock.Now().Sub(began)
	rep.print(os.Stdout)
	return rep.clean(), nil
}

func workFolder(keep string) (string, error) {
	if keep == "" {
		return os.MkdirTemp("", "airlock-conformance-")
	}
	abs, err := filepath.Abs(keep)
	if err != nil {
		return "", err
	}
	return abs, os.MkdirAll(abs, 0o750)
}

// generate makes random DAGs in a folder, each in a file of its own, with the
// steps that they call. Calm ones can run through the engine.
func generate(o settings, folder, prefix string, n int, calm bool) ([]*dagCase, error) {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return nil, err
	}
	stepsFile := filepath.Join(folder, "steps.py")
	if err := os.WriteFile(stepsFile, stepsSource, 0o600); err != nil {
		return nil, err
	}
	stream := 0
	if calm {
		stream = 1 << 20 // DAGs of their own
	}
	var out []*dagCase
	for i := range n {
		if o.only >= 0 && i != o.only {
			continue
		}
		c := newCase(o, fmt.Sprintf("%s_%04d", prefix, i), newDice(o.seed, i+stream), stepsFile, calm)
		c.File = filepath.Join(folder, c.DagID+".yml")
		if err := os.WriteFile(c.File, []byte(c.yaml), 0o600); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func newCase(o settings, id string, d dice, stepsFile string, calm bool) *dagCase {
	c := &dagCase{DagID: id}
	f := &fields{}
	f.open(id)
	c.LogicalDate = iso(writeSchedule(d, f, c, o.steps))
	g := newGraph(d, mustTime(c.LogicalDate), !c.undated)
	if calm {
		g.calm()
	}
	if g.campaign {
		f.add("max_active_tasks", 100)
	}
	c.failFast = g.failFast
	if g.failFast {
		f.add("fail_fast", true)
	}
	g.write(f, stepsFile)
	c.yaml = f.b.String()
	steps, x := g.script()
	c.Script, c.Extras = steps, map[string]extras{c.DagID: x}
	c.Retries = retryQuestions(d, g)
	c.Scopes = drawScopes(d, g)
	if g.campaign {
		drawCampaign(g, c)
	}
	return c
}

// loadOurs loads the files as the product does.
func loadOurs(cases []*dagCase) (map[string]*dag.DAG, error) {
	files := make([]bundle.File, 0, len(cases))
	for _, c := range cases {
		files = append(files, bundle.File{Path: filepath.Base(c.File), Data: []byte(c.yaml)})
	}
	res := load.Files(files, app.LoadOptions(config.Default(""), app.Operators(), nil, dag.SystemClock{}))
	var errs []error
	for _, p := range res.Problems {
		if p.Severity == dag.SeverityError {
			errs = append(errs, fmt.Errorf("%s:%d: %s: %s", p.File, p.Line, p.Code, p.Message))
		}
	}
	out := map[string]*dag.DAG{}
	for _, d := range res.DAGs {
		out[d.ID] = d
	}
	return out, errors.Join(errs...)
}

// askAll spreads the DAGs over several processes of Airflow.
func askAll(ctx context.Context, flow *airflow, dir string, cases []*dagCase, parallel int) (map[string]*answer, versions, error) {
	parallel = min(parallel, len(cases))
	type part struct {
		answers map[string]*answer
		seen    versions
		err     error
	}
	parts := make([]part, parallel)
	if _, err := os.Stat(filepath.Join(flow.cache, "airflow.db")); err != nil {
		parallel = 1 // the first process makes the database that the others copy
		parts = parts[:1]
	}
	var all sync.WaitGroup
	for k := range parallel {
		all.Go(func() {
			var mine []*dagCase
			for i := k; i < len(cases); i += parallel {
				mine = append(mine, cases[i])
			}
			sub := filepath.Join(dir, fmt.Sprintf("airflow-%d", k))
			p := &parts[k]
			if p.err = os.MkdirAll(sub, 0o750); p.err == nil {
				p.answers, p.seen, p.err = flow.ask(ctx, sub, mine, nil)
			}
		})
	}
	all.Wait()
	out := map[string]*answer{}
	for _, p := range parts {
		if p.err != nil {
			return nil, versions{}, p.err
		}
		for id, a := range p.answers {
			out[id] = a
		}
	}
	return out, parts[0].seen, nil
}
