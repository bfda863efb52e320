package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// DrainStep carries out as many verdicts of a step as the drain's pace allows,
// in their order and in one transaction: the letters' statuses, one audit row
// for each, the instances' next generations with their runs, the returns, and
// the drain's counts and cursor. Two processes may work on one drain: its row is
// locked, and what the other has decided is passed over. A letter that changed
// since its verdict is passed over, too, undecided.
//
// When the answer to a COMMIT was lost the drain is read again: its cursor tells
// how far it got.
func (s *Store) DrainStep(ctx context.Context, id string, step dag.DrainStep, actor string) (dag.DrainStepResult, error) {
	var out dag.DrainStepResult
	err := s.write(ctx, "drain "+id, func(ctx context.Context, t *tx) error {
		var err error
		out, err = t.drainStep(ctx, id, step, actor)
		return err
	})
	if dialect.LostCommit(err) {
		out = dag.DrainStepResult{}
		// A locking read waits for a transaction that the server has not finished.
		err = s.write(ctx, "drain "+id, func(ctx context.Context, t *tx) error {
			var err error
			out.Drain, err = s.findDrain(ctx, t, id, s.db.ForUpdate())
			return err
		})
	}
	return out, err
}

func (t *tx) drainStep(ctx context.Context, id string, step dag.DrainStep, actor string) (dag.DrainStepResult, error) {
	d, err := t.s.findDrain(ctx, t, id, t.s.db.ForUpdate())
	out := dag.DrainStepResult{Drain: d}
	if err != nil || d.State != dag.DrainRunning {
		return out, err
	}
	before := d
	lanes := []*lane{{stretch: step.Other, cursor: &d.Cursor}, {stretch: step.GPU, cursor: &d.GPUCursor}}
	chosen, p, err := t.choose(ctx, &d, lanes)
	if err != nil {
		return out, err
	}
	out.WaitFor, out.Wait = p.wait, p.until.Sub(t.now)
	decided, err := t.decide(ctx, &d, chosen, actor)
	if err != nil {
		return out, err
	}
	for i := range decided {
		out.Decided.Add(decided[i].Decision)
		d.Add(decided[i].Decision)
	}
	for _, l := range lanes {
		l.moveCursor()
	}
	over := lanes[0].over() && lanes[1].over()
	if d.State == dag.DrainRunning && (over || d.Limit > 0 && d.Sum() >= d.Limit) {
		d.State, d.EndedAt, out.WaitFor, out.Wait = dag.DrainDone, &t.now, dag.WaitNone, 0
	}
	if reflect.DeepEqual(before, d) {
		return out, nil // it waits: nothing is written, and the commit costs nothing
	}
	d.UpdatedAt = t.now
	out.Drain = d
	_, err = t.exec(ctx, `UPDATE replay_drain SET state = ?, reason = ?, canary_passed = ?, cursor_id = ?, gpu_cursor_id = ?, replayed = ?, drop_duplicate = ?,
 quarantine = ?, deferred = ?, rejected = ?, next_at = ?, updated_at = ?, ended_at = ? WHERE id = ?`,
		string(d.State), d.Reason, boolInt(d.CanaryPassed), d.Cursor, d.GPUCursor, d.Replayed, d.DropDuplicate, d.Quarantine, d.Deferred, d.Rejected,
		dialect.StampPtr(d.NextAt), t.at, dialect.StampPtr(d.EndedAt), id)
	return out, err
}

// decide carries verdicts out, and gives those that still fitted.
func (t *tx) decide(ctx context.Context, d *dag.Drain, verdicts []dag.ReplayVerdict, actor string) ([]dag.ReplayVerdict, error) {
	if len(verdicts) == 0 {
		return nil, nil
	}
	if err := t.lockReplays(ctx, verdicts); err != nil {
		return nil, err
	}
	good, err := t.stillFit(ctx, verdicts)
	if err != nil || len(good) == 0 {
		return nil, err
	}
	groups := map[dag.ReplayDecision][]int64{}
	args := make([]any, 0, 8*len(good))
	for i := range good {
		l := &good[i].Case.Letter
		var outcome any
		switch good[i].Decision {
		case dag.DecisionReplayed:
			outcome = outcomeInFlight
			t.tally.change(*l, dag.LetterReplaying, l.ReturnCount+1)
		case dag.DecisionDropDuplicate:
			t.tally.change(*l, dag.LetterDropped, l.ReturnCount)
		case dag.DecisionQuarantine:
			t.tally.change(*l, dag.LetterQuarantined, l.ReturnCount)
		case dag.DecisionDeferred, dag.DecisionRejected, dag.DecisionExpired, dag.DecisionReleased, dag.DecisionResolved:
		}
		t.tally.decide(string(good[i].Decision), 1)
		groups[good[i].Decision] = append(groups[good[i].Decision], l.ID)
		args = append(args, d.ID, l.ID, string(good[i].Decision), l.IdempotencyKey, clean(good[i].Reason), short(actor, 250), t.at, outcome)
	}
	for decision, set := range map[dag.ReplayDecision]string{
		dag.DecisionReplayed:      "status = 'replaying', return_count = return_count + 1, drain_id = ?, updated_at = ?",
		dag.DecisionDropDuplicate: "status = 'dropped', updated_at = ?",
		dag.DecisionQuarantine:    "status = 'quarantined', updated_at = ?",
	} {
		ids := groups[decision]
		if len(ids) == 0 {
			continue
		}
		values := []any{t.at}
		if decision == dag.DecisionReplayed {
			values = []any{d.ID, t.at}
		}
		in, which := t.s.among(ids)
		if n, err := t.exec(ctx, "UPDATE dead_letter SET "+set+" WHERE id IN "+in, slices.Concat(values, which)...); err != nil || n != int64(len(ids)) {
			return nil, errors.Join(err, wantRows(n, len(ids)))
		}
	}
	if err := t.insertRows(ctx, "INSERT INTO dead_letter_audit (drain_id, dead_letter_id, decision, idempotency_key, reason, actor, decided_at, outcome) VALUES ",
		"("+dialect.Marks(8)+")", "", 8, args); err != nil {
		if dialect.ClassOf(err) == dialect.ClassDuplicate {
			// The one thing that must never be: the drain has decided about this
			// letter. The unique key keeps it from being replayed twice.
			err = fmt.Errorf("drain %s: a letter has its decision already: %w", d.ID, err)
		}
		return nil, err
	}
	return good, t.beginReplays(ctx, good)
}

func wantRows(n int64, want int) error {
	if n == int64(want) {
		return nil
	}
	return fmt.Errorf("%d of %d locked letters were changed", n, want)
}

// lockReplays locks runs and then instances of what is to be replayed, in the
// order that Clear has.
func (t *tx) lockReplays(ctx context.Context, verdicts []dag.ReplayVerdict) error {
	if t.s.db.IsSQLite() {
		return nil // the transaction holds the one write lock
	}
	var runs []int64
	for i := range verdicts {
		if verdicts[i].Decision == dag.DecisionReplayed {
			runs = append(runs, verdicts[i].Case.RunID)
		}
	}
	if len(runs) == 0 {
		return nil
	}
	slices.Sort(runs)
	runs = slices.Compact(runs)
	var locked []int64
	return t.SelectContext(ctx, &locked, "SELECT id FROM dag_run WHERE id IN ("+idList(runs)+") ORDER BY id FOR UPDATE")
}

// stillFit locks letters and instances, and gives the verdicts on those that are
// as they were when the verdict was made.
func (t *tx) stillFit(ctx context.Context, verdicts []dag.ReplayVerdict) ([]dag.ReplayVerdict, error) {
	var letterIDs, instanceIDs []int64
	for i := range verdicts {
		letterIDs = append(letterIDs, verdicts[i].Case.Letter.ID)
		if verdicts[i].Decision == dag.DecisionReplayed {
			instanceIDs = append(instanceIDs, verdicts[i].Case.TaskInstanceID)
		}
	}
	slices.Sort(instanceIDs)
	type now struct {
		ID      int64  `db:"id"`
		Status  string `db:"status"`
		Fence   int64  `db:"fence"`
		Hash    string `db:"original_payload_hash"`
		Returns int    `db:"return_count"`
	}
	var instances []now
	if len(instanceIDs) > 0 {
		in, args := t.s.among(instanceIDs)
		if err := t.SelectContext(ctx, &instances, "SELECT id, state AS status, fence FROM task_instance WHERE id IN "+in+" ORDER BY id"+
			t.s.db.ForUpdate(), args...); err != nil {
			return nil, err
		}
	}
	var letters []now
	in, args := t.s.among(letterIDs)
	if err := t.SelectContext(ctx, &letters, "SELECT id, status, fence, original_payload_hash, return_count FROM dead_letter WHERE id IN "+in+" ORDER BY id"+
		t.s.db.ForUpdate(), args...); err != nil {
		return nil, err
	}
	is := make(map[int64]now, len(letters)+len(instances))
	for _, l := range letters {
		is[l.ID] = l
	}
	ti := make(map[int64]now, len(instances))
	for _, i := range instances {
		ti[i.ID] = i
	}
	var good []dag.ReplayVerdict
	for i := range verdicts {
		c := &verdicts[i].Case
		l := is[c.Letter.ID]
		if l.Status != string(c.Letter.Status) || l.Fence != c.Fence || l.Hash != c.Letter.OriginalPayloadHash || l.Returns != c.Letter.ReturnCount {
			continue
		}
		if n := ti[c.TaskInstanceID]; verdicts[i].Decision == dag.DecisionReplayed && (n.Status != string(c.Instance.State) || n.Fence != c.Instance.Fence) {
			continue
		}
		good = append(good, verdicts[i])
	}
	return good, nil
}

// replayBegin are the assignments that give an instance its next generation:
// fresh budgets, the next fence, lower priority, and nothing of its last end.
const replayBegin = `state = 'none', fence = fence + 1, generation = generation + 1, replays = replays + 1, failure_count = 0, crash_count = 0,
 throttled_us = 0, replaying = 1, priority_weight = priority_weight - 1000000, claim_rank = claim_rank + 1000000, scheduled_at = NULL, queued_at = NULL,
 start_date = NULL, end_date = NULL, next_try_at = NULL, lease_until = NULL, first_failed_at = NULL, skip_tasks = NULL, updated_at = ?`

// beginReplays gives instances their next generation, and lets their runs go on:
// from here they take the way of every other instance. What waited for them in
// vain waits again, see waitAgain.
func (t *tx) beginReplays(ctx context.Context, verdicts []dag.ReplayVerdict) error {
	type alike struct { // what the instances of one UPDATE share
		retries  int
		version  int64
		operator string
	}
	groups := map[alike][]int64{}
	var runs []int64
	replayed := map[int64][]string{}
	for i := range verdicts {
		if verdicts[i].Decision != dag.DecisionReplayed {
			continue
		}
		c := &verdicts[i].Case
		def, err := t.s.version(ctx, t, c.Instance.VersionID)
		if err != nil && dag.CodeOf(err) != dag.ErrNotFound {
			return err
		}
		retries := max(0, c.Instance.MaxTries-c.Instance.TryNumber)
		if task := taskOf(def, c.Instance.TaskID); task != nil {
			retries = max(0, task.Retry.Retries)
		}
		k := alike{retries, c.Instance.VersionID, c.Instance.Operator}
		groups[k] = append(groups[k], c.TaskInstanceID)
		runs = append(runs, c.RunID)
		replayed[c.RunID] = append(replayed[c.RunID], c.Instance.TaskID)
		if c.Edited {
			if err := t.overlay(ctx, c.TaskInstanceID, c.PayloadEdit); err != nil {
				return err
			}
		}
	}
	if len(runs) == 0 {
		return nil
	}
	for k, ids := range groups {
		slices.Sort(ids)
		in, args := t.s.among(ids)
		n, err := t.exec(ctx, "UPDATE task_instance SET "+replayBegin+", max_tries = try_number + ?, dag_version_id = ?, operator = ? WHERE id IN "+in+
			" AND state = 'failed'", append([]any{t.at, k.retries, k.version, short(k.operator, 250)}, args...)...)
		if err == nil && n != int64(len(ids)) {
			err = fmt.Errorf("%d of %d failed instances became none", n, len(ids))
		}
		if err != nil {
			return err
		}
	}
	if err := t.waitAgain(ctx, replayed); err != nil {
		return err
	}
	slices.Sort(runs)
	runs = slices.Compact(runs)
	in, args := t.s.among(runs)
	ended, err := t.exec(ctx, `UPDATE dag_run SET state = 'queued', queued_at = ?, start_date = NULL, end_date = NULL, reason = '',
 clear_number = clear_number + 1, is_replay = 1, next_eval_at = ?, updated_at = ? WHERE id IN `+in+" AND state IN ('success', 'failed')",
		append([]any{t.at, t.at, t.at}, args...)...)
	if err != nil || ended == int64(len(runs)) {
		return err
	}
	return t.wakeRuns(ctx, runs)
}

// overlay changes an instance's own payload by what an edit of its letter gave:
// keys that are there get other values, null takes a key of a mapped instance
// away.
func (t *tx) overlay(ctx context.Context, id int64, edit json.RawMessage) error {
	var has *string
	if err := t.GetContext(ctx, &has, "SELECT payload FROM task_instance WHERE id = ?", id); err != nil {
		return err
	}
	payload, changes := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if has != nil && json.Unmarshal([]byte(*has), &payload) != nil {
		payload = map[string]json.RawMessage{}
	}
	if err := json.Unmarshal(edit, &changes); err != nil {
		return fmt.Errorf("the edit of the payload cannot be read: %w", err)
	}
	for k, v := range changes {
		if payload[k] = v; string(v) == "null" && has != nil {
			delete(payload, k)
		}
	}
	text, err := json.Marshal(payload)
	if err != nil {
		return err
	}
	_, err = t.exec(ctx, "UPDATE task_instance SET payload = ? WHERE id = ?", string(text), id)
	return err
}
