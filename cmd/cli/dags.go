package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/load"
	"github.com/airlock-dag/airlock/dag/timetable"
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

// found is what the files and the state database know of the DAGs.
type found struct {
	files load.Result
	rows  []dag.DAGRow
}

// find reads the DAGs folder and the state database.
func (s *session) find(ctx context.Context) (found, error) {
	cfg, err := s.config()
	if err != nil {
		return found{}, err
	}
	st, err := s.store(ctx)
	if err != nil {
		return found{}, err
	}
	rows, err := st.DAGRows(ctx, dag.DAGFilter{})
	if err != nil {
		return found{}, err
	}
	var files load.Result
	if err = s.fetch(ctx, false); err == nil {
		files, err = s.load(cfg.DagsFolder, nil)
	}
	if err != nil && len(rows) > 0 { // what the database knows is not hidden by files that are not here
		fmt.Fprintln(s.env.Stderr, "airlock: warning:", err)
		err = nil
	}
	return found{files: files, rows: rows}, err
}

// row is what the state database knows of a DAG; nil when it is not there yet.
func (f found) row(id string) *dag.DAGRow {
	if i := slices.IndexFunc(f.rows, func(r dag.DAGRow) bool { return r.DagID == id }); i >= 0 {
		return &f.rows[i]
	}
	return nil
}

// file is the DAG as its file has it; nil when there is none without mistakes.
func (f found) file(id string) *dag.DAG {
	if i := slices.IndexFunc(f.files.DAGs, func(d *dag.DAG) bool { return d.ID == id }); i >= 0 {
		return f.files.DAGs[i]
	}
	return nil
}

// unknown is the error for a DAG that is nowhere, or whose file is broken.
func (f found) unknown(id string) error {
	if file, ok := f.files.DagFiles[id]; ok {
		return &dag.Error{
			Code: dag.ErrNotFound, Op: "DAG " + id, Err: fmt.Errorf("its file %s has mistakes", file),
			Hint: "`airlock dags validate` shows them",
		}
	}
	known := make([]string, 0, len(f.rows))
	for _, r := range f.rows {
		known = append(known, r.DagID)
	}
	for _, d := range f.files.DAGs {
		known = append(known, d.ID)
	}
	return notFound("DAG", id, known, "`airlock dags list` shows all; --dags-folder says where the files are")
}

// dag finds a DAG in its file, or else as the state database has it last.
func (s *session) dag(ctx context.Context, id string) (*dag.DAG, found, error) {
	f, err := s.find(ctx)
	if err != nil {
		return nil, f, err
	}
	if d := f.file(id); d != nil {
		return d, f, nil
	}
	row := f.row(id)
	if row == nil {
		return nil, f, f.unknown(id)
	}
	st, err := s.store(ctx)
	if err != nil {
		return nil, f, err
	}
	d, err := st.Version(ctx, row.VersionID)
	return d, f, err
}

// runnable is stored for a command that makes runs: op is its verb. A DAG whose
// file is gone or broken is an error.
func (s *session) runnable(ctx context.Context, op, id string) (dag.DAGRow, error) {
	row, err := s.stored(ctx, id)
	if err == nil && row.IsStale {
		err = &dag.Error{
			Code: dag.ErrConflict, Op: op + " " + id, Err: errors.New(cmp.Or(row.StaleReason, "its file is gone or broken")),
			Hint: "`airlock dags validate` shows what is wrong",
		}
	}
	return row, err
}

// stored finds a DAG's row and, when the state database has none yet, brings
// the database in step with the folder first.
func (s *session) stored(ctx context.Context, id string) (dag.DAGRow, error) {
	f, err := s.find(ctx)
	if err != nil {
		return dag.DAGRow{}, err
	}
	if row := f.row(id); row != nil {
		return *row, nil
	}
	if f.file(id) == nil {
		return dag.DAGRow{}, f.unknown(id)
	}
	a, err := s.open(ctx, false)
	if err != nil {
		return dag.DAGRow{}, err
	}
	if _, err := a.Catalog().Sync(ctx); err != nil {
		return dag.DAGRow{}, err
	}
	rows, err := a.Store().DAGRows(ctx, dag.DAGFilter{IDs: []string{id}})
	if err != nil {
		return dag.DAGRow{}, err
	}
	if len(rows) == 0 {
		return dag.DAGRow{}, f.unknown(id)
	}
	return rows[0], nil
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
			rows = append(rows, newRow(d, cfg.PausedAtCreation, s))
		}
	}
	slices.SortFunc(rows, func(a, b dag.DAGRow) int { return strings.Compare(a.DagID, b.DagID) })
	if err := printRows(s.env.Stdout, c.Output, rows,
		kept(col("dag_id", func(r dag.DAGRow) any { return r.DagID })),
		spared(2, col("fileloc", func(r dag.DAGRow) any { return r.FileLoc })),
		spared(3, col("owner", func(r dag.DAGRow) any { return r.Owner })),
		col("schedule", func(r dag.DAGRow) any { return r.Schedule }),
		col("is_paused", func(r dag.DAGRow) any { return r.IsPaused }),
		col("next_run", func(r dag.DAGRow) any {
			if r.Next == nil || r.IsStale { // a stale DAG starts no new runs
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
func newRow(d *dag.DAG, paused bool, s *session) dag.DAGRow {
	if d.IsPausedUponCreation != nil {
		paused = *d.IsPausedUponCreation
	}
	row := dag.DAGRow{
		DagID: d.ID, FileLoc: d.FileLoc, Owner: d.Owner, Schedule: d.Schedule.Text, Description: d.Description,
		IsPaused: paused, VersionHash: d.Hash(),
	}
	if t, err := timetable.ForDAG(d); err == nil {
		row.Next = t.Next(nil, timetable.RestrictionFor(d), s.env.Clock.Now())
	}
	return row
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
	paused, next, commit := any("not seen by a scheduler yet"), any(nil), any(nil)
	if row := f.row(d.ID); row != nil {
		paused = row.IsPaused
		if row.Source != "" && row.VersionHash == d.Hash() {
			commit = row.Source
		}
		if row.Next != nil {
			next = row.Next.RunAfter
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

type dagsNextCmd struct {
	DagID string `arg:"" name:"dag" help:"The DAG's id."`
	Count int    `short:"n" name:"num-executions" default:"1" help:"How many runs to show."`
	outputFlag
}

// nextRun is one planned run with the contract's names.
type nextRun struct {
	LogicalDate       string `json:"logical_date"`
	DataIntervalStart string `json:"data_interval_start"`
	DataIntervalEnd   string `json:"data_interval_end"`
	RunAfter          string `json:"run_after"`
	RunID             string `json:"run_id"`
}

// Run computes the next runs from the timetable and the latest run.
func (c dagsNextCmd) Run(ctx context.Context, s *session) error {
	if c.Count < 1 || c.Count > 10_000 {
		return wrong("next-execution", "give 1 to 10000", "%d runs were asked for", c.Count)
	}
	d, f, err := s.dag(ctx, c.DagID)
	if err != nil {
		return err
	}
	t, err := timetable.ForDAG(d)
	if err != nil {
		return err
	}
	last, err := s.latest(ctx, d.ID)
	if err != nil {
		return err
	}
	var rows []nextRun
	for range c.Count {
		next := t.Next(last, timetable.RestrictionFor(d), s.env.Clock.Now())
		if next == nil {
			break
		}
		rows = append(rows, nextRun{
			LogicalDate: iso(next.LogicalDate), DataIntervalStart: iso(next.DataIntervalStart), DataIntervalEnd: iso(next.DataIntervalEnd),
			RunAfter: iso(next.RunAfter), RunID: timetable.RunID(dag.RunScheduled, *next),
		})
		last = next
	}
	if row := f.row(d.ID); row != nil && row.IsPaused {
		fmt.Fprintf(s.env.Stderr, "%s is paused: `airlock dags unpause %s` lets it run\n", d.ID, d.ID)
	}
	return printRows(s.env.Stdout, c.Output, rows,
		spared(1, col("logical_date", func(r nextRun) any { return r.LogicalDate })),
		spared(2, col("data_interval_start", func(r nextRun) any { return r.DataIntervalStart })),
		spared(3, col("data_interval_end", func(r nextRun) any { return r.DataIntervalEnd })),
		col("run_after", func(r nextRun) any { return r.RunAfter }),
		kept(col("run_id", func(r nextRun) any { return r.RunID })),
	)
}

// latest is the newest automatic run as it was planned; nil when there is none.
func (s *session) latest(ctx context.Context, dagID string) (*dag.PlannedRun, error) {
	st, err := s.store(ctx)
	if err != nil {
		return nil, err
	}
	run, err := st.LatestScheduledRun(ctx, dagID)
	if err != nil || run == nil || run.LogicalDate == nil || run.DataIntervalStart == nil || run.DataIntervalEnd == nil {
		return nil, err
	}
	return &dag.PlannedRun{
		LogicalDate: *run.LogicalDate, DataIntervalStart: *run.DataIntervalStart, DataIntervalEnd: *run.DataIntervalEnd, RunAfter: run.RunAfter,
	}, nil
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
