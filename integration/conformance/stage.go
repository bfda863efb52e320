package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/airlock-dag/airlock/cmd/app"
	"github.com/airlock-dag/airlock/cmd/config"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
	"github.com/airlock-dag/airlock/dag/dagtest"
	"github.com/airlock-dag/airlock/executor"
	"github.com/airlock-dag/airlock/sql/store"
)

// stage runs DAGs with Airlock's own scheduler and state database; the work of
// each attempt is replaced by its script.
type stage struct {
	store    *store.Store
	clock    *dagtest.Clock
	versions map[string]int64
	poked    map[string]int
	runs     []*stagedRun // of the present DAG, in the order of their dates
}

type stagedRun struct {
	name string
	run  dag.Run
}

// folder is a DAGs folder in memory.
type folder []bundle.File

func (f folder) Scan() ([]bundle.File, error) { return f, nil }

func (f folder) Watch(ctx context.Context, _ dag.Clock, _ time.Duration) <-chan struct{} {
	ch := make(chan struct{})
	context.AfterFunc(ctx, func() { close(ch) })
	return ch
}

func newStage(ctx context.Context, path string, cases []*dagCase) (*stage, error) {
	s := &stage{clock: dagtest.NewClock(time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)), versions: map[string]int64{}, poked: map[string]int{}}
	var err error
	if s.store, err = store.Open(ctx, "sqlite:///"+path, store.Options{Clock: s.clock}); err != nil {
		return nil, err
	}
	if err := s.store.Migrate(ctx); err != nil {
		return nil, err
	}
	var files folder
	for _, c := range cases {
		files = append(files, bundle.File{Path: filepath.Base(c.File), Data: []byte(c.yaml)})
	}
	catalog := executor.NewCatalog(executor.CatalogOptions{
		Source: files, Catalog: s.store, Store: s.store, Clock: s.clock,
		Load: app.LoadOptions(config.Default(""), app.Operators(), nil, s.clock),
	})
	if _, err := catalog.Sync(ctx); err != nil {
		return nil, err
	}
	rows, err := s.store.DAGRows(ctx, dag.DAGFilter{})
	for _, row := range rows {
		s.versions[row.DagID] = row.VersionID
	}
	return s, err
}

func (s *stage) close() { _ = s.store.Close() }

// act does what a campaign says, and gives all runs after each action.
func (s *stage) act(ctx context.Context, c *dagCase) ([]map[string]*ending, error) {
	s.runs = nil
	d, err := s.store.Version(ctx, s.versions[c.DagID])
	if err != nil {
		return nil, fmt.Errorf("its version: %w", err)
	}
	var out []map[string]*ending
	for _, a := range c.Campaign {
		if a.Run != nil {
			err = s.create(ctx, d, a.Run)
		} else {
			err = s.clear(ctx, d, a.Clear)
		}
		if err != nil {
			return nil, err
		}
		states := map[string]*ending{}
		for _, r := range s.runs {
			if states[r.name], err = s.drive(ctx, d, r, c.Scripts[r.name]); err != nil {
				return nil, err
			}
		}
		out = append(out, states)
	}
	return out, nil
}

func (s *stage) create(ctx context.Context, d *dag.DAG, r *newRun) error {
	logical, now := mustTime(r.Logical), s.clock.Now()
	made, err := s.store.CreateRuns(ctx, []dag.NewRun{{Instances: dag.NewInstances(d), Run: dag.Run{
		DagID: d.ID, RunID: r.Name, Type: dag.RunType(r.Type), State: dag.RunQueued, VersionID: s.versions[d.ID],
		LogicalDate: &logical, DataIntervalStart: &logical, DataIntervalEnd: &logical, RunAfter: logical, QueuedAt: &now,
	}}})
	if err != nil {
		return err
	}
	s.runs = append(s.runs, &stagedRun{name: r.Name, run: made[0].Run})
	return nil
}

func (s *stage) clear(ctx context.Context, d *dag.DAG, what *clearing) error {
	tasks := dag.NewGraph(d).ClearScope(what.Tasks, what.Upstream, what.Downstream)
	for _, name := range what.Runs {
		if _, err := s.store.Clear(ctx, dag.ClearRequest{DagID: d.ID, RunID: name, TaskIDs: tasks, OnlyFailed: what.OnlyFailed, Actor: "conformance"}); err != nil {
			return err
		}
	}
	return nil
}

// drive takes a run as far as it comes: it settles, runs all that is ready at
// once, and settles again.
func (s *stage) drive(ctx context.Context, d *dag.DAG, r *stagedRun, script map[string]*step) (*ending, error) {
	scheduler := executor.NewScheduler(executor.SchedulerOptions{
		Store: s.store, Catalog: s.store, Results: s.store, Settings: s.store, Clock: s.clock, Rand: dag.SystemRand{}, OnlyRun: r.run.ID,
	})
	quiet := 0
	for range maxRounds {
		s.clock.Advance(time.Second)
		busy, err := scheduler.Pass(ctx)
		if err != nil {
			return nil, err
		}
		if busy {
			quiet = 0
			continue
		}
		claims, err := s.store.Claim(ctx, dag.ClaimParams{WorkerID: "w", Hostname: "h", N: 1000, Lease: time.Hour, OnlyRun: r.run.ID})
		if err != nil {
			return nil, err
		}
		if len(claims) > 0 {
			quiet = 0
		} else if quiet++; quiet > 3 {
			return s.ending(ctx, d, r)
		}
		slices.SortFunc(claims, func(a, b dag.Claim) int {
			if a.TaskID == b.TaskID {
				return a.MapIndex - b.MapIndex
			}
			if a.TaskID < b.TaskID {
				return -1
			}
			return 1
		})
		for _, claim := range claims {
			if err := s.attempt(ctx, d, claim, script[claim.TaskID]); err != nil {
				return nil, err
			}
		}
	}
	return nil, errors.New("the run does not come to an end")
}

// attempt ends an attempt as the script says. What waits for a while is due at once.
func (s *stage) attempt(ctx context.Context, d *dag.DAG, claim dag.Claim, st *step) error {
	ti := claim.TaskInstance
	now := s.clock.Now()
	result := executor.Decide(executor.Ending{
		DAG: d, Task: d.Task(claim.TaskID), Claim: claim, Outcome: outcomeOf(d, st, &ti, s.poked), Start: now, End: now, WorkerID: "w", Hostname: "h",
	}, nil)
	if result.NextTryAt != nil {
		result.NextTryAt = &now
	}
	status, err := s.store.Apply(ctx, []dag.Result{result})
	if err == nil && status[0] != dag.Applied {
		err = fmt.Errorf("the result of %s was not taken: %v", claim.TaskID, status[0])
	}
	return err
}

func (s *stage) ending(ctx context.Context, d *dag.DAG, r *stagedRun) (*ending, error) {
	run, err := s.store.Run(ctx, d.ID, r.name)
	if err != nil {
		return nil, err
	}
	list, err := s.store.Instances(ctx, dag.InstanceFilter{DagID: d.ID, RunID: r.name})
	if err != nil {
		return nil, err
	}
	e := &ending{Run: string(run.State), States: map[string]string{}, Tries: map[string]int{}}
	if !run.State.Finished() {
		e.Run = "stuck"
	}
	for i := range list {
		key := fmt.Sprintf("%s[%d]", list[i].TaskID, list[i].MapIndex)
		e.States[key], e.Tries[key] = string(list[i].State), list[i].TryNumber
	}
	return e, nil
}

// memoryFolder is where files need no disk, if there is such a place.
func memoryFolder(otherwise string) string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return otherwise
}
