package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge"
)

// dlqRowsCmd groups what is done with the rows that merges put aside.
type dlqRowsCmd struct {
	List    dlqRowsListCmd    `cmd:"" default:"withargs" help:"List rows."`
	Show    dlqRowsShowCmd    `cmd:"" help:"Show one row with its bytes and what was decided about it."`
	Export  dlqRowsExportCmd  `cmd:"" help:"Write rows to a file: CSV, JSON lines, or the rows as they were read."`
	Edit    dlqRowsEditCmd    `cmd:"" help:"Correct an open row; what was read is kept beside it."`
	Replay  dlqRowsReplayCmd  `cmd:"" help:"Merge open rows again through their step; without --apply only show what would come of it."`
	Resolve dlqRowsResolveCmd `cmd:"" help:"Close rows that were put right otherwise."`
	Drop    dlqRowsDropCmd    `cmd:"" help:"Give rows up."`
	Release dlqRowsReleaseCmd `cmd:"" help:"Open rows again, and forget how often they came back."`
	Expire  dlqRowsExpireCmd  `cmd:"" help:"Close the open rows whose time is over."`
}

// rowMatch are the flags that narrow row letters, whatever their status.
type rowMatch struct {
	connIDFlag
	Dag       string `short:"d" placeholder:"DAG" help:"Only of this DAG."`
	Task      string `short:"t" placeholder:"TASK" help:"Only of this task."`
	RunID     string `name:"run" short:"r" placeholder:"RUN" help:"Only of this run."`
	Batch     string `placeholder:"BATCH" help:"Only of this batch, see the merge step's result."`
	Source    string `placeholder:"FILE" help:"Only of this file or other source."`
	ErrorCode string `name:"error-code" placeholder:"CODE" help:"Only with this error code."`
	Since     string `short:"s" placeholder:"DATE" help:"Only put aside from here on (or 24h: the last day)."`
	Until     string `short:"e" placeholder:"DATE" help:"Only put aside before."`
}

func (m rowMatch) filter(s *session) (merge.RowLetterFilter, error) {
	f := merge.RowLetterFilter{DagID: m.Dag, TaskID: m.Task, RunID: m.RunID, BatchID: m.Batch, Source: m.Source, ErrorCode: m.ErrorCode}
	var err error
	if f.Since, err = s.since(m.Since); err != nil {
		return f, err
	}
	f.Until, err = s.since(m.Until)
	return f, err
}

// rowFilter narrows by status too.
type rowFilter struct {
	rowMatch
	Status string `placeholder:"STATUS" help:"Only with this status: quarantined (open), resolved, dropped, expired."`
	Limit  int    `default:"100" help:"How many at most; 0 for all."`
}

func (m rowFilter) filter(s *session) (merge.RowLetterFilter, error) {
	if err := oneOf("--status", m.Status, []string{"quarantined", "resolved", "dropped", "expired"}); err != nil {
		return merge.RowLetterFilter{}, err
	}
	f, err := m.rowMatch.filter(s)
	f.Status, f.Limit = m.Status, noLimit(m.Limit)
	return f, err
}

// shownRow is a row letter as commands print it: bytes that are not UTF-8 are
// there in Base64 too.
type shownRow struct {
	merge.RowLetter
	RawBase64         string           `json:"raw_base64,omitempty"`
	OriginalRawBase64 string           `json:"original_raw_base64,omitempty"`
	Decisions         []merge.RowAudit `json:"decisions,omitempty"`
}

func showRow(l merge.RowLetter) shownRow {
	out := shownRow{RowLetter: l}
	if !utf8.ValidString(l.Raw) {
		out.RawBase64 = base64.StdEncoding.EncodeToString([]byte(l.Raw))
	}
	if o := l.OriginalRaw; o != nil && !utf8.ValidString(*o) {
		out.OriginalRawBase64 = base64.StdEncoding.EncodeToString([]byte(*o))
	}
	return out
}

// bytesText shows bytes: what cannot be printed is escaped.
func bytesText(s string) string {
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

type dlqRowsListCmd struct {
	rowFilter
	outputFlag
}

// Run lists the rows that merges put aside.
func (c dlqRowsListCmd) Run(ctx context.Context, s *session) (err error) {
	filter, err := c.filter(s)
	if err != nil {
		return err
	}
	db, err := s.target(ctx, c.ConnID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	letters, err := merge.RowLetters(ctx, db, filter)
	if err != nil {
		return err
	}
	if c.Limit > 0 && len(letters) == c.Limit {
		fmt.Fprintf(s.env.Stderr, "the first %d; --limit 0 shows all\n", c.Limit)
	}
	rows := make([]shownRow, len(letters))
	for i, l := range letters {
		rows[i] = showRow(l)
	}
	return printRows(s.env.Stdout, c.Output, rows,
		col("id", func(l shownRow) any { return l.ID }),
		spared(6, col("task_id", func(l shownRow) any { return l.TaskID })),
		kept(tableCol("source", func(l shownRow) any { return fmt.Sprintf("%s:%d", path.Base(l.Source), l.SourceLine) })),
		plainCol("source", func(l shownRow) any { return l.Source }),
		plainCol("source_line", func(l shownRow) any { return l.SourceLine }),
		col("column_name", func(l shownRow) any { return deref(l.ColumnName) }),
		kept(col("error_code", func(l shownRow) any { return l.ErrorCode })),
		col("error_message", func(l shownRow) any { return shorten(l.ErrorMessage, 60) }),
		spared(2, col("status", func(l shownRow) any { return l.Status })),
		spared(5, col("return_count", func(l shownRow) any { return l.ReturnCount })),
		spared(4, col("enqueued_at", func(l shownRow) any { return l.EnqueuedAt })),
		spared(3, col("raw", func(l shownRow) any { return shorten(bytesText(l.Text()), 40) })),
	)
}

type dlqRowsShowCmd struct {
	ID int64 `arg:"" name:"id" help:"The row's id."`
	connIDFlag
	outputFlag
}

// Run shows a row with everything in it.
func (c dlqRowsShowCmd) Run(ctx context.Context, s *session) (err error) {
	db, err := s.target(ctx, c.ConnID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	l, err := rowLetter(ctx, db, c.ID)
	if err != nil {
		return err
	}
	row := showRow(l)
	if row.Decisions, err = merge.RowAudits(ctx, db, c.ID); err != nil {
		return err
	}
	pairs := []pair{
		{"id", l.ID},
		{"task_instance", l.String()},
		{"batch_id", l.BatchID},
		{"source", l.Source},
		{"source_line", l.SourceLine},
		{"byte_offset", derefInt(l.ByteOffset)},
		{"row_key", deref(l.RowKey)},
		{"column_name", deref(l.ColumnName)},
		{"error_code", l.ErrorCode},
		{"error_message", l.ErrorMessage},
		{"status", l.Status},
		{"return_count", l.ReturnCount},
		{"enqueued_at", l.EnqueuedAt},
		{"expires_at", l.ExpiresAt},
		{"updated_at", l.UpdatedAt},
		{"header", bytesText(l.Header())},
		{"raw", bytesText(l.Text())},
	}
	if l.OriginalRaw != nil {
		pairs = append(pairs, pair{"original_raw", bytesText(*l.OriginalRaw)})
	}
	for _, d := range row.Decisions {
		pairs = append(pairs, pair{cellText(d.DecidedAt), d.Decision + " by " + d.Actor + ": " + d.Reason})
	}
	return printPairs(s.env.Stdout, c.Output, row, pairs)
}

func rowLetter(ctx context.Context, db *dialect.DB, id int64) (merge.RowLetter, error) {
	found, err := merge.RowLetters(ctx, db, merge.RowLetterFilter{IDs: []int64{id}})
	if err != nil {
		return merge.RowLetter{}, err
	}
	if len(found) == 0 {
		return merge.RowLetter{}, &dag.Error{Code: dag.ErrNotFound, Op: fmt.Sprintf("row letter %d", id), Err: errors.New("there is none with this id"),
			Hint: "`airlock dlq rows list` shows their ids"}
	}
	return found[0], nil
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func derefInt(n *int64) any {
	if n == nil {
		return nil
	}
	return *n
}
