package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// letterColumns are the columns of letterRow but the two large ones.
const letterColumns = `id, job_id, dag_id, run_id, task_id, map_index, logical_date, queue, attempt_count, error_class, error_code,
 error_message, fingerprint, original_payload_hash, asset_sha256, idempotency_key, return_count, status, schema_version,
 first_failed_at, enqueued_at, expires_at, updated_at`

// looseTime is an instant that may be unreadable: somebody else may have written
// the row, and one bad row must not hide the others. It is then not Valid.
type looseTime struct{ dialect.Time }

// Scan implements sql.Scanner.
func (t *looseTime) Scan(v any) error {
	if t.Time.Scan(v) != nil {
		t.Time = dialect.Time{}
	}
	return nil
}

type letterRow struct {
	ID    int64  `db:"id"`
	JobID string `db:"job_id"`
	dag.TaskInstanceKey
	LogicalDate    looseTime `db:"logical_date"`
	Queue          string    `db:"queue"`
	AttemptCount   int       `db:"attempt_count"`
	ErrorClass     string    `db:"error_class"`
	ErrorCode      string    `db:"error_code"`
	ErrorMessage   string    `db:"error_message"`
	StackTrace     string    `db:"stack_trace"`
	Fingerprint    string    `db:"fingerprint"`
	Payload        string    `db:"payload"`
	PayloadHash    string    `db:"original_payload_hash"`
	AssetSHA256    *string   `db:"asset_sha256"`
	IdempotencyKey string    `db:"idempotency_key"`
	ReturnCount    int       `db:"return_count"`
	Status         string    `db:"status"`
	SchemaVersion  int       `db:"schema_version"`
	FirstFailedAt  looseTime `db:"first_failed_at"`
	EnqueuedAt     looseTime `db:"enqueued_at"`
	ExpiresAt      looseTime `db:"expires_at"`
	UpdatedAt      looseTime `db:"updated_at"`
}

func (r letterRow) model() dag.DeadLetter {
	l := dag.DeadLetter{
		ID: r.ID, JobID: r.JobID, TaskInstanceKey: r.TaskInstanceKey, LogicalDate: r.LogicalDate.Ptr(), Queue: r.Queue,
		AttemptCount: r.AttemptCount, ErrorClass: dag.ErrorClass(r.ErrorClass), ErrorCode: r.ErrorCode, ErrorMessage: r.ErrorMessage,
		StackTrace: r.StackTrace, Fingerprint: r.Fingerprint, OriginalPayloadHash: r.PayloadHash, IdempotencyKey: r.IdempotencyKey,
		ReturnCount: r.ReturnCount, Status: dag.LetterStatus(r.Status), SchemaVersion: r.SchemaVersion,
		FirstFailedAt: r.FirstFailedAt.Time.Time, EnqueuedAt: r.EnqueuedAt.Time.Time, ExpiresAt: r.ExpiresAt.Time.Time, UpdatedAt: r.UpdatedAt.Time.Time,
	}
	if r.Payload != "" {
		l.Payload = json.RawMessage(r.Payload)
	}
	if r.AssetSHA256 != nil {
		l.AssetSHA256 = *r.AssetSHA256
	}
	return l
}

// inOrder names the index that has the letters of a filter in the order of their
// ids, for whoever reads page after page: another one would be sorted anew for
// each page.
func (s *Store) inOrder(f dag.LetterFilter) string {
	name, sqlite := "PRIMARY", ""
	switch {
	case len(f.IDs) > 0:
		return ""
	case f.Fingerprint != "":
		name, sqlite = "k_fingerprint", "dead_letter_fingerprint"
	case f.Status != "":
		name, sqlite = "k_open", "dead_letter_open"
	}
	switch {
	case !s.db.IsSQLite():
		return s.db.ForceIndex(name)
	case sqlite == "":
		return " NOT INDEXED" // by the row's number, that is
	default:
		return s.db.ForceIndex(sqlite)
	}
}

// byExpiry names the index that has the letters of a status by their expiry.
func (s *Store) byExpiry() string {
	if s.db.IsSQLite() {
		return s.db.ForceIndex("dead_letter_expiry")
	}
	return s.db.ForceIndex("k_expiry")
}

// CountLetters counts the letters that a filter finds.
func (s *Store) CountLetters(ctx context.Context, f dag.LetterFilter) (int, error) {
	c := letterCondition(f)
	var n int
	err := s.db.Reader().GetContext(ctx, &n, "SELECT COUNT(*) FROM dead_letter"+c.where(), c.args...)
	return n, s.explain("count dead letters", err)
}

// gpuQueues is dag.LaneOf as a condition; '/' is the character after '.'.
const gpuQueues = "(queue = 'gpu' OR (queue >= 'gpu.' AND queue < 'gpu/'))"

func letterCondition(f dag.LetterFilter) condition {
	var c condition
	c.eq("dag_id", f.DagID)
	c.eq("run_id", f.RunID)
	c.eq("task_id", f.TaskID)
	c.eq("queue", f.Queue)
	c.eq("error_class", string(f.ErrorClass))
	c.eq("error_code", f.ErrorCode)
	c.eq("fingerprint", f.Fingerprint)
	c.eq("status", string(f.Status))
	if f.Open {
		c.add("status IN ('sealed', 'quarantined', 'replaying')")
	}
	if f.Since != nil {
		c.add("enqueued_at >= ?", dialect.Stamp(*f.Since))
	}
	if f.Until != nil {
		c.add("enqueued_at < ?", dialect.Stamp(*f.Until))
	}
	if len(f.IDs) > 0 {
		c.add("id IN (" + idList(f.IDs) + ")")
	}
	if f.After > 0 {
		c.add("id > ?", f.After)
	}
	if f.UpTo > 0 {
		c.add("id <= ?", f.UpTo)
	}
	if f.Drain != "" {
		c.add("id IN (SELECT dead_letter_id FROM dead_letter_audit WHERE drain_id = ? AND decision = 'replayed')", f.Drain)
	}
	if f.ExpiresBy != nil {
		c.add("expires_at <= ?", dialect.Stamp(*f.ExpiresBy))
	}
	switch f.Lane {
	case dag.LaneGPU:
		c.add(gpuQueues)
	case dag.LaneOther:
		c.add("NOT " + gpuQueues)
	default:
	}
	return c
}

// Letters implements Desk.
func (s *Store) Letters(ctx context.Context, f dag.LetterFilter) ([]dag.DeadLetter, error) {
	c := letterCondition(f)
	var rows []letterRow
	err := s.db.Reader().SelectContext(ctx, &rows, "SELECT "+letterColumns+" FROM dead_letter"+c.where()+" ORDER BY id"+limit(f.Limit, 100), c.args...)
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	out := make([]dag.DeadLetter, len(rows))
	for i, r := range rows {
		out[i] = r.model()
	}
	return out, nil
}

// Letter implements Desk.
func (s *Store) Letter(ctx context.Context, id int64) (dag.DeadLetter, error) {
	var rows []letterRow
	err := s.db.Reader().SelectContext(ctx, &rows, "SELECT "+letterColumns+", payload, stack_trace FROM dead_letter WHERE id = ?", id)
	if err != nil {
		return dag.DeadLetter{}, fmt.Errorf("dead letter %d: %w", id, err)
	}
	if len(rows) == 0 {
		return dag.DeadLetter{}, &dag.Error{
			Code: dag.ErrNotFound, Op: "dead letter " + strconv.FormatInt(id, 10), Hint: "airlock dlq list shows those that there are",
			Err: errors.New("there is none"),
		}
	}
	return rows[0].model(), nil
}
