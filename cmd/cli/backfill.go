package cli

import (
	"context"
	"fmt"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor"
)

type backfillCmd struct {
	Create backfillCreateCmd `cmd:"" help:"Make the runs of a stretch of the past."`
	List   backfillListCmd   `cmd:"" help:"List backfills and how far they are, newest first."`
}

type backfillCreateCmd struct {
	DagID     string `short:"d" name:"dag-id" required:"" placeholder:"DAG" help:"The DAG's id."`
	From      string `name:"from-date" required:"" placeholder:"DATE" help:"The first logical date that counts."`
	To        string `name:"to-date" required:"" placeholder:"DATE" help:"The last logical date that counts."`
	MaxRuns   int    `name:"max-active-runs" default:"10" placeholder:"N" help:"How many of its runs run at once. The DAG's own limit does not count them."`
	Reprocess string `name:"reprocess-behavior" default:"none" placeholder:"WHAT" help:"What to do with dates that have a finished run: none leaves it, failed runs failed ones again, completed runs all again."`
	Backwards bool   `name:"run-backwards" help:"The newest date first."`
	Conf      string `name:"dag-run-conf" placeholder:"JSON" help:"The conf of each run: a JSON object."`
	DryRun    bool   `name:"dry-run" help:"Show what would be done about each date, and do nothing."`
	outputFlag
}

// Run makes the runs of a backfill, or shows them.
func (c backfillCreateCmd) Run(ctx context.Context, s *session) error {
	from, err := s.date(c.From)
	if err != nil {
		return err
	}
	to, err := s.date(c.To)
	if err != nil {
		return err
	}
	if from == nil || to == nil {
		return wrong("backfill "+c.DagID, "give both --from-date and --to-date", "a date is empty")
	}
	conf, err := parseObject("conf", c.Conf)
	if err != nil {
		return err
	}
	row, err := s.runnable(ctx, "backfill", c.DagID)
	if err != nil {
		return err
	}
	made, dates, err := s.backfill(ctx, row, dag.Backfill{
		DagID: c.DagID, From: *from, To: *to, MaxActiveRuns: c.MaxRuns, Reprocess: dag.ReprocessBehavior(c.Reprocess),
		RunBackwards: c.Backwards, Conf: conf, Actor: s.actor(),
	}, c.DryRun)
	if err != nil {
		return err
	}
	switch {
	case c.DryRun:
		fmt.Fprintf(s.env.Stderr, "a dry run: %s would run, %d stay as they are\n", count(made.RunStates[dag.RunQueued], "run"), made.Skipped)
	default:
		fmt.Fprintf(s.env.Stderr, "backfill %d: %s to do, %d stay as they are\n", made.ID, count(made.RunStates[dag.RunQueued], "run"), made.Skipped)
		if row.IsPaused {
			fmt.Fprintf(s.env.Stderr, "%s is paused: the runs wait until `airlock dags unpause %s`\n", row.DagID, row.DagID)
		}
	}
	return printRows(s.env.Stdout, c.Output, dates,
		col("ordinal", func(r dag.BackfillRun) any { return r.Ordinal }),
		col("logical_date", func(r dag.BackfillRun) any { return r.LogicalDate }),
		col("action", func(r dag.BackfillRun) any { return string(r.Action) }),
		kept(col("run_id", func(r dag.BackfillRun) any { return r.RunID })),
	)
}

// backfill plans the runs from the DAG's present version and makes them.
func (s *session) backfill(ctx context.Context, row dag.DAGRow, b dag.Backfill, dryRun bool) (dag.Backfill, []dag.BackfillRun, error) {
	st, err := s.store(ctx)
	if err != nil {
		return b, nil, err
	}
	now, err := st.Now(ctx)
	if err != nil {
		return b, nil, err
	}
	d, err := st.Version(ctx, row.VersionID)
	if err != nil {
		return b, nil, err
	}
	runs, err := executor.PlanBackfill(d, row.VersionID, b, now)
	if err != nil {
		return b, nil, err
	}
	return st.CreateBackfill(ctx, b, runs, dryRun)
}

type backfillListCmd struct {
	DagID string `short:"d" name:"dag-id" placeholder:"DAG" help:"Only those of this DAG."`
	outputFlag
}

// Run lists backfills.
func (c backfillListCmd) Run(ctx context.Context, s *session) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	list, err := st.Backfills(ctx, c.DagID)
	if err != nil {
		return err
	}
	if len(list) == 0 && c.DagID != "" {
		if _, _, err := s.dag(ctx, c.DagID); err != nil {
			return err
		}
	}
	state := func(name string, states ...dag.RunState) column[dag.Backfill] {
		return col(name, func(b dag.Backfill) any {
			n := 0
			for _, st := range states {
				n += b.RunStates[st]
			}
			return n
		})
	}
	return printRows(s.env.Stdout, c.Output, list,
		col("id", func(b dag.Backfill) any { return b.ID }),
		col("dag_id", func(b dag.Backfill) any { return b.DagID }),
		col("from_date", func(b dag.Backfill) any { return b.From }),
		col("to_date", func(b dag.Backfill) any { return b.To }),
		col("max_active_runs", func(b dag.Backfill) any { return b.MaxActiveRuns }),
		col("reprocess_behavior", func(b dag.Backfill) any { return string(b.Reprocess) }),
		state("queued", dag.RunQueued), state("running", dag.RunRunning), state("success", dag.RunSuccess), state("failed", dag.RunFailed),
		col("skipped", func(b dag.Backfill) any { return b.Skipped }),
		col("complete", func(b dag.Backfill) any { return b.Complete() }),
		col("created_at", func(b dag.Backfill) any { return b.CreatedAt }),
	)
}
