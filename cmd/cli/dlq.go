package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// dlqCmd groups what is done with dead letters.
type dlqCmd struct {
	List   dlqListCmd   `cmd:"" help:"List dead letters."`
	Show   dlqShowCmd   `cmd:"" help:"Show one dead letter with its payload."`
	Stats  dlqStatsCmd  `cmd:"" help:"Count dead letters by failure."`
	Rows   dlqRowsCmd   `cmd:"" help:"List, export, correct and replay the rows that merges put aside in a target database."`
	Replay dlqReplayCmd `cmd:"" help:"Put dead letters back to work; without --apply only show what would be done."`
	Drains dlqDrainsCmd `cmd:"" help:"List replays: what they select, how far they are, what came of them."`
	Resume dlqResumeCmd `cmd:"" help:"Go on with a replay that was stopped, paused or killed."`

	Edit       dlqEditCmd       `cmd:"" help:"Give a letter another payload; the old one and the difference are kept."`
	Quarantine dlqQuarantineCmd `cmd:"" help:"Put letters aside: no replay takes them until they are released."`
	Release    dlqReleaseCmd    `cmd:"" help:"Take letters out of quarantine; their returns are counted anew."`
	Resolve    dlqResolveCmd    `cmd:"" help:"Close letters that were settled by other means."`
	Export     dlqExportCmd     `cmd:"" help:"Write letters to a file, one JSON object on each line."`
	Import     dlqImportCmd     `cmd:"" help:"Bring letters back from such a file."`
	Expire     dlqExpireCmd     `cmd:"" help:"Close letters whose time is over, and tell which expire within 48 hours."`
}

// letterMatch are the flags that say which letters are meant.
type letterMatch struct {
	Dag         string  `short:"d" placeholder:"DAG" help:"Only of this DAG."`
	Task        string  `short:"t" placeholder:"TASK" help:"Only of this task."`
	RunID       string  `name:"run" short:"r" placeholder:"RUN" help:"Only of this run."`
	Queue       string  `placeholder:"QUEUE" help:"Only of this queue."`
	ErrorClass  string  `name:"error-class" placeholder:"CLASS" help:"Only of this class: permanent, exhausted, poison, configuration, capability, crash_loop."`
	ErrorCode   string  `name:"error-code" placeholder:"CODE" help:"Only with this error code."`
	Fingerprint string  `placeholder:"HEX" help:"Only of this failure, see dlq stats; its beginning will do."`
	Since       string  `short:"s" placeholder:"DATE" help:"Only sealed from here on (or 24h: the last day)."`
	Until       string  `short:"e" placeholder:"DATE" help:"Only sealed before."`
	IDs         []int64 `name:"ids" placeholder:"ID,..." help:"Only these letters, by their ids."`
}

// letterFilter are the flags that narrow a list of letters.
type letterFilter struct {
	letterMatch
	Status string `placeholder:"STATUS" help:"Only with this status: sealed, quarantined, replaying, resolved, dropped, expired."`
	Limit  int    `default:"100" help:"How many at most; 0 for all."`
}

// filter checks the flags: a misspelt class would find nothing, silently.
func (f letterFilter) filter(ctx context.Context, s *session) (dag.LetterFilter, error) {
	statuses := []string{"sealed", "quarantined", "replaying", "resolved", "dropped", "expired"}
	if err := oneOf("--status", f.Status, statuses); err != nil {
		return dag.LetterFilter{}, err
	}
	out, err := f.match(ctx, s)
	out.Status, out.Limit = dag.LetterStatus(f.Status), noLimit(f.Limit)
	return out, err
}

// shortFingerprint is how much of a fingerprint a table shows: enough to name a
// group with.
const shortFingerprint = 12

// fingerprint is the whole of a fingerprint of which the user gives the
// beginning.
func (f letterMatch) fingerprint(ctx context.Context, s *session) (string, error) {
	if len(f.Fingerprint) == 0 || len(f.Fingerprint) >= 32 {
		return f.Fingerprint, nil
	}
	st, err := s.store(ctx)
	if err != nil {
		return "", err
	}
	groups, err := st.LetterStats(ctx, dag.LetterFilter{Limit: -1})
	if err != nil {
		return "", err
	}
	var found []string
	for _, g := range groups {
		if g.Fingerprint == f.Fingerprint {
			return g.Fingerprint, nil
		}
		if strings.HasPrefix(g.Fingerprint, f.Fingerprint) {
			found = append(found, g.Fingerprint)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", notFound("fingerprint", f.Fingerprint, nil, "`airlock dlq stats --all` shows them")
	default:
		return "", wrong("read --fingerprint", "give more of it: "+strings.Join(found[:min(len(found), 5)], ", "), "%q is the beginning of %d", f.Fingerprint, len(found))
	}
}

// match is the filter that the flags say.
func (f letterMatch) match(ctx context.Context, s *session) (dag.LetterFilter, error) {
	classes := []string{"permanent", "exhausted", "poison", "configuration", "capability", "crash_loop"}
	if err := oneOf("--error-class", f.ErrorClass, classes); err != nil {
		return dag.LetterFilter{}, err
	}
	out := dag.LetterFilter{
		DagID: f.Dag, TaskID: f.Task, RunID: f.RunID, Queue: f.Queue, ErrorClass: dag.ErrorClass(f.ErrorClass), ErrorCode: f.ErrorCode,
		Fingerprint: f.Fingerprint, IDs: f.IDs,
	}
	var err error
	if out.Fingerprint, err = f.fingerprint(ctx, s); err != nil {
		return out, err
	}
	if out.Since, err = s.since(f.Since); err != nil {
		return out, err
	}
	out.Until, err = s.since(f.Until)
	return out, err
}

// oneOf checks a flag that takes one of a few words; empty is none.
func oneOf(flag, value string, words []string) error {
	if value == "" || slices.Contains(words, value) {
		return nil
	}
	return wrong("read "+flag, "use "+strings.Join(words, ", "), "%q is not known", value)
}

type dlqListCmd struct {
	letterFilter
	outputFlag
}

// Run lists letters in the order in which they were sealed.
func (c dlqListCmd) Run(ctx context.Context, s *session) error {
	filter, err := c.filter(ctx, s)
	if err != nil {
		return err
	}
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	letters, err := st.Letters(ctx, filter)
	if err != nil {
		return err
	}
	if c.Output == "table" {
		dag.WithInputs(ctx, st.Letter, letters)
	}
	if c.Limit > 0 && len(letters) == c.Limit {
		fmt.Fprintf(s.env.Stderr, "the first %d; --limit 0 shows all\n", c.Limit)
	}
	return printRows(s.env.Stdout, c.Output, letters,
		col("id", func(l dag.DeadLetter) any { return l.ID }),
		tableCol("task", func(l dag.DeadLetter) any { return taskName(l.TaskInstanceKey) }),
		plainCol("dag_id", func(l dag.DeadLetter) any { return l.DagID }),
		plainCol("run_id", func(l dag.DeadLetter) any { return l.RunID }),
		plainCol("task_id", func(l dag.DeadLetter) any { return l.TaskID }),
		plainCol("map_index", func(l dag.DeadLetter) any { return mapIndex(l.TaskInstanceKey) }),
		plainCol("error_class", func(l dag.DeadLetter) any { return string(l.ErrorClass) }),
		kept(col("error_code", func(l dag.DeadLetter) any { return l.ErrorCode })),
		plainCol("attempt_count", func(l dag.DeadLetter) any { return l.AttemptCount }),
		col("status", func(l dag.DeadLetter) any { return string(l.Status) }),
		wideCol("enqueued_at", func(l dag.DeadLetter) any { return minute(l.EnqueuedAt) }),
		plainCol("enqueued_at", func(l dag.DeadLetter) any { return l.EnqueuedAt }),
		tableCol("error_message", func(l dag.DeadLetter) any { return shorten(l.Brief(), 60) }),
		plainCol("error_message", func(l dag.DeadLetter) any { return shorten(l.ErrorMessage, 60) }),
	)
}

// taskName is a task as a table shows it: dag.task, with [index] for a mapped one.
func taskName(k dag.TaskInstanceKey) string {
	name := k.DagID + "." + k.TaskID
	if k.MapIndex >= 0 {
		name += fmt.Sprintf("[%d]", k.MapIndex)
	}
	return name
}

// minute is an instant as a table shows it where neither seconds nor the year
// matter.
func minute(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("01-02 15:04")
}

type dlqShowCmd struct {
	ID      int64 `arg:"" name:"id" help:"The letter's id."`
	Payload bool  `help:"Only the payload, as JSON."`
	outputFlag
}

// letterShown is a letter with its history, as it is shown.
type letterShown struct {
	dag.DeadLetter
	Decisions []dag.LetterDecision `json:"decisions"`
	Edits     []dag.LetterEdit     `json:"edits"`
}

// Run shows a letter with everything in it and all that was decided about it.
func (c dlqShowCmd) Run(ctx context.Context, s *session) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	l, err := st.Letter(ctx, c.ID)
	if dag.CodeOf(err) == dag.ErrNotFound {
		return notFound("dead letter", fmt.Sprint(c.ID), nil, "`airlock dlq list` shows their ids")
	}
	if err != nil {
		return err
	}
	if c.Payload {
		return printValue(s.env.Stdout, "json", l.Payload)
	}
	shown := letterShown{DeadLetter: l}
	if shown.Decisions, err = st.LetterDecisions(ctx, c.ID); err != nil {
		return err
	}
	if shown.Edits, err = st.LetterEdits(ctx, c.ID); err != nil {
		return err
	}
	if err := printPairs(s.env.Stdout, c.Output, shown, letterPairs(l)); err != nil {
		return err
	}
	if c.Output != "table" {
		return nil
	}
	if len(shown.Decisions) > 0 {
		if err := printRows(s.env.Stdout, "table", shown.Decisions,
			col("decided_at", func(d dag.LetterDecision) any { return d.DecidedAt }),
			col("decision", func(d dag.LetterDecision) any { return string(d.Decision) }),
			col("drain", func(d dag.LetterDecision) any { return d.DrainID }),
			col("actor", func(d dag.LetterDecision) any { return d.Actor }),
			col("reason", func(d dag.LetterDecision) any { return d.Reason }),
		); err != nil {
			return err
		}
	}
	for _, e := range shown.Edits {
		fmt.Fprintf(s.env.Stdout, "edited at %s by %s: %s\n", cellText(e.EditedAt), e.Actor, e.Reason)
		printDiff(s.env.Stdout, e.Diff)
	}
	if l.StackTrace == "" {
		return nil
	}
	_, err = io.WriteString(s.env.Stdout, "\nstack_trace, or the end of stderr:\n"+strings.TrimRight(dag.ShownText(l.StackTrace), "\n")+"\n")
	return err
}

func letterPairs(l dag.DeadLetter) []pair {
	return []pair{
		{"id", l.ID},
		{"job_id", l.JobID},
		{"logical_date", l.LogicalDate},
		{"queue", l.Queue},
		{"status", string(l.Status)},
		{"error_class", string(l.ErrorClass)},
		{"error_code", l.ErrorCode},
		{"error_message", l.ErrorMessage},
		{"attempt_count", l.AttemptCount},
		{"return_count", l.ReturnCount},
		{"first_failed_at", l.FirstFailedAt},
		{"enqueued_at", l.EnqueuedAt},
		{"expires_at", l.ExpiresAt},
		{"idempotency_key", l.IdempotencyKey},
		{"fingerprint", l.Fingerprint},
		{"asset_sha256", l.AssetSHA256},
		{"original_payload_hash", l.OriginalPayloadHash},
		{"payload", l.Payload},
	}
}

type dlqStatsCmd struct {
	letterFilter
	All     bool `help:"Count settled letters, too."`
	Recount bool `help:"Count all letters anew first, where somebody else wrote the tables (db check tells)."`
	outputFlag
}

// Run counts open letters by fingerprint, the most frequent failure first.
func (c dlqStatsCmd) Run(ctx context.Context, s *session) error {
	filter, err := c.filter(ctx, s)
	if err != nil {
		return err
	}
	filter.Open = !c.All && filter.Status == ""
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	if c.Recount {
		mended, err := st.Recount(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.env.Stderr, "counted anew: %s mended\n", count(mended, "line"))
	}
	groups, err := st.LetterStats(ctx, filter)
	if err != nil {
		return err
	}
	return printRows(s.env.Stdout, c.Output, groups,
		col("count", func(g dag.LetterGroup) any { return g.Count }),
		plainCol("open", func(g dag.LetterGroup) any { return g.Open() }),
		wideCol("open", func(g dag.LetterGroup) any { return g.Open() }),
		tableCol("task", func(g dag.LetterGroup) any { return g.DagID + "." + g.TaskID }),
		plainCol("dag_id", func(g dag.LetterGroup) any { return g.DagID }),
		plainCol("task_id", func(g dag.LetterGroup) any { return g.TaskID }),
		plainCol("error_class", func(g dag.LetterGroup) any { return string(g.ErrorClass) }),
		col("error_code", func(g dag.LetterGroup) any { return g.ErrorCode }),
		kept(tableCol("fingerprint", func(g dag.LetterGroup) any { return g.Fingerprint[:min(len(g.Fingerprint), shortFingerprint)] })),
		plainCol("fingerprint", func(g dag.LetterGroup) any { return g.Fingerprint }),
		tableCol("back", func(g dag.LetterGroup) any { return fmt.Sprintf("%.0f%%", 100*g.BackShare) }),
		plainCol("came_back", func(g dag.LetterGroup) any { return fmt.Sprintf("%.0f %%", 100*g.BackShare) }),
		wideCol("since", func(g dag.LetterGroup) any { return minute(g.First) }),
		wideCol("last", func(g dag.LetterGroup) any { return minute(g.Last) }),
		plainCol("first_enqueued_at", func(g dag.LetterGroup) any { return g.First }),
		plainCol("last_enqueued_at", func(g dag.LetterGroup) any { return g.Last }),
		plainCol("last_id", func(g dag.LetterGroup) any { return g.LastID }),
		wideCol("newest", func(g dag.LetterGroup) any { return g.LastID }),
		col("message", func(g dag.LetterGroup) any { return shorten(g.Message, 60) }),
	)
}
