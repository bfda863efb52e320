package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// LetterRecords lists letters with everything in them, as a file keeps them; f
// has After and Limit for paging.
func (s *Store) LetterRecords(ctx context.Context, f dag.LetterFilter) ([]dag.LetterRecord, error) {
	c := letterCondition(f)
	var rows []caseRow
	if err := s.db.Reader().SelectContext(ctx, &rows, "SELECT "+letterColumns+", payload, stack_trace, task_instance_id, fence, payload_edit FROM dead_letter"+
		s.inOrder(f)+c.where()+" ORDER BY id"+limit(f.Limit, 100), c.args...); err != nil {
		return nil, fmt.Errorf("read dead letters: %w", err)
	}
	out := make([]dag.LetterRecord, len(rows))
	for i := range rows {
		out[i] = dag.LetterRecord{DeadLetter: rows[i].model(), Fence: rows[i].Fence, PayloadEdit: rawOrNil(rows[i].PayloadEdit)}
	}
	return out, nil
}

// ImportLetter brings an open letter of a file back: one that is not in the
// database, that was expired or dropped, or whose payload was changed behind the
// desk's back. Its task instance must be there and be failed under the letter's
// fence; a record whose payload does not fit its hash is refused.
func (s *Store) ImportLetter(ctx context.Context, r dag.LetterRecord, actor string) (dag.ImportStatus, error) {
	fail := func(code dag.ErrCode, format string, args ...any) error {
		return &dag.Error{Code: code, Op: "import letter " + r.JobID, Err: fmt.Errorf(format, args...)}
	}
	switch {
	case r.DagID == "" || r.RunID == "" || r.TaskID == "":
		return "", fail(dag.ErrInvalid, "it does not say whose letter it is: dag_id, run_id and task_id")
	case r.SchemaVersion < 1 || r.SchemaVersion > dag.LetterSchemaVersion:
		return "", fail(dag.ErrInvalid, "its schema_version is %d, this airlock knows 1 to %d", r.SchemaVersion, dag.LetterSchemaVersion)
	case dag.PayloadHash(r.Payload) != r.OriginalPayloadHash:
		return "", fail(dag.ErrInvalid, "its payload does not fit original_payload_hash")
	case r.Status != dag.LetterSealed && r.Status != dag.LetterQuarantined:
		return "", fail(dag.ErrInvalid, "it is %s; only sealed and quarantined letters are brought back", r.Status)
	}
	var status dag.ImportStatus
	err := s.write(ctx, "import letter "+r.JobID, func(ctx context.Context, t *tx) error {
		var instances []instanceRow
		if err := t.SelectContext(ctx, &instances, "SELECT "+instanceColumns+` FROM task_instance WHERE dag_run_id =
 (SELECT id FROM dag_run WHERE dag_id = ? AND run_id = ?) AND task_id = ? AND map_index = ?`+s.db.ForUpdate(),
			r.DagID, r.RunID, r.TaskID, r.MapIndex); err != nil {
			return err
		}
		if len(instances) == 0 {
			return fail(dag.ErrNotFound, "its task instance is not in this database: letters are brought back where they were sealed")
		}
		row := &instances[0]
		fits := row.State == string(dag.StateFailed) && (row.Fence == r.Fence || row.Fence == r.Fence+1)
		var there []caseRow
		if err := t.SelectContext(ctx, &there, "SELECT "+letterColumns+", payload, task_instance_id, fence, payload_edit FROM dead_letter WHERE task_instance_id = ? AND fence = ?"+
			s.db.ForUpdate(), row.ID, r.Fence); err != nil {
			return err
		}
		if len(there) == 0 {
			if !fits {
				return fail(dag.ErrConflict, "its task instance is %s, and not by this failure", row.State)
			}
			status = dag.ImportAdded
			return t.addLetter(ctx, row, r, actor)
		}
		has := there[0].model()
		closed := has.Status == dag.LetterExpired || has.Status == dag.LetterDropped
		damaged := (has.Status == dag.LetterSealed || has.Status == dag.LetterQuarantined) && dag.PayloadHash(has.Payload) != has.OriginalPayloadHash
		if !closed && !damaged || !fits {
			status = dag.ImportThere
			return nil
		}
		status = dag.ImportRestored
		if _, err := t.exec(ctx, "UPDATE dead_letter SET payload = ?, original_payload_hash = ?, payload_edit = ?, expires_at = ? WHERE id = ?",
			string(r.Payload), r.OriginalPayloadHash, nullJSON(r.PayloadEdit), dialect.Stamp(t.now.Add(dag.LetterTTL)), has.ID); err != nil {
			return err
		}
		return t.setLetterStatus(ctx, []dag.DeadLetter{has}, r.Status, string(dag.DecisionReleased), "brought back from a file", actor)
	})
	return status, err
}

func (t *tx) addLetter(ctx context.Context, row *instanceRow, r dag.LetterRecord, actor string) error {
	li := t.completeLetter(r.DeadLetter, row, r.Fence)
	li.letter.EnqueuedAt, li.letter.IdempotencyKey = r.EnqueuedAt, short(r.IdempotencyKey, 1024)
	if li.letter.EnqueuedAt.IsZero() || li.letter.IdempotencyKey == "" {
		return errors.New("it has no enqueued_at or no idempotency_key")
	}
	if err := t.insertLetters(ctx, []letterInsert{li}); err != nil {
		return err
	}
	var ids []int64
	if err := t.SelectContext(ctx, &ids, "SELECT id FROM dead_letter WHERE task_instance_id = ? AND fence = ?", row.ID, r.Fence); err != nil {
		return err
	}
	if len(r.PayloadEdit) > 0 {
		if _, err := t.exec(ctx, "UPDATE dead_letter SET payload_edit = ? WHERE id = ?", jsonText(r.PayloadEdit), ids[0]); err != nil {
			return err
		}
	}
	l := li.letter
	l.ID = ids[0]
	return t.setLetterStatus(ctx, []dag.DeadLetter{l}, r.Status, string(dag.DecisionReleased), "brought back from a file", actor)
}
