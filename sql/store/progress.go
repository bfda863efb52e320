package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// SetProgress keeps how far running attempts are. It is a notice and no proof:
// nothing depends on it, and one of an attempt that ended is overwritten by the
// next.
func (s *Store) SetProgress(ctx context.Context, list []dag.TaskProgress) error {
	if len(list) == 0 {
		return nil
	}
	return s.write(ctx, "keep progress", func(ctx context.Context, t *tx) error {
		sorted := slices.Clone(list)
		slices.SortFunc(sorted, func(a, b dag.TaskProgress) int { return int(a.Lease.TaskInstanceID - b.Lease.TaskInstanceID) })
		for part := range slices.Chunk(sorted, 100) {
			args := make([]any, 0, 7*len(part))
			for _, p := range part {
				args = append(args, p.Lease.TaskInstanceID, p.Lease.Fence, int64(max(p.Fraction, -1)*1e6), p.ETA.Microseconds(), short(p.Text, 250), measures(p), t.at)
			}
			if _, err := t.exec(ctx, "INSERT INTO task_progress (task_instance_id, fence, fraction_ppm, eta_us, text, measures, updated_at) VALUES "+
				dialect.Rows(len(part), 7)+s.db.Upsert([]string{"task_instance_id"}, []string{"fence", "fraction_ppm", "eta_us", "text", "measures", "updated_at"}), args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// maxMeasures is what the column holds, in bytes.
const maxMeasures = 500

// measures is their JSON, "" for none or too many.
func measures(p dag.TaskProgress) string {
	if len(p.Measures) == 0 {
		return ""
	}
	text, err := json.Marshal(p.Measures)
	if err != nil || len(text) > maxMeasures { // a number that JSON has not
		return ""
	}
	return string(text)
}

// Progress tells how far the running attempts of a run are, by task instance.
func (s *Store) Progress(ctx context.Context, dagID, runID string) (map[int64]dag.TaskProgress, error) {
	var rows []struct {
		ID       int64        `db:"task_instance_id"`
		Fence    int64        `db:"fence"`
		Fraction int64        `db:"fraction_ppm"`
		ETA      int64        `db:"eta_us"`
		Text     string       `db:"text"`
		Measures string       `db:"measures"`
		Updated  dialect.Time `db:"updated_at"`
	}
	if err := s.db.Reader().SelectContext(ctx, &rows, `SELECT p.task_instance_id, p.fence, p.fraction_ppm, p.eta_us, p.text, p.measures, p.updated_at FROM dag_run r
 JOIN task_instance ti ON ti.dag_run_id = r.id JOIN task_progress p ON p.task_instance_id = ti.id AND p.fence = ti.fence
 WHERE r.dag_id = ? AND r.run_id = ? AND ti.state = 'running'`, dagID, runID); err != nil {
		return nil, fmt.Errorf("read progress: %w", err)
	}
	out := make(map[int64]dag.TaskProgress, len(rows))
	for _, r := range rows {
		p := dag.TaskProgress{
			Lease: dag.Lease{TaskInstanceID: r.ID, Fence: r.Fence}, Fraction: float64(r.Fraction) / 1e6,
			ETA: time.Duration(r.ETA) * time.Microsecond, Text: r.Text, UpdatedAt: r.Updated.Time,
		}
		if r.Measures != "" {
			if err := json.Unmarshal([]byte(r.Measures), &p.Measures); err != nil {
				return nil, fmt.Errorf("read the progress of task instance %d: %w", r.ID, err)
			}
		}
		if p.Fraction < 0 {
			p.Fraction = -1
		}
		out[r.ID] = p
	}
	return out, nil
}
