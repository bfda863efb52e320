package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/airlock-dag/airlock/cmd/app"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge"
)

type dlqRowsReplayCmd struct {
	IDs []int64 `arg:"" optional:"" name:"id" help:"Only these rows, by their ids."`
	rowMatch
	Apply      bool `help:"Do it. Without it each row is tried and undone again."`
	Overwrite  bool `help:"Let a row change one that the table has, when the step has no version that says which is newer."`
	MaxReturns int  `name:"max-returns" default:"3" help:"A row that came back more often is not tried; -1 for no limit."`
	Limit      int  `placeholder:"N" help:"Decide about this many rows at most; 0 for all."`
	outputFlag
}

// rowReplay is a replay of rows with what came of it.
type rowReplay struct {
	DrainID string `json:"drain_id"`
	Applied bool   `json:"applied"`
	dag.DrainCounts
	Selected  int                 `json:"selected"`
	Decisions []merge.RowDecision `json:"decisions"`
}

// replayPage is how many rows are held in memory at once.
const replayPage = 1000

// Run merges open rows again, page by page, one task instance after the other.
func (c dlqRowsReplayCmd) Run(ctx context.Context, s *session) (err error) {
	filter, err := c.filter(s)
	if err != nil {
		return err
	}
	filter.IDs, filter.Status = c.IDs, string(dag.LetterQuarantined)
	a, err := s.open(ctx, false)
	if err != nil {
		return err
	}
	db, err := s.target(ctx, c.ConnID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, id := range c.IDs { // a misspelt id must not be passed over
		if _, err := rowLetter(ctx, db, id); err != nil {
			return err
		}
	}
	r := rowsRun{c: c, a: a, out: rowReplay{DrainID: dag.SystemIDs{}.NewID(), Applied: c.Apply, Decisions: []merge.RowDecision{}}, actor: s.actor()}
	if r.total, err = merge.CountRowLetters(ctx, db, filter); err != nil {
		return err
	}
	if c.Limit > 0 {
		r.total = min(r.total, c.Limit)
	}
	r.bar = s.newBar(map[bool]string{true: "replay", false: "dry run"}[c.Apply])
	failures, err := r.pages(ctx, db, filter)
	r.bar.stop()
	if err != nil {
		return err
	}
	for _, f := range failures {
		exitCode(s.env.Stderr, f)
	}
	if err := c.tell(s, r.out); err != nil {
		return err
	}
	if c.Apply && r.out.Selected > 0 {
		if err := c.auditRun(ctx, s, r.out); err != nil {
			return err
		}
	}
	if len(failures) > 0 {
		return errReported
	}
	return nil
}

// rowsRun is a replay under way.
type rowsRun struct {
	c     dlqRowsReplayCmd
	a     *app.App
	bar   *bar
	actor string
	total int
	out   rowReplay
}

// pages replays page after page. What keeps one task's rows from being replayed
// is a failure, and the others go on.
func (r *rowsRun) pages(ctx context.Context, db *dialect.DB, f merge.RowLetterFilter) (failures []error, err error) {
	told := map[string]bool{}
	for r.out.Selected < r.total && ctx.Err() == nil {
		f.Limit = min(replayPage, r.total-r.out.Selected)
		letters, err := merge.RowLetters(ctx, db, f)
		if err != nil || len(letters) == 0 {
			return failures, err
		}
		f.After = letters[len(letters)-1].ID
		r.out.Selected += len(letters)
		for _, group := range groupRows(letters) {
			if err := r.group(ctx, group); err != nil && !told[err.Error()] {
				told[err.Error()] = true
				failures = append(failures, err)
			}
		}
	}
	if ctx.Err() != nil {
		return failures, fmt.Errorf("stopped: what was decided is done, the rest is open: %w", context.Cause(ctx))
	}
	return failures, nil
}

func (r *rowsRun) group(ctx context.Context, letters []merge.RowLetter) error {
	decided, err := r.a.ReplayRows(ctx, app.RowReplayRequest{
		Instance: letters[0].TaskInstanceKey, ConnID: r.c.ConnID, Letters: letters,
		Replay: &merge.Replay{
			Drain: r.out.DrainID, Actor: r.actor, Apply: r.c.Apply, Overwrite: r.c.Overwrite, MaxReturns: r.c.MaxReturns,
			Told: func(d merge.RowDecision) {
				r.out.Add(dag.ReplayDecision(d.Decision))
				r.bar.set(r.out.Sum(), r.total)
			},
		},
	})
	r.out.Decisions = append(r.out.Decisions, decided...)
	return err
}

// groupRows parts rows by the task instance that they came from, in the order of
// their ids.
func groupRows(letters []merge.RowLetter) [][]merge.RowLetter {
	place := map[dag.TaskInstanceKey]int{}
	var out [][]merge.RowLetter
	for _, l := range letters {
		i, known := place[l.TaskInstanceKey]
		if !known {
			i = len(out)
			place[l.TaskInstanceKey] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], l)
	}
	return out
}

func (c dlqRowsReplayCmd) tell(s *session, r rowReplay) error {
	if err := printCounts(s, c.Output, r, r.DrainCounts); err != nil {
		return err
	}
	reasons, samples := map[string]int{}, map[string]int64{}
	for _, d := range r.Decisions {
		if d.Decision == merge.RowReplayed {
			continue
		}
		text := d.Decision + ": " + shorten(d.Reason, 160)
		reasons[text]++
		samples[text] = d.LetterID
	}
	const most = 20
	for i, text := range slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
		return cmp.Or(reasons[b]-reasons[a], cmp.Compare(samples[a], samples[b]))
	}) {
		if i == most {
			fmt.Fprintf(s.env.Stderr, "and %d further reasons; -o json shows each row's\n", len(reasons)-most)
			break
		}
		fmt.Fprintf(s.env.Stderr, "%s %s (row %d)\n", count(reasons[text], "row"), text, samples[text])
	}
	if !c.Apply && r.Selected > 0 {
		fmt.Fprintln(s.env.Stderr, "a dry run: nothing was changed; --apply does it")
	}
	return nil
}

// auditRun keeps the replay in the audit log of the state database.
func (c dlqRowsReplayCmd) auditRun(ctx context.Context, s *session, r rowReplay) error {
	detail, err := json.Marshal(map[string]any{"conn_id": c.ConnID, "drain_id": r.DrainID, "counts": r.DrainCounts, "overwrite": c.Overwrite})
	if err != nil {
		return err
	}
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	return st.WriteAudit(ctx, dag.AuditEntry{Actor: s.actor(), Action: "dlq_rows.replay", Subject: c.ConnID, Detail: detail})
}
