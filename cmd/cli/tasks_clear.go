package cli

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

type tasksClearCmd struct {
	DagID      string `arg:"" name:"dag" help:"The DAG's id."`
	TaskRegex  string `short:"t" name:"task-regex" placeholder:"REGEX" help:"Only tasks whose id matches; all when it is not given."`
	RunID      string `short:"r" name:"run-id" placeholder:"RUN" help:"The run, by its id or logical date."`
	Start      string `short:"s" name:"start-date" placeholder:"DATE" help:"Runs with a logical date from here on."`
	End        string `short:"e" name:"end-date" placeholder:"DATE" help:"Runs with a logical date up to here."`
	MapIndexes []int  `name:"map-index" placeholder:"N" help:"Only these instances of mapped tasks."`
	Downstream bool   `short:"d" help:"Also what is downstream of the tasks."`
	Upstream   bool   `short:"u" help:"Also what is upstream of the tasks."`
	Past       bool   `help:"Also the runs with earlier logical dates."`
	Future     bool   `help:"Also the runs with later logical dates."`
	OnlyFailed bool   `short:"f" name:"only-failed" help:"Only failed and upstream_failed instances."`
	OnlyRuns   bool   `name:"only-running" help:"Only instances that run now."`
	DryRun     bool   `name:"dry-run" help:"Show what would be cleared, and do nothing."`
	Yes        bool   `short:"y" help:"Do not ask."`
	outputFlag
}

// Run clears instances after showing them.
func (c tasksClearCmd) Run(ctx context.Context, s *session) error {
	runs, err := c.runs(ctx, s)
	if err != nil {
		return err
	}
	tasks, err := c.tasks(ctx, s)
	if err != nil {
		return err
	}
	would, err := c.clear(ctx, s, runs, tasks, true)
	if err != nil {
		return err
	}
	if len(would) == 0 {
		fmt.Fprintln(s.env.Stderr, "nothing matches: no instance is cleared")
	}
	if c.DryRun || len(would) == 0 {
		return printInstances(s.env.Stdout, c.Output, would)
	}
	if !c.Yes {
		if err := printInstances(s.env.Stdout, c.Output, would); err != nil {
			return err
		}
		if err := s.confirm(fmt.Sprintf("Clear %s?", count(len(would), "instance"))); err != nil {
			return err
		}
	}
	cleared, err := c.clear(ctx, s, runs, tasks, false)
	if err != nil {
		return err
	}
	if err := c.tell(ctx, s, len(cleared), runs); err != nil {
		return err
	}
	if c.Yes {
		return printInstances(s.env.Stdout, c.Output, cleared)
	}
	return nil
}

// tell says what follows, which is nothing while the DAG is paused, and what does
// not: a run goes on with the version of the DAG that it was made with.
func (c tasksClearCmd) tell(ctx context.Context, s *session, n int, runs []dag.Run) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	rows, err := st.DAGRows(ctx, dag.DAGFilter{})
	if err != nil {
		return err
	}
	next := "the scheduler starts what is ready"
	if slices.ContainsFunc(rows, func(r dag.DAGRow) bool { return r.DagID == c.DagID && r.IsPaused }) {
		next = fmt.Sprintf("%s is paused, so they wait until `airlock dags unpause %s`", c.DagID, c.DagID)
	}
	fmt.Fprintf(s.env.Stderr, "%s cleared: %s\n", count(n, "instance"), next)
	newest, _, err := s.dag(ctx, c.DagID)
	if err != nil {
		return err
	}
	old := map[int64]bool{}
	changed := 0
	for _, r := range runs {
		was, asked := old[r.VersionID]
		if !asked {
			d, err := st.Version(ctx, r.VersionID)
			if err != nil {
				return err
			}
			was = d.Hash() != newest.Hash()
			old[r.VersionID] = was
		}
		if was {
			changed++
		}
	}
	if changed > 0 {
		fmt.Fprintf(s.env.Stderr, "the DAG has changed since %s of these began, which goes on as it was then; with the DAG as it is now a failed task runs by `airlock dlq replay` in place of the clear, or in a new run\n",
			count(changed, "run"))
	}
	return nil
}

func (c tasksClearCmd) clear(ctx context.Context, s *session, runs []dag.Run, tasks []string, dry bool) ([]dag.TaskInstance, error) {
	st, err := s.store(ctx)
	if err != nil {
		return nil, err
	}
	var all []dag.TaskInstance
	for _, run := range runs {
		cleared, err := st.Clear(ctx, dag.ClearRequest{
			DagID: c.DagID, RunID: run.RunID, TaskIDs: tasks, MapIndexes: c.MapIndexes, OnlyFailed: c.OnlyFailed, OnlyRunning: c.OnlyRuns,
			DryRun: dry, Actor: s.actor(),
		})
		if err != nil {
			return all, err
		}
		all = append(all, cleared...)
	}
	return all, nil
}

// runs are the one run that is named, with those before and after it where that
// is asked for, or those between two dates; the oldest first.
func (c tasksClearCmd) runs(ctx context.Context, s *session) ([]dag.Run, error) {
	from, err := s.date(c.Start)
	if err != nil {
		return nil, err
	}
	to, err := s.date(c.End)
	if err != nil {
		return nil, err
	}
	switch {
	case c.OnlyFailed && c.OnlyRuns:
		return nil, wrong("clear tasks", "give one of them", "--only-failed and --only-running leave nothing")
	case c.RunID != "" && (from != nil || to != nil):
		return nil, wrong("clear tasks", "give a run, with --past or --future, or dates", "both --run-id and dates are given")
	case c.RunID != "":
		run, err := s.run(ctx, c.DagID, c.RunID)
		if err != nil || !c.Past && !c.Future {
			return []dag.Run{run}, err
		}
		if run.LogicalDate == nil {
			return nil, wrong("clear tasks", "leave --past and --future out", "run %s has no logical date, so nothing is before or after it", run.RunID)
		}
		if !c.Past {
			from = run.LogicalDate
		}
		if !c.Future {
			to = run.LogicalDate
		}
	case c.Past || c.Future:
		return nil, wrong("clear tasks", "give --run-id, or --start-date and --end-date alone", "--past and --future go with a run")
	case from == nil && to == nil:
		return nil, wrong("clear tasks", "give --run-id RUN, or --start-date and --end-date", "it is not said in which runs")
	}
	st, err := s.store(ctx)
	if err != nil {
		return nil, err
	}
	runs, err := st.Runs(ctx, dag.RunFilter{DagID: c.DagID, Limit: -1})
	runs = slices.DeleteFunc(runs, func(r dag.Run) bool { return !between(r.LogicalDate, from, to) })
	slices.SortFunc(runs, func(a, b dag.Run) int { return a.LogicalDate.Compare(*b.LogicalDate) })
	return runs, err
}

// between tells whether a date lies between two others, each nil for no bound.
func between(date, from, to *time.Time) bool {
	return date != nil && (from == nil || !date.Before(*from)) && (to == nil || !date.After(*to))
}

// tasks are the ids that the expression names, with what has to be cleared
// together with them; nil for all tasks.
func (c tasksClearCmd) tasks(ctx context.Context, s *session) ([]string, error) {
	d, _, err := s.dag(ctx, c.DagID)
	if err != nil || c.TaskRegex == "" {
		return nil, err
	}
	expression, err := regexp.Compile(c.TaskRegex)
	if err != nil {
		return nil, wrong("read --task-regex", "write a Go regular expression", "%w", err)
	}
	var named []string
	for i := range d.Tasks {
		if expression.MatchString(d.Tasks[i].ID) {
			named = append(named, d.Tasks[i].ID)
		}
	}
	if len(named) == 0 {
		return nil, notFound("task", c.TaskRegex, taskIDs(d), "`airlock tasks list "+c.DagID+"` shows all")
	}
	return dag.NewGraph(d).ClearScope(named, c.Upstream, c.Downstream), nil
}
