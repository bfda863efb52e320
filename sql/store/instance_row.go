package store

import (
	"encoding/json"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// instanceColumns are the columns of instanceRow but the payload, which may be
// large and which only the worker and a person look at.
const instanceColumns = `id, dag_run_id, dag_id, run_id, task_id, map_index, state, try_number, max_tries, failure_count, crash_count,
 generation, replays, replaying, throttled_us, fence, operator, queue, pool, pool_slots, priority_weight, skip_tasks, dag_version_id, worker_id, hostname,
 scheduled_at, queued_at, start_date, end_date, next_try_at, lease_until, first_failed_at, updated_at`

type instanceRow struct {
	ID       int64 `db:"id"`
	DagRunID int64 `db:"dag_run_id"`
	dag.TaskInstanceKey
	State          string       `db:"state"`
	TryNumber      int          `db:"try_number"`
	MaxTries       int          `db:"max_tries"`
	FailureCount   int          `db:"failure_count"`
	CrashCount     int          `db:"crash_count"`
	Generation     int          `db:"generation"`
	Replays        int          `db:"replays"`
	Replaying      bool         `db:"replaying"`
	ThrottledUS    int64        `db:"throttled_us"`
	Fence          int64        `db:"fence"`
	Operator       string       `db:"operator"`
	Queue          string       `db:"queue"`
	Pool           string       `db:"pool"`
	PoolSlots      int          `db:"pool_slots"`
	PriorityWeight int          `db:"priority_weight"`
	Turn           int64        `db:"turn"`
	Payload        *string      `db:"payload"`
	SkipTasks      *string      `db:"skip_tasks"`
	VersionID      int64        `db:"dag_version_id"`
	WorkerID       string       `db:"worker_id"`
	Hostname       string       `db:"hostname"`
	ScheduledAt    dialect.Time `db:"scheduled_at"`
	QueuedAt       dialect.Time `db:"queued_at"`
	StartDate      dialect.Time `db:"start_date"`
	EndDate        dialect.Time `db:"end_date"`
	NextTryAt      dialect.Time `db:"next_try_at"`
	LeaseUntil     dialect.Time `db:"lease_until"`
	FirstFailedAt  dialect.Time `db:"first_failed_at"`
	UpdatedAt      dialect.Time `db:"updated_at"`
	// RunUpdated is updated_at of its run, where that runs and nothing is to be
	// decided about it; see queuedColumns.
	RunUpdated dialect.Time `db:"-"`
}

func (r *instanceRow) model() dag.TaskInstance {
	return dag.TaskInstance{
		ID: r.ID, TaskInstanceKey: r.TaskInstanceKey, State: dag.State(r.State), TryNumber: r.TryNumber, MaxTries: r.MaxTries,
		FailureCount: r.FailureCount, CrashCount: r.CrashCount, Generation: r.Generation, Replays: r.Replays, Replaying: r.Replaying,
		ThrottledFor: time.Duration(r.ThrottledUS) * time.Microsecond,
		Fence:        r.Fence, Operator: r.Operator, Queue: r.Queue, Pool: r.Pool, PoolSlots: r.PoolSlots,
		PriorityWeight: r.PriorityWeight, Payload: rawOrNil(r.Payload), SkipTasks: textList(r.SkipTasks), VersionID: r.VersionID,
		WorkerID: r.WorkerID, Hostname: r.Hostname, ScheduledAt: r.ScheduledAt.Ptr(), QueuedAt: r.QueuedAt.Ptr(),
		StartDate: r.StartDate.Ptr(), EndDate: r.EndDate.Ptr(), NextTryAt: r.NextTryAt.Ptr(), LeaseUntil: r.LeaseUntil.Ptr(),
		FirstFailedAt: r.FirstFailedAt.Ptr(), UpdatedAt: r.UpdatedAt.Time,
	}
}

// textList reads a JSON list of texts; nil for NULL or what is none.
func textList(s *string) []string {
	if s == nil {
		return nil
	}
	var out []string
	if json.Unmarshal([]byte(*s), &out) != nil {
		return nil
	}
	return out
}

// listText writes a list of texts as JSON, NULL for an empty one.
func listText(list []string) any {
	if len(list) == 0 {
		return nil
	}
	b, err := json.Marshal(list)
	if err != nil {
		return nil // cannot happen: texts always marshal
	}
	return string(b)
}
