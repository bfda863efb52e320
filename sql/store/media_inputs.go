package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

const (
	// useMemory is how long it is remembered which attempt had an input open.
	useMemory = 30 * 24 * time.Hour
	// forgetEvery is after how many task instances what is older is removed.
	forgetEvery = 100
)

type mediaInputRow struct {
	AssetSHA256   string       `db:"asset_sha256"`
	Failures      int          `db:"failures"`
	TotalFailures int          `db:"total_failures"`
	FirstFailedAt dialect.Time `db:"first_failed_at"`
	LastFailedAt  dialect.Time `db:"last_failed_at"`
	LastErrorCode string       `db:"last_error_code"`
	LastJobID     string       `db:"last_job_id"`
	ReleasedAt    dialect.Time `db:"released_at"`
	ReleasedBy    string       `db:"released_by"`
}

const mediaInputColumns = `asset_sha256, failures, total_failures, first_failed_at, last_failed_at, last_error_code, last_job_id,
 released_at, released_by`

func (r mediaInputRow) input() dag.MediaInput {
	m := dag.MediaInput{
		AssetSHA256: r.AssetSHA256, Failures: r.Failures, TotalFailures: r.TotalFailures,
		FirstFailedAt: r.FirstFailedAt.Time, LastFailedAt: r.LastFailedAt.Time,
		LastErrorCode: r.LastErrorCode, LastJobID: r.LastJobID, ReleasedBy: r.ReleasedBy,
	}
	if r.ReleasedAt.Valid {
		at := r.ReleasedAt.Time
		m.ReleasedAt = &at
	}
	return m
}

// isSHA256 tells whether a text is a hash as the tables hold them.
func isSHA256(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// OpenInput implements executor.WorkerStore.
func (s *Store) OpenInput(ctx context.Context, l dag.Lease, assetSHA256 string) (dag.MediaInput, error) {
	out := dag.MediaInput{AssetSHA256: assetSHA256}
	if !isSHA256(assetSHA256) {
		return out, &dag.Error{Code: dag.ErrInvalid, Op: "open a media input", Err: fmt.Errorf("%q is no SHA-256", assetSHA256)}
	}
	err := s.write(ctx, "open a media input", func(ctx context.Context, t *tx) error {
		out = dag.MediaInput{AssetSHA256: assetSHA256}
		if _, err := t.exec(ctx, "INSERT INTO media_input_use (task_instance_id, fence, asset_sha256, opened_at) VALUES (?, ?, ?, ?)"+
			s.db.Upsert([]string{"task_instance_id"}, []string{"fence", "asset_sha256", "opened_at"}),
			l.TaskInstanceID, l.Fence, assetSHA256, t.at); err != nil {
			return err
		}
		if l.TaskInstanceID%forgetEvery == 0 {
			if _, err := t.exec(ctx, "DELETE FROM media_input_use WHERE opened_at < ?", dialect.Stamp(t.now.Add(-useMemory))); err != nil {
				return err
			}
		}
		var rows []mediaInputRow
		if err := t.SelectContext(ctx, &rows, "SELECT "+mediaInputColumns+" FROM media_input WHERE asset_sha256 = ?", assetSHA256); err != nil {
			return err
		}
		if len(rows) > 0 {
			out = rows[0].input()
		}
		return nil
	})
	return out, err
}

// OpenLetterOf implements executor.WorkerStore.
func (s *Store) OpenLetterOf(ctx context.Context, dagID, taskID, assetSHA256 string) (int64, error) {
	var ids []int64
	err := s.db.Reader().SelectContext(ctx, &ids, `SELECT id FROM dead_letter WHERE dag_id = ? AND task_id = ? AND asset_sha256 = ?
 AND status IN ('sealed', 'quarantined', 'replaying') ORDER BY id LIMIT 1`, dagID, taskID, assetSHA256)
	if err != nil {
		return 0, fmt.Errorf("look for the letter of a media input: %w", err)
	}
	if len(ids) == 0 {
		return 0, nil
	}
	return ids[0], nil
}

// countInputs counts failed attempts against their inputs, in the transaction
// that writes the failures.
func (t *tx) countInputs(ctx context.Context, good []settled) error {
	failed := map[string][]settled{}
	var lost []settled
	for _, g := range good {
		switch {
		case isSHA256(g.result.FailedInput):
			failed[g.result.FailedInput] = append(failed[g.result.FailedInput], g)
		case g.result.CountInput:
			lost = append(lost, g)
		}
	}
	if err := t.findInputs(ctx, lost, failed); err != nil {
		return err
	}
	hashes := make([]string, 0, len(failed))
	for hash := range failed {
		hashes = append(hashes, hash)
	}
	slices.Sort(hashes) // two batches lock in the same order
	for _, hash := range hashes {
		if err := t.countInput(ctx, hash, failed[hash]); err != nil {
			return err
		}
	}
	return nil
}

// findInputs finds what the attempts of lost workers had open.
func (t *tx) findInputs(ctx context.Context, lost []settled, failed map[string][]settled) error {
	if len(lost) == 0 {
		return nil
	}
	ids := make([]int64, len(lost))
	for i, g := range lost {
		ids[i] = g.row.ID
	}
	slices.Sort(ids)
	var rows []struct {
		ID    int64  `db:"task_instance_id"`
		Fence int64  `db:"fence"`
		Hash  string `db:"asset_sha256"`
	}
	if err := t.SelectContext(ctx, &rows, "SELECT task_instance_id, fence, asset_sha256 FROM media_input_use WHERE task_instance_id IN ("+
		idList(ids)+")"); err != nil {
		return err
	}
	for _, g := range lost {
		for _, r := range rows {
			if r.ID == g.row.ID && r.Fence == g.result.Fence {
				failed[r.Hash] = append(failed[r.Hash], g)
			}
		}
	}
	return nil
}

// countInput adds attempts to one input's count. A pause longer than the window
// begins it anew.
func (t *tx) countInput(ctx context.Context, hash string, attempts []settled) error {
	last := attempts[len(attempts)-1]
	code, job := short(last.result.Attempt.ErrorCode, 100), short(last.row.TaskInstanceKey.String(), 1024)
	if _, err := t.exec(ctx, "INSERT INTO media_input ("+mediaInputColumns+") VALUES (?, 0, 0, ?, ?, ?, ?, NULL, '')"+
		t.s.db.Upsert([]string{"asset_sha256"}, nil), hash, t.at, t.at, code, job); err != nil {
		return err
	}
	n, since := len(attempts), dialect.Stamp(t.now.Add(-dag.MediaInputWindow))
	_, err := t.exec(ctx, `UPDATE media_input SET
 first_failed_at = CASE WHEN failures = 0 OR last_failed_at < ? THEN ? ELSE first_failed_at END,
 failures = CASE WHEN last_failed_at < ? THEN ? ELSE failures + ? END,
 total_failures = total_failures + ?, last_failed_at = ?, last_error_code = ?, last_job_id = ? WHERE asset_sha256 = ?`,
		since, t.at, since, n, n, n, t.at, code, job, hash)
	return err
}

// MediaInputs lists inputs that have failed, the ones with the most failures
// first.
func (s *Store) MediaInputs(ctx context.Context, f dag.MediaInputFilter) ([]dag.MediaInput, error) {
	var c condition
	if len(f.Hashes) > 0 {
		args := make([]any, len(f.Hashes))
		for i, h := range f.Hashes {
			args[i] = h
		}
		c.add("asset_sha256 IN ("+dialect.Marks(len(args))+")", args...)
	}
	if f.MinFailures > 0 {
		c.add("failures >= ?", f.MinFailures)
	}
	var rows []mediaInputRow
	if err := s.db.Reader().SelectContext(ctx, &rows, "SELECT "+mediaInputColumns+" FROM media_input"+c.where()+
		" ORDER BY failures DESC, last_failed_at DESC, asset_sha256"+limit(f.Limit, 100), c.args...); err != nil {
		return nil, fmt.Errorf("list media inputs: %w", err)
	}
	out := make([]dag.MediaInput, len(rows))
	for i, r := range rows {
		out[i] = r.input()
	}
	return out, nil
}

// ReleaseInput sets the count of an input back to 0, so that it may be opened
// again. One that never failed has dag.ErrNotFound.
func (s *Store) ReleaseInput(ctx context.Context, assetSHA256, actor, reason string) error {
	return s.write(ctx, "release media input "+assetSHA256, func(ctx context.Context, t *tx) error {
		return t.releaseInput(ctx, assetSHA256, actor, reason)
	})
}

func (t *tx) releaseInput(ctx context.Context, assetSHA256, actor, reason string) error {
	n, err := t.exec(ctx, "UPDATE media_input SET failures = 0, released_at = ?, released_by = ? WHERE asset_sha256 = ?",
		t.at, short(actor, 250), assetSHA256)
	if err != nil {
		return err
	}
	if n == 0 {
		return &dag.Error{
			Code: dag.ErrNotFound, Op: "release a media input", Err: errors.New("no failure is counted of " + assetSHA256),
			Hint: "`airlock inputs list` shows those that failed",
		}
	}
	return t.audit(ctx, dag.AuditEntry{Actor: actor, Action: "release_input", Subject: assetSHA256, Detail: mustJSON(map[string]any{"reason": reason})})
}
