package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// dagsCmd groups what is done with DAGs.
type dagsCmd struct {
	Validate      dagsValidateCmd `cmd:"" help:"Report every mistake of DAG files, each with its place."`
	List          dagsListCmd     `cmd:"" help:"List the DAGs."`
	Show          dagsShowCmd     `cmd:"" help:"Show one DAG and its tasks."`
	Test          dagsRunCmd      `cmd:"" help:"Run a DAG once, here and now, without a scheduler."`
	Trigger       dagsTriggerCmd  `cmd:"" help:"Make a run for the scheduler to carry out."`
	NextExecution dagsNextCmd     `cmd:"" name:"next-execution" help:"Show when a DAG runs next."`
	ListRuns      dagsRunsCmd     `cmd:"" name:"list-runs" help:"List a DAG's runs, newest first."`
	Pause         dagsPauseCmd    `cmd:"" help:"Make no more scheduled runs of DAGs."`
	Unpause       dagsUnpauseCmd  `cmd:"" help:"Make scheduled runs of DAGs again."`
}

type dagsListCmd struct {
	outputFlag
}

// Run lists the DAGs of the folder and of the state database.
func (c dagsListCmd) Run(ctx context.Context, s *session) error {
	f, err := s.find(ctx)
	if err != nil {
		return err
	}
	cfg, err := s.config()
	if err != nil {
		return err
	}
	rows := slices.Clone(f.rows)
	for _, d := range f.files.DAGs {
		if f.row(d.ID) == nil {
			rows = append(rows, newRow(d, cfg.PausedAtCreation))
		}
	}
	slices.SortFunc(rows, func(a, b dag.DAGRow) int { return strings.Compare(a.DagID, b.DagID) })
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.DagID
	}
	next, err := s.nextRuns(ctx, f, ids)
	if err != nil {
		return err
	}
	for i := range rows {
		rows[i].Next = next[i]
	}
	if err := printRows(s.env.Stdout, c.Output, rows,
		kept(col("dag_id", func(r dag.DAGRow) any { return r.DagID })),
		spared(2, col("fileloc", func(r dag.DAGRow) any { return r.FileLoc })),
		spared(3, col("owner", func(r dag.DAGRow) any { return r.Owner })),
		col("schedule", func(r dag.DAGRow) any { return r.Schedule }),
		col("is_paused", func(r dag.DAGRow) any { return r.IsPaused }),
		col("next_run", func(r dag.DAGRow) any {
			if r.Next == nil {
				return nil
			}
			return r.Next.RunAfter
		}),
		spared(1, col("is_stale", func(r dag.DAGRow) any { return r.IsStale })),
	); err != nil {
		return err
	}
	if n := len(f.files.Broken); n > 0 {
		verb := "have"
		if n == 1 {
			verb = "has"
		}
		fmt.Fprintf(s.env.Stderr, "%s %s mistakes: `airlock dags validate` shows them\n", count(n, "file"), verb)
	}
	return nil
}

// newRow is the row that a DAG will have once a scheduler has seen it.
func newRow(d *dag.DAG, paused bool) dag.DAGRow {
	if d.IsPausedUponCreation != nil {
		paused = *d.IsPausedUponCreation
	}
	return dag.DAGRow{
		DagID: d.ID, FileLoc: d.FileLoc, Owner: d.Owner, Schedule: d.Schedule.Text, Description: d.Description,
		IsPaused: paused, VersionHash: d.Hash(),
	}
}

type dagsShowCmd struct {
	DagID string `arg:"" name:"dag" help:"The DAG's id."`
	outputFlag
}

// Run shows a DAG; as JSON or YAML it is the whole model with every default.
func (c dagsShowCmd) Run(ctx context.Context, s *session) error {
	d, f, err := s.dag(ctx, c.DagID)
	if err != nil {
		return err
	}
	if c.Output == "json" || c.Output == "yaml" {
		return printValue(s.env.Stdout, c.Output, d)
	}
	runs, err := s.nextRuns(ctx, f, []string{d.ID})
	if err != nil {
		return err
	}
	paused, next, commit := any("not seen by a scheduler yet"), any(nil), any(nil)
	if runs[0] != nil {
		next = runs[0].RunAfter
	}
	if row := f.row(d.ID); row != nil {
		paused = row.IsPaused
		if row.Source != "" && row.VersionHash == d.Hash() {
			commit = row.Source
		}
	}
	if err := printPairs(s.env.Stdout, c.Output, nil, []pair{
		{"dag_id", d.ID},
		{"description", d.Description},
		{"fileloc", d.FileLoc},
		{"version", d.Hash()[:12]},
		{"commit", commit},
		{"owner", d.Owner},
		{"tags", d.Tags},
		{"schedule", d.Schedule.Text},
		{"timezone", d.Timezone},
		{"start_date", d.StartDate},
		{"end_date", d.EndDate},
		{"catchup", d.Catchup},
		{"max_active_runs", d.MaxActiveRuns},
		{"max_active_tasks", d.MaxActiveTasks},
		{"is_paused", paused},
		{"next_run", next},
	}); err != nil {
		return err
	}
	return printTasks(s, c.Output, d)
}

func printTasks(s *session, format string, d *dag.DAG) error {
	return printRows(s.env.Stdout, format, d.Tasks,
		kept(col("task_id", func(t dag.Task) any { return t.ID })),
		col("operator", func(t dag.Task) any { return t.Operator }),
		col("upstream", func(t dag.Task) any { return t.Upstream }),
		col("trigger_rule", func(t dag.Task) any { return string(t.TriggerRule) }),
		spared(2, col("queue", func(t dag.Task) any { return t.Queue })),
		spared(3, col("pool", func(t dag.Task) any { return t.Pool })),
		col("retries", func(t dag.Task) any { return t.Retry.Retries }),
		spared(1, col("mapped", func(t dag.Task) any { return t.Expand != nil })),
	)
}

type dagsPauseCmd struct {
	DagIDs []string `arg:"" name:"dag" help:"The DAGs' ids."`
}

// Run pauses DAGs.
func (c dagsPauseCmd) Run(ctx context.Context, s *session) error {
	return s.setPaused(ctx, c.DagIDs, true)
}

type dagsUnpauseCmd struct {
	DagIDs []string `arg:"" name:"dag" help:"The DAGs' ids."`
}

// Run lets DAGs run again.
func (c dagsUnpauseCmd) Run(ctx context.Context, s *session) error {
	return s.setPaused(ctx, c.DagIDs, false)
}

func (s *session) setPaused(ctx context.Context, ids []string, paused bool) error {
	action, word := "unpause", "unpaused"
	if paused {
		action, word = "pause", "paused"
	}
	for _, id := range ids {
		if _, err := s.stored(ctx, id); err != nil {
			return err
		}
		st, err := s.store(ctx)
		if err != nil {
			return err
		}
		changed, err := st.SetPaused(ctx, id, paused)
		if err != nil {
			return err
		}
		if !changed {
			fmt.Fprintf(s.env.Stdout, "%s was %s already\n", id, word)
			continue
		}
		if err := s.audit(ctx, action, id); err != nil {
			return err
		}
		fmt.Fprintf(s.env.Stdout, "%s is %s now\n", id, word)
	}
	return nil
}
