package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/merge"
)

// watermarkCmd groups what is done with watermarks.
type watermarkCmd struct {
	List  watermarkListCmd  `cmd:"" help:"List the watermarks of a target database."`
	Set   watermarkSetCmd   `cmd:"" help:"Give a watermark another value, also an older one."`
	Reset watermarkResetCmd `cmd:"" help:"Remove a watermark: the next batch begins at its initial value."`
}

type connIDFlag struct {
	ConnID string `name:"conn-id" required:"" placeholder:"ID" help:"The connection of the target database."`
}

type watermarkListCmd struct {
	connIDFlag
	outputFlag
}

// Run lists watermarks.
func (c watermarkListCmd) Run(ctx context.Context, s *session) (err error) {
	db, err := s.target(ctx, c.ConnID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	marks, err := merge.Watermarks(ctx, db)
	if err != nil {
		return err
	}
	return printRows(s.env.Stdout, c.Output, marks,
		kept(col("pipeline", func(w merge.Watermark) any { return w.Pipeline })),
		col("column_name", func(w merge.Watermark) any { return w.ColumnName }),
		col("value", func(w merge.Watermark) any { return w.Value }),
		spared(2, col("tie_breaker", func(w merge.Watermark) any { return deref(w.TieBreaker) })),
		col("advanced_at", func(w merge.Watermark) any { return w.AdvancedAt }),
		spared(3, col("dag_id", func(w merge.Watermark) any { return w.DagID })),
		spared(4, col("run_id", func(w merge.Watermark) any { return w.RunID })),
	)
}

type watermarkSetCmd struct {
	Name  string `arg:"" help:"The watermark's name."`
	Value string `arg:"" help:"The new value: 2026-03-01 09:00:00, 2026-03-01, 4711."`
	Tie   string `name:"tie-breaker" placeholder:"VALUE" help:"The tie breaker that belongs to the value."`
	connIDFlag
}

// Run sets a watermark.
func (c watermarkSetCmd) Run(ctx context.Context, s *session) error {
	change := merge.WatermarkChange{Name: c.Name, Value: &c.Value}
	if c.Tie != "" {
		change.Tie = &c.Tie
	}
	return s.changeWatermark(ctx, c.ConnID, change)
}

type watermarkResetCmd struct {
	Name string `arg:"" help:"The watermark's name."`
	connIDFlag
}

// Run removes a watermark.
func (c watermarkResetCmd) Run(ctx context.Context, s *session) error {
	return s.changeWatermark(ctx, c.ConnID, merge.WatermarkChange{Name: c.Name})
}

// changeWatermark changes a watermark and keeps who did it, here and in the
// target.
func (s *session) changeWatermark(ctx context.Context, connID string, change merge.WatermarkChange) (err error) {
	db, err := s.target(ctx, connID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	change.By, change.At = s.actor(), s.env.Clock.Now()
	was, err := merge.ChangeWatermark(ctx, db, change)
	if errors.Is(err, merge.ErrNoWatermark) {
		marks, listErr := merge.Watermarks(ctx, db)
		if listErr != nil {
			return listErr
		}
		names := make([]string, len(marks))
		for i, m := range marks {
			names[i] = m.Pipeline
		}
		return notFound("watermark", change.Name, names, "`airlock watermark list` shows all; a step makes it with its first batch")
	}
	if err != nil {
		return wrong("change the watermark "+change.Name, "", "%w", err)
	}
	action := "watermark.reset"
	if change.Value != nil {
		action = "watermark.set"
		fmt.Fprintf(s.env.Stdout, "watermark %s set to %s, it was %s\n", change.Name, *change.Value, was.Value)
	} else {
		fmt.Fprintf(s.env.Stdout, "watermark %s removed, it was %s\n", change.Name, was.Value)
	}
	detail, err := json.Marshal(map[string]any{"conn_id": connID, "from": was.Value, "to": change.Value})
	if err != nil {
		return err
	}
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	return st.WriteAudit(ctx, dag.AuditEntry{Actor: s.actor(), Action: action, Subject: change.Name, Detail: detail})
}
