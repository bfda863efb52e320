package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// settled is one result on its way into the tables.
type settled struct {
	at     int // its place in the caller's slice
	result *dag.Result
	row    *instanceRow
}

// Apply writes many results in one commit: the instances' states, attempts,
// letters, XComs and events. A result whose lease was taken over, or whose
// instance was cleared, writes nothing and does not disturb the others.
// Applying the same result again is answered as applied and changes nothing, so
// that a lost answer to a COMMIT may be settled by asking again.
//
// When the database refuses the data of some result (a value larger than its
// max_allowed_packet), the results are applied one by one and that one is
// answered dag.Refused.
func (s *Store) Apply(ctx context.Context, results []dag.Result) ([]dag.ApplyStatus, error) {
	for i := range results {
		if err := s.checkResult(&results[i]); err != nil {
			return nil, err
		}
	}
	status, err := s.apply(ctx, results)
	if err == nil || dialect.ClassOf(err) != dialect.ClassData {
		return status, err
	}
	if len(results) == 1 {
		s.log.ErrorContext(ctx, "the database refuses a result", "task_instance_id", results[0].TaskInstanceID, "error", err)
		return []dag.ApplyStatus{dag.Refused}, nil
	}
	status = nil
	for i := range results {
		one, err := s.Apply(ctx, results[i:i+1])
		if err != nil {
			return nil, err
		}
		status = append(status, one...)
	}
	return status, nil
}

// checkResult refuses what no right caller makes.
func (s *Store) checkResult(r *dag.Result) error {
	fail := func(format string, args ...any) error {
		return &dag.Error{
			Code: dag.ErrInvalid, Op: fmt.Sprintf("result of task instance %d", r.TaskInstanceID), Err: fmt.Errorf(format, args...),
		}
	}
	if !s.allowed[change{dag.StateRunning, r.State}] || r.State == dag.StateRestarting {
		return fail("an attempt cannot end in state %q", r.State)
	}
	if (r.State == dag.StateFailed) != (r.Letter != nil) {
		return fail("state %s, letter given: %t; a letter belongs to failed and to nothing else", r.State, r.Letter != nil)
	}
	return nil
}

func (s *Store) apply(ctx context.Context, results []dag.Result) ([]dag.ApplyStatus, error) {
	var status []dag.ApplyStatus
	run := func() error {
		return s.write(ctx, "apply results", func(ctx context.Context, t *tx) error {
			var err error
			status, err = t.apply(ctx, results)
			return err
		})
	}
	// Once more tells: what was applied is recognised by its attempt.
	if err := againIfLost(run); err != nil {
		return nil, err
	}
	return status, nil
}

func (t *tx) apply(ctx context.Context, results []dag.Result) ([]dag.ApplyStatus, error) {
	status, good, err := t.applyOnly(ctx, results)
	if err != nil || len(good) == 0 {
		return status, err
	}
	return status, t.wakeRuns(ctx, runsOf(good))
}

// runsOf lists the runs of some results, by id.
func runsOf(good []settled) []int64 {
	runs := make([]int64, len(good))
	for i, g := range good {
		runs[i] = g.row.DagRunID
	}
	slices.Sort(runs)
	return slices.Compact(runs)
}

// applyOnly is apply without waking the runs of what it wrote, which the caller
// does, or decides about them in the same transaction.
func (t *tx) applyOnly(ctx context.Context, results []dag.Result) ([]dag.ApplyStatus, []settled, error) {
	status := make([]dag.ApplyStatus, len(results))
	if len(results) == 0 {
		return status, nil, nil
	}
	var rows map[int64]*instanceRow
	if t.trusts {
		rows = t.s.held.of(results)
	}
	looked := rows == nil
	t.relied = !looked
	if looked {
		var err error
		if rows, err = t.lockInstances(ctx, results); err != nil {
			return status, nil, err
		}
	}
	var good, stale []settled
	seen := map[int64]bool{}
	for i := range results {
		r := &results[i]
		row := rows[r.TaskInstanceID]
		switch {
		case row != nil && !seen[row.ID] && t.mayApply(r, row):
			status[i] = dag.Applied
			seen[row.ID] = true
			good = append(good, settled{i, r, row})
		default:
			status[i] = dag.StaleFence
			stale = append(stale, settled{i, r, row})
		}
	}
	if err := t.settleStale(ctx, stale, status); err != nil {
		return nil, nil, err
	}
	if len(good) == 0 {
		return status, nil, nil
	}
	slices.SortFunc(good, func(a, b settled) int { return int(a.row.ID - b.row.ID) })
	t.done = good
	return status, good, t.writeResults(ctx, good, looked)
}

// lockInstances locks the instances of results by primary key, in its order.
func (t *tx) lockInstances(ctx context.Context, results []dag.Result) (map[int64]*instanceRow, error) {
	ids := make([]int64, len(results))
	for i := range results {
		ids[i] = results[i].TaskInstanceID
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	out := make(map[int64]*instanceRow, len(ids))
	for part := range slices.Chunk(ids, chunk) {
		in, args := t.s.among(part)
		rows, err := instances(ctx, t, resultColumns, "task_instance", " WHERE id IN "+in+" ORDER BY id"+t.s.db.ForUpdate(), args...)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			out[rows[i].ID] = &rows[i]
		}
	}
	return out, nil
}

// reaperMemory is how old the reaper's look at a lease may be. One that waited
// longer for its transaction (the file was locked, the server hung) held up the
// renewals as well: it has to look again.
const reaperMemory = 2 * time.Second

// mayApply is the guard: the instance runs under the result's fence, and for
// the reaper its lease has ended and it has seen that just now.
func (t *tx) mayApply(r *dag.Result, row *instanceRow) bool {
	if row.State != string(dag.StateRunning) || row.Fence != r.Fence {
		return false
	}
	if !r.Reaped {
		return true
	}
	return t.now.Sub(r.Attempt.EndDate) <= reaperMemory && (!row.LeaseUntil.Valid || row.LeaseUntil.Time.Before(t.now))
}

// settleStale looks at results that do not fit. One that was applied before is
// recognised by its attempt. One whose instance was cleared while it ran says
// that the attempt has stopped: the instance may run again.
func (t *tx) settleStale(ctx context.Context, stale []settled, status []dag.ApplyStatus) error {
	var ids []int64
	var cleared []instanceRow
	for _, g := range stale {
		if g.row == nil {
			continue
		}
		ids = append(ids, g.row.ID)
		if g.row.State == string(dag.StateRestarting) && g.row.Fence == g.result.Fence+1 {
			cleared = append(cleared, *g.row)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	if err := t.restart(ctx, cleared); err != nil {
		return err
	}
	slices.Sort(ids)
	var kept []struct {
		ID       int64        `db:"task_instance_id"`
		Fence    int64        `db:"fence"`
		State    string       `db:"state"`
		WorkerID string       `db:"worker_id"`
		EndDate  dialect.Time `db:"end_date"`
	}
	if err := t.SelectContext(ctx, &kept, "SELECT task_instance_id, fence, state, worker_id, end_date FROM task_attempt WHERE task_instance_id IN ("+
		idList(slices.Compact(ids))+")"); err != nil {
		return err
	}
	for _, g := range stale {
		for _, k := range kept {
			r := g.result
			if g.row != nil && k.ID == r.TaskInstanceID && k.Fence == r.Fence && k.State == string(r.State) &&
				k.WorkerID == short(r.Attempt.WorkerID, 250) && k.EndDate.Time.Equal(r.Attempt.EndDate.UTC().Truncate(time.Microsecond)) {
				status[g.at] = dag.Applied
			}
		}
	}
	return nil
}

// writeResults writes results that hold their fence. Rows that were looked at are
// locked; else they are as they were when they were claimed, and the guard tells
// whether that is so still.
func (t *tx) writeResults(ctx context.Context, good []settled, looked bool) error {
	ids := make([]int64, len(good))
	for i, g := range good {
		ids[i] = g.row.ID
	}
	b := newBulk("task_instance", ids)
	var attempts []dag.Attempt
	var letters, again []letterInsert
	var closed []int64 // instances whose replay ended well
	slow := map[int64]time.Time{}
	var events []dag.Event
	var values []xcomInsert
	for i, g := range good {
		attempt := t.completeAttempt(g.result, g.row)
		t.setInstance(b, i, g.result, g.row, attempt.EndDate)
		if keepsAttempt(g.result.State) {
			attempts = append(attempts, attempt)
		}
		switch {
		case g.result.Letter != nil && g.row.Replaying:
			again = append(again, t.completeLetter(*g.result.Letter, g.row, g.result.Fence))
		case g.result.Letter != nil:
			letters = append(letters, t.completeLetter(*g.result.Letter, g.row, g.result.Fence))
		case g.row.Replaying && g.result.State.Finished():
			closed = append(closed, g.row.ID)
		case g.row.Replaying && g.result.Spent == dag.BudgetThrottling && g.result.NextTryAt != nil:
			slow[g.row.ID] = *g.result.NextTryAt
		}
		events = append(events, g.result.Events...)
		for key, value := range g.result.XComs {
			values = append(values, xcomInsert{g.row, key, value})
		}
	}
	if !looked {
		if err := t.writeHeld(ctx, b, good); err != nil {
			return err
		}
	}
	// The letter comes first: without it the state does not change.
	for _, step := range []func() error{
		func() error {
			fresh, err := t.resealAll(ctx, again)
			letters = append(letters, fresh...)
			return err
		},
		func() error { return t.insertLetters(ctx, letters) },
		func() error { return t.closeReplays(ctx, closed) },
		func() error { return t.slowDrains(ctx, slow) },
		func() error { return t.insertAttempts(ctx, attempts) },
		func() error { return t.insertXComs(ctx, values) },
		func() error { return t.insertEvents(ctx, events) },
		func() error { return t.countInputs(ctx, good) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if !looked {
		return nil
	}
	return b.must(ctx, t, errors.New("a locked instance was not there any more"))
}

// writeHeld writes the states of results whose rows nobody looked at. It comes
// first: it locks them. None of them has a letter.
func (t *tx) writeHeld(ctx context.Context, b *bulk, good []settled) error {
	fences := make([]any, len(good))
	for i, g := range good {
		fences[i] = g.result.Fence
	}
	b.guard = &rowGuard{only: "state = 'running'", column: "fence", seen: fences}
	return b.must(ctx, t, errOtherwise)
}

// keepsAttempt tells whether the end in this state is the end of an attempt. A
// sensor that is rescheduled goes on with it, and one that was handed back
// never began.
func keepsAttempt(s dag.State) bool {
	return s != dag.StateQueued && s != dag.StateUpForReschedule && s != dag.StateNone
}

// completeAttempt fills in what the executor left out.
func (t *tx) completeAttempt(r *dag.Result, row *instanceRow) dag.Attempt {
	a := r.Attempt
	a.TaskInstanceID, a.Fence, a.TryNumber, a.State = row.ID, r.Fence, row.TryNumber, r.State
	if a.DelayCeiling == 0 && a.Delay == 0 {
		a.DelayCeiling, a.Delay = r.DelayCeiling, r.Delay
	}
	if a.WorkerID == "" {
		a.WorkerID = row.WorkerID
	}
	if a.Hostname == "" {
		a.Hostname = row.Hostname
	}
	if a.EndDate.IsZero() {
		a.EndDate = t.now
	}
	if a.StartDate.IsZero() {
		a.StartDate = a.EndDate
		if row.StartDate.Valid {
			a.StartDate = row.StartDate.Time
		}
	}
	return a
}

// setInstance puts the instance's new values into b.
func (t *tx) setInstance(b *bulk, i int, r *dag.Result, row *instanceRow, end time.Time) {
	b.set(i, "state", string(r.State))
	b.set(i, "lease_until", nil)
	b.set(i, "updated_at", t.at)
	b.set(i, "next_try_at", dialect.StampPtr(r.NextTryAt))
	switch r.State {
	case dag.StateQueued:
		b.set(i, "start_date", nil)
	case dag.StateUpForReschedule: // the attempt goes on: it has no end yet
	default:
		b.set(i, "end_date", dialect.Stamp(end))
	}
	if row.Replaying && r.State.Finished() {
		endReplay(b, i, row)
	}
	if r.Reaped {
		// The worker may still be there: its fence is taken away from it.
		b.set(i, "fence", row.Fence+1)
	}
	if !r.SpendTry {
		b.set(i, "try_number", max(0, row.TryNumber-1))
	}
	switch r.Spent {
	case dag.BudgetFailures:
		b.set(i, "failure_count", row.FailureCount+1)
	case dag.BudgetCrashes:
		b.set(i, "crash_count", row.CrashCount+1)
	default:
	}
	if r.ThrottledFor > 0 {
		b.set(i, "throttled_us", row.ThrottledUS+r.ThrottledFor.Microseconds())
	}
	if len(r.SkipTasks) > 0 {
		b.set(i, "skip_tasks", listText(r.SkipTasks))
	}
	if !row.FirstFailedAt.Valid && (r.State == dag.StateFailed || r.State == dag.StateUpForRetry) {
		b.set(i, "first_failed_at", dialect.Stamp(end))
	}
}
