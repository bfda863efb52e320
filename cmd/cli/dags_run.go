package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/airlock-dag/airlock/cmd/app"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor"
)

type dagsRunCmd struct {
	DagID string `arg:"" name:"dag" help:"The DAG's id."`
	Date  string `arg:"" optional:"" name:"date" help:"The run's logical date; now when it is not given."`
	Conf  string `short:"c" placeholder:"JSON" help:"The run's conf: a JSON object."`
	outputFlag
}

// Run runs the DAG once and prints what became of it.
func (c dagsRunCmd) Run(ctx context.Context, s *session) error {
	date, err := s.date(c.Date)
	if err != nil {
		return err
	}
	conf, err := parseObject("conf", c.Conf)
	if err != nil {
		return err
	}
	a, err := s.open(ctx, false)
	if err != nil {
		return err
	}
	cfg, err := s.config()
	if err != nil {
		return err
	}
	asData := c.Output == "json" || c.Output == "yaml"
	progress := s.env.Stdout
	if asData {
		progress = io.Discard
	}
	report, err := a.TestDAG(ctx, app.TestRequest{
		Actor: s.actor(),
		DagID: c.DagID, LogicalDate: date, Conf: conf, Out: progress, Terminal: s.env.Terminal && !asData,
	})
	if err != nil {
		return err
	}
	if asData {
		err = printValue(s.env.Stdout, c.Output, report)
	} else {
		report.Print(s.env.Stdout, cfg.Database.String(), terminalWidth(s.env.Stdout))
	}
	if err == nil && report.Run.State != dag.RunSuccess {
		err = errReported
	}
	return err
}

type dagsTriggerCmd struct {
	DagID string `arg:"" name:"dag" help:"The DAG's id."`
	Conf  string `short:"c" placeholder:"JSON" help:"The run's conf: a JSON object."`
	RunID string `short:"r" name:"run-id" placeholder:"ID" help:"The run's id; made from the date when it is not given."`
	Date  string `short:"e" name:"logical-date" placeholder:"DATE" help:"The run's logical date; none when it is not given."`
	Note  string `placeholder:"TEXT" help:"A word on why."`
	outputFlag
}

// Run makes a queued run.
func (c dagsTriggerCmd) Run(ctx context.Context, s *session) error {
	date, err := s.date(c.Date)
	if err != nil {
		return err
	}
	conf, err := parseObject("conf", c.Conf)
	if err != nil {
		return err
	}
	row, err := s.runnable(ctx, "trigger", c.DagID)
	if err != nil {
		return err
	}
	run, err := s.makeRun(ctx, row, executor.ManualRunRequest{RunID: c.RunID, LogicalDate: date, Conf: conf, Note: c.Note, TriggeredBy: "cli"})
	if err != nil {
		return err
	}
	if row.IsPaused {
		fmt.Fprintf(s.env.Stderr, "%s is paused: the run waits until `airlock dags unpause %s`\n", row.DagID, row.DagID)
	}
	return printRuns(s.env.Stdout, c.Output, []dag.Run{run})
}

// makeRun makes a run, unless one of its id or logical date is there.
func (s *session) makeRun(ctx context.Context, row dag.DAGRow, r executor.ManualRunRequest) (dag.Run, error) {
	st, err := s.store(ctx)
	if err != nil {
		return dag.Run{}, err
	}
	if r.Now, err = st.Now(ctx); err != nil {
		return dag.Run{}, err
	}
	planned, err := executor.ManualRun(ctx, st, row, r)
	if err != nil {
		return dag.Run{}, err
	}
	made, err := st.CreateRuns(ctx, []dag.NewRun{planned})
	if err != nil {
		return dag.Run{}, err
	}
	if made[0].Existed {
		return dag.Run{}, &dag.Error{
			Code: dag.ErrExists, Op: "trigger " + row.DagID, Err: fmt.Errorf("run %s has this id or logical date", made[0].Run.RunID),
			Hint: "give another --run-id or --logical-date, or run its tasks again with `airlock tasks clear`",
		}
	}
	detail, err := json.Marshal(map[string]string{"run_id": made[0].Run.RunID})
	if err != nil {
		return dag.Run{}, fmt.Errorf("write the audit log: %w", err)
	}
	return made[0].Run, st.WriteAudit(ctx, dag.AuditEntry{Actor: s.actor(), Action: "trigger", Subject: row.DagID, Detail: detail})
}

type dagsRunsCmd struct {
	DagID string   `arg:"" name:"dag" help:"The DAG's id."`
	State []string `placeholder:"STATE" help:"Only runs in these states: queued, running, success, failed."`
	Since string   `short:"s" name:"start-date" placeholder:"DATE" help:"Only runs from this instant on (or 24h: the last day)."`
	Until string   `short:"e" name:"end-date" placeholder:"DATE" help:"Only runs before this instant."`
	Limit int      `default:"100" help:"How many at most; 0 for all."`
	outputFlag
}

// Run lists runs.
func (c dagsRunsCmd) Run(ctx context.Context, s *session) error {
	filter := dag.RunFilter{DagID: c.DagID, Limit: noLimit(c.Limit), WithTaskStates: true}
	for _, text := range c.State {
		state := dag.RunState(text)
		if !slices.Contains([]dag.RunState{dag.RunQueued, dag.RunRunning, dag.RunSuccess, dag.RunFailed}, state) {
			return wrong("list runs", "use queued, running, success or failed", "%q is no state of a run", text)
		}
		filter.States = append(filter.States, state)
	}
	var err error
	if filter.Since, err = s.since(c.Since); err != nil {
		return err
	}
	if filter.Until, err = s.since(c.Until); err != nil {
		return err
	}
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	runs, err := st.Runs(ctx, filter)
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		if _, _, err := s.dag(ctx, c.DagID); err != nil {
			return err
		}
	}
	return printRuns(s.env.Stdout, c.Output, runs)
}

// noLimit turns the flag's 0 into the store's "all".
func noLimit(n int) int {
	if n <= 0 {
		return -1
	}
	return n
}

func printRuns(w io.Writer, format string, runs []dag.Run) error {
	return printRows(w, format, runs,
		spared(6, col("dag_id", func(r dag.Run) any { return r.DagID })),
		kept(col("run_id", func(r dag.Run) any { return r.RunID })),
		spared(5, col("run_type", func(r dag.Run) any { return string(r.Type) })),
		col("state", func(r dag.Run) any { return string(r.State) }),
		spared(3, col("logical_date", func(r dag.Run) any { return r.LogicalDate })),
		spared(7, col("run_after", func(r dag.Run) any { return r.RunAfter })),
		col("start_date", func(r dag.Run) any { return r.StartDate }),
		spared(1, col("end_date", func(r dag.Run) any { return r.EndDate })),
		spared(4, col("reason", func(r dag.Run) any { return r.Reason })),
		// A run may succeed by its last tasks although some in the middle failed.
		spared(2, col("failed_tasks", func(r dag.Run) any { return r.TaskStates[dag.StateFailed] })),
	)
}

// iso is an instant as data: UTC, with microseconds only where there are some.
func iso(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.999999Z07:00") }
