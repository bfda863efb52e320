package cli

import (
	"context"
	"fmt"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/timetable"
)

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

// Run shows the run that a scheduler makes next, and those that follow it.
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
	runs, err := s.nextRuns(ctx, f, []string{d.ID})
	if err != nil {
		return err
	}
	var rows []nextRun
	for next := runs[0]; next != nil && len(rows) < c.Count; {
		rows = append(rows, nextRun{
			LogicalDate: iso(next.LogicalDate), DataIntervalStart: iso(next.DataIntervalStart), DataIntervalEnd: iso(next.DataIntervalEnd),
			RunAfter: iso(next.RunAfter), RunID: timetable.RunID(dag.RunScheduled, *next),
		})
		next = t.Next(next, timetable.RestrictionFor(d), s.env.Clock.Now())
	}
	switch row := f.row(d.ID); {
	case row == nil:
	case gone(f, row):
		fmt.Fprintf(s.env.Stderr, "%s starts no new runs: its file is gone or broken (`airlock dags validate`)\n", d.ID)
	case row.IsPaused:
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

// gone tells whether a DAG starts no new runs because its file gives none, and the
// file has not come back since a scheduler looked.
func gone(f found, row *dag.DAGRow) bool { return row.IsStale && f.file(row.DagID) == nil }

// nextRuns tells what each DAG runs next, nil for nothing, as a scheduler would
// decide it now: a run that was made ahead of its time, or else the plan in the
// DAG's row while that is the present version's, or what the timetable says.
func (s *session) nextRuns(ctx context.Context, f found, ids []string) ([]*dag.PlannedRun, error) {
	st, err := s.store(ctx)
	if err != nil {
		return nil, err
	}
	only := ids
	if len(only) > 1 {
		only = nil
	}
	ahead, err := st.RunsAhead(ctx, only)
	if err != nil {
		return nil, err
	}
	now := s.env.Clock.Now()
	plans := make([]plan, len(ids))
	var old []string // with plans that are due or of another version, and with nothing that was made ahead
	for i, id := range ids {
		p, row := &plans[i], f.row(id)
		if p.def = f.file(id); p.def == nil && (row == nil || row.IsStale) {
			continue
		}
		first, early := ahead[id]
		p.anew = row == nil || p.def != nil && (row.IsStale || row.VersionHash != p.def.Hash())
		switch {
		case p.anew:
		case early:
			p.stored = &first
		default:
			p.stored = row.Next
		}
		if !p.anew && (p.stored == nil || p.stored.RunAfter.After(now)) {
			continue
		}
		if p.def == nil {
			if p.def, err = st.Version(ctx, row.VersionID); err != nil {
				return nil, err
			}
		}
		if !early {
			old = append(old, id)
			continue
		}
		run, err := st.LatestScheduledRun(ctx, id) // the newest that is there has not been
		if err != nil {
			return nil, err
		}
		p.last = run.Planned()
	}
	latest, err := st.LatestScheduledRuns(ctx, old)
	if err != nil {
		return nil, err
	}
	out := make([]*dag.PlannedRun, len(ids))
	for i, id := range ids {
		p := plans[i]
		if p.def == nil {
			out[i] = p.stored
			continue
		}
		if run, found := latest[id]; found {
			p.last = run.Planned()
		}
		t, err := timetable.ForDAG(p.def)
		switch {
		case err != nil:
			return nil, fmt.Errorf("the timetable of %s: %w", id, err)
		case p.anew:
			out[i] = t.Next(p.last, timetable.RestrictionFor(p.def), now)
		default:
			out[i] = t.Planned(p.stored, p.last, timetable.RestrictionFor(p.def), now)
		}
	}
	return out, nil
}

// plan is what the next run of a DAG follows from.
type plan struct {
	// def is the DAG as its file has it, or else its last version where that is
	// needed; nil where the stored plan says it all.
	def *dag.DAG
	// anew: nothing that is stored was planned for this version.
	anew         bool
	stored, last *dag.PlannedRun
}
