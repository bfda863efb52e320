package store

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// letterInsert is a letter with the attempt that it seals.
type letterInsert struct {
	letter     dag.DeadLetter
	instanceID int64
	fence      int64
}

// completeLetter makes a letter that the table takes, whatever is missing or
// too long in it: a letter that cannot be stored would be a loss. What it names
// comes from the instance's row.
func (t *tx) completeLetter(l dag.DeadLetter, row *instanceRow, fence int64) letterInsert {
	l.TaskInstanceKey = row.TaskInstanceKey
	l.JobID = short(row.TaskInstanceKey.String(), 1024)
	l.Queue = short(cmp.Or(l.Queue, row.Queue), 250)
	l.AttemptCount = max(1, l.AttemptCount)
	l.ErrorClass = sealedClass(l.ErrorClass)
	l.ErrorCode = short(cmp.Or(l.ErrorCode, "UNKNOWN"), 100)
	l.ErrorMessage = dag.CutText(cmp.Or(l.ErrorMessage, l.ErrorCode), dag.MaxErrorMessage)
	l.StackTrace = dag.CutText(l.StackTrace, dag.MaxStackTrace)
	if len(l.Payload) > dag.MaxPayload {
		l.Payload = json.RawMessage(jsonText([]byte(dag.CutText(string(l.Payload), dag.MaxPayload/2))))
	}
	l.Payload = json.RawMessage(jsonText(l.Payload))
	if len(l.OriginalPayloadHash) != 64 {
		l.OriginalPayloadHash = dag.PayloadHash(l.Payload)
	}
	if l.Fingerprint == "" {
		l.Fingerprint = dag.Fingerprint(l.ErrorClass, l.ErrorCode, l.ErrorMessage, l.DagID, l.TaskID)
	}
	l.Fingerprint = short(l.Fingerprint, 100)
	l.IdempotencyKey = short(cmp.Or(l.IdempotencyKey, dag.IdempotencyKey(l.TaskInstanceKey, row.Generation-row.Replays)), 1024)
	if !sealedStatus(l.Status) {
		l.Status = dag.LetterSealed
	}
	if l.SchemaVersion == 0 {
		l.SchemaVersion = dag.LetterSchemaVersion
	}
	l.EnqueuedAt = t.now
	if l.FirstFailedAt.IsZero() || l.FirstFailedAt.After(t.now) {
		l.FirstFailedAt = t.now
	}
	l.ExpiresAt = t.now.Add(dag.LetterTTL)
	l.UpdatedAt = t.now
	return letterInsert{l, row.ID, fence}
}

// sealedClass is the class of a letter: transient says that the budget ran out.
func sealedClass(c dag.ErrorClass) dag.ErrorClass {
	switch c {
	case dag.ClassPermanent, dag.ClassExhausted, dag.ClassPoison, dag.ClassConfiguration, dag.ClassCapability, dag.ClassCrashLoop:
		return c
	case dag.ClassTransient:
		return dag.ClassExhausted
	default:
		return dag.ClassPermanent
	}
}

func sealedStatus(s dag.LetterStatus) bool {
	switch s {
	case dag.LetterSealed, dag.LetterQuarantined, dag.LetterReplaying, dag.LetterResolved, dag.LetterDropped, dag.LetterExpired:
		return true
	default:
		return false
	}
}

// insertLetters seals. A letter for the same attempt cannot be there: the fence
// guards it, and a unique key repeats that.
func (t *tx) insertLetters(ctx context.Context, list []letterInsert) error {
	for part := range slices.Chunk(list, 100) {
		args := make([]any, 0, 27*len(part))
		for _, li := range part {
			l := &li.letter
			t.tally.add(l, 1)
			var asset any
			if _, err := hex.DecodeString(l.AssetSHA256); err == nil && len(l.AssetSHA256) == 64 {
				asset = l.AssetSHA256
			}
			args = append(args, l.JobID, li.instanceID, li.fence, l.DagID, l.RunID, l.TaskID, l.MapIndex, dialect.StampPtr(l.LogicalDate),
				l.Queue, l.AttemptCount, string(l.ErrorClass), l.ErrorCode, l.ErrorMessage, l.StackTrace, l.Fingerprint, string(l.Payload),
				l.OriginalPayloadHash, asset, l.IdempotencyKey, max(0, l.ReturnCount), string(l.Status), l.SchemaVersion,
				dialect.Stamp(l.FirstFailedAt), dialect.Stamp(l.EnqueuedAt), dialect.Stamp(l.ExpiresAt), dialect.Stamp(l.UpdatedAt))
		}
		if _, err := t.exec(ctx, `INSERT INTO dead_letter (job_id, task_instance_id, fence, dag_id, run_id, task_id, map_index, logical_date,
 queue, attempt_count, error_class, error_code, error_message, stack_trace, fingerprint, payload, original_payload_hash, asset_sha256,
 idempotency_key, return_count, status, schema_version, first_failed_at, enqueued_at, expires_at, updated_at) VALUES `+
			dialect.Rows(len(part), 26), args...); err != nil {
			return err
		}
	}
	return nil
}
