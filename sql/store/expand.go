package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// unexpanded locks the run and finds the instance (map index -1, state none) of
// a mapped task; nil when it is not there any more.
func (t *tx) unexpanded(ctx context.Context, runID int64, taskID string) (*instanceRow, error) {
	var id int64
	err := t.GetContext(ctx, &id, "SELECT id FROM dag_run WHERE id = ? AND state IN ('queued', 'running')"+t.s.db.ForUpdate(), runID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var rows []instanceRow
	err = t.SelectContext(ctx, &rows, "SELECT "+instanceColumns+" FROM task_instance WHERE dag_run_id = ? AND task_id = ? AND map_index = -1 AND state = 'none'"+
		t.s.db.ForUpdate(), runID, taskID)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[0], nil
}

// ExpandTask replaces the unexpanded instance of a mapped task by one instance a
// payload, or marks it skipped when there is none. It reports false when the
// instance is not there any more: somebody else expanded it.
func (s *Store) ExpandTask(ctx context.Context, runID int64, taskID string, payloads []json.RawMessage) (bool, error) {
	return s.ExpandTasks(ctx, runID, []string{taskID}, payloads)
}

// ExpandTasks expands several tasks over the same payloads in one transaction:
// those of a mapped group. Tasks that have no unexpanded instance are left as
// they are; it reports false when that is so for all.
func (s *Store) ExpandTasks(ctx context.Context, runID int64, taskIDs []string, payloads []json.RawMessage) (bool, error) {
	done := false
	err := s.write(ctx, "expand "+strings.Join(taskIDs, ", "), func(ctx context.Context, t *tx) error {
		done = false
		for _, taskID := range taskIDs {
			row, err := t.unexpanded(ctx, runID, taskID)
			if err != nil {
				return err
			}
			if row == nil {
				continue
			}
			done = true
			if row.Replaying { // its letter said that it could not be expanded
				if err := t.endReplaysUnrun(ctx, []int64{row.ID}, "the task was expanded", "scheduler"); err != nil {
					return err
				}
				row.Replaying, row.PriorityWeight = false, row.PriorityWeight+dag.ReplayRank
			}
			if len(payloads) == 0 {
				_, err = t.move(ctx, change{dag.StateNone, dag.StateSkipped}, []int64{row.ID})
			} else {
				err = t.expand(ctx, row, payloads)
			}
			if err != nil {
				return err
			}
		}
		if !done {
			return nil
		}
		return t.wakeRuns(ctx, []int64{runID})
	})
	return done, err
}

// expand makes the first instance of the row that is there, which keeps its
// history, brings back those of an earlier expansion, and adds the others. What
// the earlier one had beyond the payloads stays removed.
func (t *tx) expand(ctx context.Context, row *instanceRow, payloads []json.RawMessage) error {
	earlier, err := t.earlier(ctx, row)
	if err != nil {
		return err
	}
	ids, of := []int64{row.ID}, []*instanceRow{row}
	taken := map[int]bool{0: true}
	for i := range earlier {
		e := &earlier[i]
		if e.MapIndex >= len(payloads) {
			continue
		}
		taken[e.MapIndex] = true
		if e.State == string(dag.StateRemoved) && e.ID != row.ID {
			ids, of = append(ids, e.ID), append(of, e)
		} else if e.ID == row.ID {
			row.Payload = e.Payload
		}
	}
	for start, end := 0, 0; start < len(ids); start = end {
		for size := 0; end < len(ids) && end-start < chunk && (end == start || size < 1<<20); end++ { // as in insertMapped
			size += len(payloads[max(0, of[end].MapIndex)])
		}
		b := newBulk("task_instance", ids[start:end])
		for i, old := range of[start:end] {
			index := max(0, old.MapIndex)
			payload := jsonText(payloads[index])
			b.set(i, "map_index", index)
			b.set(i, "payload", payload)
			b.set(i, "state", string(dag.StateNone))
			b.set(i, "start_date", nil)
			b.set(i, "end_date", nil)
			b.set(i, "updated_at", t.at)
			if old.Payload != nil && *old.Payload != payload {
				// Other work: what the old value's attempts did must not be taken for it.
				b.set(i, "generation", old.Generation+1)
			}
		}
		if _, err := b.run(ctx, t); err != nil {
			return err
		}
	}
	var fresh []int
	for i := range payloads {
		if !taken[i] {
			fresh = append(fresh, i)
		}
	}
	return t.insertMapped(ctx, row, fresh, payloads)
}

// earlier lists the instances of a mapped task with their payloads: the
// unexpanded one, and after a clear those of the expansion before it.
func (t *tx) earlier(ctx context.Context, row *instanceRow) ([]instanceRow, error) {
	var rows []instanceRow
	err := t.SelectContext(ctx, &rows, "SELECT "+instanceColumns+", payload FROM task_instance WHERE dag_run_id = ? AND task_id = ? ORDER BY id"+
		t.s.db.ForUpdate(), row.DagRunID, row.TaskID)
	return rows, err
}

// insertMapped adds instances of a mapped task for some map indexes.
func (t *tx) insertMapped(ctx context.Context, row *instanceRow, indexes []int, payloads []json.RawMessage) error {
	for start, n := 0, 0; start < len(indexes); start += n {
		// A statement holds some payloads, and not more than a packet does.
		size := 0
		for n = 0; start+n < len(indexes) && n < chunk && (n == 0 || size+len(payloads[indexes[start+n]]) < 1<<20); n++ {
			size += len(payloads[indexes[start+n]])
		}
		args := make([]any, 0, 15*n)
		for _, i := range indexes[start : start+n] {
			args = append(args, row.DagRunID, row.DagID, row.RunID, row.TaskID, row.MaxTries-row.TryNumber, row.Operator, row.Queue, row.Pool, row.PoolSlots,
				row.PriorityWeight, -row.PriorityWeight, row.VersionID, t.at, i, jsonText(payloads[i]))
		}
		line := "(" + dialect.Marks(15) + ", 'none', 0, 0, 0, 0, 0, '', '')"
		if _, err := t.exec(ctx, instanceInsert+strings.Repeat(line+",", n-1)+line, args...); err != nil {
			return err
		}
	}
	return nil
}

// FailExpansion seals a mapped task whose sources could not be read: its
// unexpanded instance becomes failed together with its letter, an attempt and
// the events, which seal makes of the instance as it is then. When the instance
// is not there any more nothing happens.
func (s *Store) FailExpansion(
	ctx context.Context, runID int64, taskID string, seal func(ti dag.TaskInstance) (dag.DeadLetter, []dag.Event),
) error {
	return s.write(ctx, "seal task "+taskID, func(ctx context.Context, t *tx) error {
		row, err := t.unexpanded(ctx, runID, taskID)
		if err != nil || row == nil {
			return err
		}
		// An attempt of its own: what it leaves must not look like what an earlier
		// one left that was cleared.
		ti := row.model()
		ti.Fence, ti.TryNumber = row.Fence+1, row.TryNumber+1
		fence := ti.Fence
		letter, events := seal(ti)
		li := t.completeLetter(letter, row, fence)
		letters := []letterInsert{li}
		if row.Replaying {
			if letters, err = t.resealAll(ctx, letters); err != nil {
				return err
			}
		}
		if err := t.insertLetters(ctx, letters); err != nil {
			return err
		}
		attempt := dag.Attempt{
			TaskInstanceID: row.ID, Fence: fence, TryNumber: row.TryNumber + 1, State: dag.StateFailed, WorkerID: "scheduler",
			StartDate: t.now, EndDate: t.now, ErrorClass: li.letter.ErrorClass, ErrorCode: li.letter.ErrorCode, ErrorMessage: li.letter.ErrorMessage,
		}
		if err := t.insertAttempts(ctx, []dag.Attempt{attempt}); err != nil {
			return err
		}
		if err := t.insertEvents(ctx, slices.Clone(events)); err != nil {
			return err
		}
		if _, err := t.exec(ctx, `UPDATE task_instance SET state = 'failed', fence = ?, try_number = try_number + 1, failure_count = failure_count + 1,
 start_date = ?, end_date = ?, first_failed_at = COALESCE(first_failed_at, ?), updated_at = ? WHERE id = ? AND state = 'none'`,
			fence, t.at, t.at, t.at, t.at, row.ID); err != nil {
			return err
		}
		if row.Replaying {
			if _, err := t.exec(ctx, "UPDATE task_instance SET "+restPriority+" WHERE id = ?", row.ID); err != nil {
				return err
			}
		}
		return t.wakeRuns(ctx, []int64{runID})
	})
}
