package store

import (
	"context"
	"fmt"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// maxDetail bounds what an operator keeps beside an attempt, in bytes.
const maxDetail = 1 << 20

func (t *tx) insertAttempts(ctx context.Context, list []dag.Attempt) error {
	args := make([]any, 0, 16*len(list))
	for _, a := range list {
		var exit any
		if a.ExitCode != nil {
			exit = *a.ExitCode
		}
		detail := nullJSON(a.Detail)
		if len(a.Detail) > maxDetail {
			detail = nil
		}
		args = append(args, a.TaskInstanceID, a.Fence, a.TryNumber, string(a.State), short(a.WorkerID, 250), short(a.Hostname, 250),
			dialect.Stamp(a.StartDate), dialect.Stamp(a.EndDate), short(string(a.ErrorClass), 24), short(a.ErrorCode, 100),
			dag.CutText(a.ErrorMessage, dag.MaxErrorMessage), exit, a.DelayCeiling.Microseconds(), a.Delay.Microseconds(),
			clean(a.LogPath), detail)
	}
	return t.insertLater(ctx, `INSERT INTO task_attempt (task_instance_id, fence, try_number, state, worker_id, hostname, start_date, end_date,
 error_class, error_code, error_message, exit_code, delay_ceiling_us, delay_us, log_path, detail) VALUES `,
		dialect.Rows(1, 16), "", 16, args)
}

// Attempts implements Desk.
func (s *Store) Attempts(ctx context.Context, key dag.TaskInstanceKey) ([]dag.Attempt, error) {
	var rows []struct {
		TaskInstanceID int64        `db:"task_instance_id"`
		Fence          int64        `db:"fence"`
		TryNumber      int          `db:"try_number"`
		State          string       `db:"state"`
		WorkerID       string       `db:"worker_id"`
		Hostname       string       `db:"hostname"`
		StartDate      dialect.Time `db:"start_date"`
		EndDate        dialect.Time `db:"end_date"`
		ErrorClass     string       `db:"error_class"`
		ErrorCode      string       `db:"error_code"`
		ErrorMessage   string       `db:"error_message"`
		ExitCode       *int         `db:"exit_code"`
		CeilingUS      int64        `db:"delay_ceiling_us"`
		DelayUS        int64        `db:"delay_us"`
		LogPath        string       `db:"log_path"`
		Detail         *string      `db:"detail"`
	}
	err := s.db.Reader().SelectContext(ctx, &rows, `SELECT a.task_instance_id, a.fence, a.try_number, a.state, a.worker_id, a.hostname, a.start_date,
 a.end_date, a.error_class, a.error_code, a.error_message, a.exit_code, a.delay_ceiling_us, a.delay_us, a.log_path, a.detail
 FROM dag_run r JOIN task_instance ti ON ti.dag_run_id = r.id JOIN task_attempt a ON a.task_instance_id = ti.id
 WHERE r.dag_id = ? AND r.run_id = ? AND ti.task_id = ? AND ti.map_index = ? ORDER BY a.fence`,
		key.DagID, key.RunID, key.TaskID, key.MapIndex)
	if err != nil {
		return nil, fmt.Errorf("attempts of %s: %w", key, err)
	}
	out := make([]dag.Attempt, len(rows))
	for i, r := range rows {
		out[i] = dag.Attempt{
			TaskInstanceID: r.TaskInstanceID, TryNumber: r.TryNumber, Fence: r.Fence, State: dag.State(r.State), WorkerID: r.WorkerID,
			Hostname: r.Hostname, StartDate: r.StartDate.Time, EndDate: r.EndDate.Time, ErrorClass: dag.ErrorClass(r.ErrorClass),
			ErrorCode: r.ErrorCode, ErrorMessage: r.ErrorMessage, ExitCode: r.ExitCode,
			DelayCeiling: time.Duration(r.CeilingUS) * time.Microsecond, Delay: time.Duration(r.DelayUS) * time.Microsecond,
			LogPath: r.LogPath, Detail: rawOrNil(r.Detail),
		}
	}
	return out, nil
}
