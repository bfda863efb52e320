package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/airlock-dag/airlock/sql/merge"
)

type dlqRowsCmd struct {
	ConnID    string `name:"conn-id" required:"" placeholder:"ID" help:"The connection of the target database."`
	Dag       string `short:"d" placeholder:"DAG" help:"Only of this DAG."`
	Task      string `short:"t" placeholder:"TASK" help:"Only of this task."`
	RunID     string `name:"run" short:"r" placeholder:"RUN" help:"Only of this run."`
	Batch     string `placeholder:"BATCH" help:"Only of this batch, see the merge step's result."`
	ErrorCode string `name:"error-code" placeholder:"CODE" help:"Only with this error code."`
	Status    string `placeholder:"STATUS" help:"Only with this status: quarantined, resolved, dropped, expired."`
	Limit     int    `default:"100" help:"How many at most; 0 for all."`
	outputFlag
}

// Run lists the rows that merges put aside.
func (c dlqRowsCmd) Run(ctx context.Context, s *session) (err error) {
	db, err := s.target(ctx, c.ConnID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := merge.RowLetters(ctx, db, merge.RowLetterFilter{
		DagID: c.Dag, TaskID: c.Task, RunID: c.RunID, BatchID: c.Batch, ErrorCode: c.ErrorCode, Status: c.Status, Limit: noLimit(c.Limit),
	})
	if err != nil {
		return err
	}
	if c.Limit > 0 && len(rows) == c.Limit {
		fmt.Fprintf(s.env.Stderr, "the first %d; --limit 0 shows all\n", c.Limit)
	}
	return printRows(s.env.Stdout, c.Output, rows,
		col("id", func(l merge.RowLetter) any { return l.ID }),
		col("task_id", func(l merge.RowLetter) any { return l.TaskID }),
		col("source", func(l merge.RowLetter) any { return l.Source }),
		col("source_line", func(l merge.RowLetter) any { return l.SourceLine }),
		col("column_name", func(l merge.RowLetter) any { return deref(l.ColumnName) }),
		col("error_code", func(l merge.RowLetter) any { return l.ErrorCode }),
		col("error_message", func(l merge.RowLetter) any { return shorten(l.ErrorMessage, 60) }),
		col("status", func(l merge.RowLetter) any { return l.Status }),
		col("enqueued_at", func(l merge.RowLetter) any { return l.EnqueuedAt }),
		col("raw", func(l merge.RowLetter) any { return shorten(l.Raw, 40) }),
	)
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
