package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// History tells what happened to an instance, oldest first: its attempts, what
// became of its letters, who cleared its run, and its callbacks.
func (s *Store) History(ctx context.Context, key dag.TaskInstanceKey) ([]dag.HistoryEntry, error) {
	instances, err := s.Instances(ctx, dag.InstanceFilter{DagID: key.DagID, RunID: key.RunID, TaskID: key.TaskID, Limit: -1})
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(instances, func(ti dag.TaskInstance) bool { return ti.MapIndex == key.MapIndex })
	if at < 0 {
		return nil, &dag.Error{
			Code: dag.ErrNotFound, Op: "history of " + key.String(), Err: fmt.Errorf("the run has no such task instance"),
			Hint: "airlock tasks states-for-dag-run " + key.DagID + " " + key.RunID + " lists them",
		}
	}
	attempts, err := s.Attempts(ctx, key)
	if err != nil {
		return nil, err
	}
	out := append(presentState(&instances[at], attempts), attemptEntries(attempts)...)
	for _, read := range []func(context.Context, dag.TaskInstanceKey) ([]dag.HistoryEntry, error){
		s.letterEntries, s.decisionEntries, s.clearEntries, s.callbackEntries,
	} {
		more, err := read(ctx, key)
		if err != nil {
			return nil, s.explain("history of "+key.String(), err)
		}
		out = append(out, more...)
	}
	slices.SortStableFunc(out, func(a, b dag.HistoryEntry) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Fence, b.Fence)) })
	return out, nil
}

// presentState is what the instance's own row says: when it was last scheduled
// and queued, the attempt that runs now, and the retry to come.
func presentState(ti *dag.TaskInstance, attempts []dag.Attempt) []dag.HistoryEntry {
	var out []dag.HistoryEntry
	add := func(at *time.Time, event, who, detail string) {
		if at != nil {
			e := dag.HistoryEntry{At: *at, Event: event, Who: who, Detail: detail}
			if event == "started" {
				e.Try, e.Fence = ti.TryNumber, ti.Fence
			}
			out = append(out, e)
		}
	}
	add(ti.ScheduledAt, "scheduled", "", "")
	add(ti.QueuedAt, "queued", "", "pool "+ti.Pool+", queue "+ti.Queue)
	if ti.State == dag.StateRunning && !slices.ContainsFunc(attempts, func(a dag.Attempt) bool { return a.Fence == ti.Fence }) {
		add(ti.StartDate, "started", ti.WorkerID, "runs now")
	}
	add(ti.NextTryAt, "retry_due", "", "")
	return out
}

func attemptEntries(attempts []dag.Attempt) []dag.HistoryEntry {
	var out []dag.HistoryEntry
	for _, a := range attempts {
		detail := "after " + a.EndDate.Sub(a.StartDate).Round(time.Millisecond).String()
		if a.ErrorCode != "" {
			detail += fmt.Sprintf(", %s %s: %s", a.ErrorClass, a.ErrorCode, short(a.ErrorMessage, 200))
		}
		if a.State == dag.StateUpForRetry {
			detail += fmt.Sprintf("; waits %s of at most %s", a.Delay, a.DelayCeiling)
		}
		out = append(out,
			dag.HistoryEntry{At: a.StartDate, Event: "started", Try: a.TryNumber, Fence: a.Fence, Who: a.WorkerID, Detail: "on " + a.Hostname},
			dag.HistoryEntry{At: a.EndDate, Event: string(a.State), Try: a.TryNumber, Fence: a.Fence, Who: a.WorkerID, Detail: detail})
	}
	return out
}

const ofInstance = " dag_id = ? AND run_id = ? AND task_id = ? AND map_index = ?"

func keyArgs(k dag.TaskInstanceKey) []any { return []any{k.DagID, k.RunID, k.TaskID, k.MapIndex} }

func (s *Store) letterEntries(ctx context.Context, key dag.TaskInstanceKey) ([]dag.HistoryEntry, error) {
	var rows []struct {
		ID    int64        `db:"id"`
		At    dialect.Time `db:"enqueued_at"`
		Fence int64        `db:"fence"`
		Class string       `db:"error_class"`
		Code  string       `db:"error_code"`
	}
	err := s.db.Reader().SelectContext(ctx, &rows, "SELECT id, enqueued_at, fence, error_class, error_code FROM dead_letter WHERE"+ofInstance, keyArgs(key)...)
	out := make([]dag.HistoryEntry, len(rows))
	for i, r := range rows {
		out[i] = dag.HistoryEntry{At: r.At.Time, Event: "sealed", Fence: r.Fence, Detail: fmt.Sprintf("dead letter %d: %s %s", r.ID, r.Class, r.Code)}
	}
	return out, err
}

func (s *Store) decisionEntries(ctx context.Context, key dag.TaskInstanceKey) ([]dag.HistoryEntry, error) {
	var rows []struct {
		Letter   int64        `db:"dead_letter_id"`
		At       dialect.Time `db:"decided_at"`
		Decision string       `db:"decision"`
		Reason   string       `db:"reason"`
		Actor    string       `db:"actor"`
	}
	err := s.db.Reader().SelectContext(ctx, &rows, `SELECT a.dead_letter_id, a.decided_at, a.decision, a.reason, a.actor FROM dead_letter_audit a
 WHERE a.dead_letter_id IN (SELECT id FROM dead_letter WHERE`+ofInstance+")", keyArgs(key)...)
	out := make([]dag.HistoryEntry, len(rows))
	for i, r := range rows {
		out[i] = dag.HistoryEntry{At: r.At.Time, Event: r.Decision, Who: r.Actor, Detail: fmt.Sprintf("dead letter %d", r.Letter)}
		if r.Reason != "" {
			out[i].Detail += ": " + r.Reason
		}
	}
	return out, err
}

// clearEntries lists clears of the run: the audit log does not say which
// instances of a task were meant.
func (s *Store) clearEntries(ctx context.Context, key dag.TaskInstanceKey) ([]dag.HistoryEntry, error) {
	entries, err := s.Audit(ctx, dag.AuditFilter{Action: "clear", Subject: key.DagID + "/" + key.RunID, Limit: -1})
	var out []dag.HistoryEntry
	for _, e := range entries {
		out = append(out, dag.HistoryEntry{At: e.At, Event: "cleared", Who: e.Actor, Detail: "in the run: " + short(string(e.Detail), 200)})
	}
	return out, err
}

func (s *Store) callbackEntries(ctx context.Context, key dag.TaskInstanceKey) ([]dag.HistoryEntry, error) {
	var rows []struct {
		At       dialect.Time `db:"created_at"`
		Done     dialect.Time `db:"delivered_at"`
		Kind     string       `db:"kind"`
		Try      int          `db:"try_number"`
		Status   string       `db:"status"`
		Attempts int          `db:"attempts"`
		Error    string       `db:"last_error"`
	}
	err := s.db.Reader().SelectContext(ctx, &rows,
		"SELECT created_at, delivered_at, kind, try_number, status, attempts, last_error FROM callback_event WHERE"+ofInstance+" ORDER BY id", keyArgs(key)...)
	out := make([]dag.HistoryEntry, len(rows))
	for i, r := range rows {
		out[i] = dag.HistoryEntry{At: r.At.Time, Event: r.Kind, Try: r.Try, Detail: r.Status}
		if r.Done.Valid {
			out[i].At = r.Done.Time
		}
		if r.Attempts > 1 {
			out[i].Detail += fmt.Sprintf(", %d deliveries tried", r.Attempts)
		}
		if r.Error != "" {
			out[i].Detail += ": " + short(r.Error, 200)
		}
	}
	return out, err
}
