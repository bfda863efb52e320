package store

import (
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// While an instance's dead letter is replayed, task_instance.replaying is 1 and
// the letter's status is replaying: the one says it to the queue, the other to
// the desk. Both are set and taken back in the same transaction.

// restPriority are the assignments that take a replay's mark and its low
// priority from an instance.
const restPriority = "replaying = 0, priority_weight = priority_weight + 1000000, claim_rank = claim_rank - 1000000"

// endReplay takes the mark of a replay from the i-th row of an update.
func endReplay(b *bulk, i int, row *instanceRow) {
	b.set(i, "replaying", 0)
	b.set(i, "priority_weight", row.PriorityWeight+dag.ReplayRank)
	b.set(i, "claim_rank", -(row.PriorityWeight + dag.ReplayRank))
}

// Ends of a replay, as dead_letter_audit.outcome has them beside the decision of
// the drain that made it.
const (
	outcomeInFlight = "in_flight"
	outcomeResolved = "resolved"
	outcomeBack     = "back"
)

// onItsWay is a letter that is being replayed.
type onItsWay struct {
	letterRow
	InstanceID int64   `db:"task_instance_id"`
	Drain      *string `db:"drain_id"`
}

// replayed locks the letters of instances that are being replayed, in the order
// of their ids.
func (t *tx) replayed(ctx context.Context, instanceIDs []int64) ([]onItsWay, error) {
	var out []onItsWay
	for part := range slices.Chunk(slices.Sorted(slices.Values(instanceIDs)), chunk) {
		var rows []onItsWay
		in, args := t.s.among(part)
		if err := t.SelectContext(ctx, &rows, "SELECT "+letterColumns+", task_instance_id, drain_id FROM dead_letter WHERE task_instance_id IN "+in+
			" AND status = 'replaying' ORDER BY id"+t.s.db.ForUpdate(), args...); err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return out, nil
}

// endedSo writes beside the decision to replay how each replay ended.
func (t *tx) endedSo(ctx context.Context, letters []onItsWay, outcome string) error {
	byDrain := map[string][]int64{}
	for i := range letters {
		if d := letters[i].Drain; d != nil {
			byDrain[*d] = append(byDrain[*d], letters[i].ID)
		}
	}
	for _, drain := range slices.Sorted(maps.Keys(byDrain)) {
		for part := range slices.Chunk(byDrain[drain], chunk) {
			in, args := t.s.among(part)
			if _, err := t.exec(ctx, "UPDATE dead_letter_audit SET outcome = ? WHERE drain_id = ? AND dead_letter_id IN "+in+" AND outcome = 'in_flight'",
				append([]any{outcome, drain}, args...)...); err != nil {
				return err
			}
		}
	}
	return nil
}

// closeReplays closes the letters of instances whose replay ended well. The
// decision to replay has its audit row already, and the attempt tells the rest.
func (t *tx) closeReplays(ctx context.Context, instanceIDs []int64) error {
	if len(instanceIDs) == 0 {
		return nil
	}
	letters, err := t.replayed(ctx, instanceIDs)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(letters, chunk) {
		ids := make([]int64, len(part))
		for i := range part {
			ids[i] = part[i].ID
			t.tally.change(part[i].model(), dag.LetterResolved, part[i].ReturnCount)
		}
		in, args := t.s.among(ids)
		if _, err := t.exec(ctx, "UPDATE dead_letter SET status = 'resolved', updated_at = ? WHERE id IN "+in, append([]any{t.at}, args...)...); err != nil {
			return err
		}
	}
	return t.endedSo(ctx, letters, outcomeResolved)
}

// reseal seals the letter of a failed replay again, with the new failure in it.
// Its id, its count of returns, its key and its first failure stay.
func (t *tx) reseal(ctx context.Context, li letterInsert, old *onItsWay) error {
	l := &li.letter
	var asset any
	if _, err := hex.DecodeString(l.AssetSHA256); err == nil && len(l.AssetSHA256) == 64 {
		asset = l.AssetSHA256
	}
	n, err := t.exec(ctx, `UPDATE dead_letter SET status = 'sealed', fence = ?, queue = ?, attempt_count = ?, error_class = ?, error_code = ?,
 error_message = ?, stack_trace = ?, fingerprint = ?, payload = ?, original_payload_hash = ?, asset_sha256 = ?, schema_version = ?,
 enqueued_at = ?, expires_at = ?, updated_at = ?, payload_edit = NULL WHERE id = ?`,
		li.fence, l.Queue, l.AttemptCount, string(l.ErrorClass), l.ErrorCode, l.ErrorMessage, l.StackTrace, l.Fingerprint, string(l.Payload),
		l.OriginalPayloadHash, asset, l.SchemaVersion, dialect.Stamp(l.EnqueuedAt), dialect.Stamp(l.ExpiresAt), t.at, old.ID)
	if err == nil && n != 1 {
		err = errors.New("a locked letter was not there any more")
	}
	if err != nil {
		return err
	}
	before := old.model()
	t.tally.add(&before, -1)
	after := li.letter
	after.DagID, after.TaskID, after.Status, after.ReturnCount = before.DagID, before.TaskID, dag.LetterSealed, before.ReturnCount
	t.tally.add(&after, 1)
	return nil
}

// resealAll seals letters of failed replays again and gives those for which
// there is none to seal.
func (t *tx) resealAll(ctx context.Context, list []letterInsert) ([]letterInsert, error) {
	if len(list) == 0 {
		return nil, nil
	}
	ids := make([]int64, len(list))
	for i := range list {
		ids[i] = list[i].instanceID
	}
	letters, err := t.replayed(ctx, ids)
	if err != nil {
		return nil, err
	}
	of := make(map[int64]*onItsWay, len(letters))
	for i := range letters {
		if of[letters[i].InstanceID] != nil {
			return nil, errors.New("more than one letter of the instance was being replayed")
		}
		of[letters[i].InstanceID] = &letters[i]
	}
	var fresh []letterInsert
	for _, li := range list {
		if of[li.instanceID] == nil {
			fresh = append(fresh, li)
			continue
		}
		if err := t.reseal(ctx, li, of[li.instanceID]); err != nil {
			return nil, err
		}
	}
	return fresh, t.endedSo(ctx, letters, outcomeBack)
}

// slowDrains lets the drains rest that replay instances whose receiver asked for
// it, each until the given instant. It writes beside the drain's row, not into
// it: a step of the drain holds that row and waits for instances, which this
// transaction holds.
func (t *tx) slowDrains(ctx context.Context, until map[int64]time.Time) error {
	if len(until) == 0 {
		return nil
	}
	letters, err := t.drainsOf(ctx, slices.Collect(maps.Keys(until)))
	if err != nil {
		return err
	}
	rest := map[string]time.Time{}
	for _, l := range letters {
		if at := until[l.InstanceID]; l.Drain != nil && at.After(rest[*l.Drain]) {
			rest[*l.Drain] = at
		}
	}
	for _, drain := range slices.Sorted(maps.Keys(rest)) {
		at := dialect.Stamp(rest[drain])
		if _, err := t.exec(ctx, "INSERT INTO replay_drain_rest (drain_id, rest_until) VALUES (?, ?)"+t.s.db.Upsert([]string{"drain_id"}, nil), drain, at); err != nil {
			return err
		}
		if _, err := t.exec(ctx, "UPDATE replay_drain_rest SET rest_until = ? WHERE drain_id = ? AND rest_until < ?", at, drain, at); err != nil {
			return err
		}
	}
	return nil
}

// drainsOf reads which drains replay instances.
func (t *tx) drainsOf(ctx context.Context, instanceIDs []int64) ([]onItsWay, error) {
	var rows []onItsWay
	in, args := t.s.among(slices.Sorted(slices.Values(instanceIDs)))
	err := t.SelectContext(ctx, &rows, "SELECT task_instance_id, drain_id FROM dead_letter WHERE task_instance_id IN "+in+" AND status = 'replaying'", args...)
	return rows, err
}

// endReplaysUnrun closes the letters of replays that the scheduler ended without
// an attempt (a run that timed out, a task that is gone), with an audit row
// that says so.
func (t *tx) endReplaysUnrun(ctx context.Context, instanceIDs []int64, reason, actor string) error {
	if len(instanceIDs) == 0 {
		return nil
	}
	in, args := t.s.among(instanceIDs)
	if _, err := t.exec(ctx, "UPDATE task_instance SET "+restPriority+" WHERE id IN "+in+" AND replaying = 1", args...); err != nil {
		return err
	}
	return t.resolveOpen(ctx, instanceIDs, "('replaying')", reason, actor)
}

// resolveOpen closes letters of instances that have one of the given statuses.
func (t *tx) resolveOpen(ctx context.Context, instanceIDs []int64, statuses, reason, actor string) error {
	var open []onItsWay
	in, args := t.s.among(instanceIDs)
	if err := t.SelectContext(ctx, &open, "SELECT "+letterColumns+", task_instance_id, drain_id FROM dead_letter WHERE task_instance_id IN "+in+
		" AND status IN "+statuses+" ORDER BY id"+t.s.db.ForUpdate(), args...); err != nil {
		return err
	}
	list := make([]dag.DeadLetter, len(open))
	var ended []onItsWay
	for i := range open {
		list[i] = open[i].model()
		if list[i].Status == dag.LetterReplaying {
			ended = append(ended, open[i])
		}
	}
	if err := t.endedSo(ctx, ended, outcomeResolved); err != nil {
		return err
	}
	return t.setLetterStatus(ctx, list, dag.LetterResolved, string(dag.DecisionResolved), reason, actor)
}
