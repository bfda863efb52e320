package cli

import (
	"context"

	"github.com/airlock-dag/airlock/dag"
)

type tasksHistoryCmd struct {
	DagID    string `arg:"" name:"dag" help:"The DAG's id."`
	RunID    string `arg:"" name:"run" help:"The run's id, or its logical date."`
	TaskID   string `arg:"" name:"task" help:"The task's id."`
	MapIndex int    `name:"map-index" default:"-1" placeholder:"N" help:"Which instance of a mapped task."`
	outputFlag
}

// Run lists what happened to an instance, oldest first.
func (c tasksHistoryCmd) Run(ctx context.Context, s *session) error {
	run, err := s.run(ctx, c.DagID, c.RunID)
	if err != nil {
		return err
	}
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	if _, err := s.instance(ctx, "tell the history", run, c.TaskID, c.MapIndex); err != nil {
		return err
	}
	entries, err := st.History(ctx, dag.TaskInstanceKey{DagID: c.DagID, RunID: run.RunID, TaskID: c.TaskID, MapIndex: c.MapIndex})
	if err != nil {
		return err
	}
	return printRows(s.env.Stdout, c.Output, entries,
		col("at", func(e dag.HistoryEntry) any { return e.At }),
		col("event", func(e dag.HistoryEntry) any { return e.Event }),
		col("try", func(e dag.HistoryEntry) any { return orNil(e.Try) }),
		spared(1, col("fence", func(e dag.HistoryEntry) any { return orNil(int(e.Fence)) })),
		spared(2, col("who", func(e dag.HistoryEntry) any { return e.Who })),
		col("detail", func(e dag.HistoryEntry) any { return e.Detail }),
	)
}

// orNil leaves a cell empty for zero.
func orNil(n int) any {
	if n == 0 {
		return nil
	}
	return n
}
