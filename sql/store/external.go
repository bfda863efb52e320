package store

import (
	"context"
	"fmt"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// ExternalRun implements executor.WorkerStore.
func (s *Store) ExternalRun(ctx context.Context, dagID string, logicalDate time.Time) (*dag.ExternalRun, error) {
	var rows []runRow
	if err := s.db.Reader().SelectContext(ctx, &rows, "SELECT "+runColumns+" FROM dag_run WHERE dag_id = ? AND logical_date = ?",
		dagID, dialect.Stamp(logicalDate)); err != nil {
		return nil, fmt.Errorf("find the run of %s at %s: %w", dagID, logicalDate.Format(time.RFC3339), err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	out := &dag.ExternalRun{Run: rows[0].model(), States: map[string]map[dag.State]int{}}
	var counts []struct {
		Task  string `db:"task_id"`
		State string `db:"state"`
		N     int    `db:"n"`
	}
	if err := s.db.Reader().SelectContext(ctx, &counts, "SELECT task_id, state, COUNT(*) AS n FROM task_instance WHERE dag_run_id = ? GROUP BY task_id, state",
		out.Run.ID); err != nil {
		return nil, fmt.Errorf("count the task states of %s/%s: %w", dagID, out.Run.RunID, err)
	}
	for _, c := range counts {
		if out.States[c.Task] == nil {
			out.States[c.Task] = map[dag.State]int{}
		}
		out.States[c.Task][dag.State(c.State)] = c.N
	}
	return out, nil
}
