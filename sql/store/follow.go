package store

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/airlock-dag/airlock/dag"
)

// follow decides, in the transaction that writes results, what follows from
// them in their runs, and queues it. Runs whose decision takes more than that
// (mapped tasks to expand, a look at an earlier run, a run that timed out, a
// paused DAG) are woken for an ordinary pass. It gives the runs that it decided
// about: when the transaction is committed they may be remembered.
func (t *tx) follow(ctx context.Context, good []settled, decide Decide, onlyRun int64) (dag.ScheduleReport, []*passRun, error) {
	report := dag.ScheduleReport{Now: t.now}
	ids := runsOf(good)
	t.ended = good
	runs, err := t.runsBehind(ctx, ids, good)
	if err != nil {
		return report, nil, err
	}
	var ready []candidate
	followed := make([]*passRun, 0, len(runs))
	for _, r := range runs {
		if r.def == nil || !r.recalled && looksBack(r.def) {
			continue
		}
		if list := t.decideRun(r, decide); r.followable() {
			ready = append(ready, list...)
			followed = append(followed, r)
		}
	}
	left := slices.DeleteFunc(ids, func(id int64) bool {
		return slices.ContainsFunc(followed, func(r *passRun) bool { return r.run.ID == id })
	})
	if err := t.wakeRuns(ctx, left); err != nil {
		return report, nil, err
	}
	if err := t.applyDecisions(ctx, followed, onlyRun != 0); err != nil {
		return report, nil, err
	}
	// What waits for a slot may get one also where nothing became ready.
	if report.Queued, report.NeverFit, err = t.queue(ctx, followed, ready, onlyRun); err != nil {
		return report, nil, err
	}
	report.Left = t.woke || t.room
	for _, r := range followed {
		report.Runs = append(report.Runs, dag.ScheduledRun{Run: r.run, Decision: r.decision})
		report.Left = report.Left || r.raced || r.written.next != nil
	}
	return report, followed, nil
}

// followable tells whether a decision is one that the end of a task may bring
// about by itself.
func (r *passRun) followable() bool {
	d := &r.decision
	return r.err == nil && len(d.Expand) == 0 && len(d.ExpandGroups) == 0 && d.Reason != dag.ReasonTimedOut
}

// runsBehind are the runs of results, with what decisions about them look at.
// Where this process remembers all of them, none is read or locked: the guard of
// what is written to them tells whether they are so still.
func (t *tx) runsBehind(ctx context.Context, ids []int64, good []settled) ([]*passRun, error) {
	var known []*remembered
	if t.trusts {
		known = t.s.memory.takeAll(ids)
	}
	if known == nil {
		t.relied = false
		runs, err := t.lockRunning(ctx, ids)
		if err != nil {
			return nil, err
		}
		return runs, t.recallRuns(ctx, runs, good)
	}
	runs := make([]*passRun, len(known))
	byID := make(map[int64]*passRun, len(known))
	for i, m := range known {
		def, err := t.s.version(ctx, t, m.run.VersionID)
		if err != nil {
			return nil, errors.Join(errOtherwise, err)
		}
		runs[i] = &passRun{run: m.run, seen: m.stamp, log: m.log, def: def, held: m.held, index: m.index, kept: m.kept, recalled: true, unseen: true}
		byID[m.run.ID] = runs[i]
		if len(m.held) >= keepsFrom {
			t.believed = append(t.believed, m.run.ID)
		}
	}
	for _, g := range good {
		byID[g.row.DagRunID].change(g.row.ID, g.result)
	}
	return runs, nil
}

// lockRunning locks those of some runs that run, of DAGs that are not paused.
func (t *tx) lockRunning(ctx context.Context, ids []int64) ([]*passRun, error) {
	var rows []passRow
	in, args := t.s.among(ids)
	err := t.SelectContext(ctx, &rows, "SELECT "+passColumns+" FROM dag_run"+t.force("PRIMARY")+" WHERE id IN "+in+" AND state = 'running' AND "+notPaused+
		" ORDER BY id"+t.s.db.ForUpdate(), args...)
	return passRuns(rows), err
}

// recallRuns fills in what the decisions look at: from memory, with what others
// and the results of this transaction have changed, where that is known, else from
// the tables.
func (t *tx) recallRuns(ctx context.Context, runs []*passRun, good []settled) error {
	var unknown []*passRun
	known, behind := map[int64]*passRun{}, map[int64]*passRun{}
	for _, r := range runs {
		m := t.s.memory.take(r.run.ID)
		r.shared = r.log.endsAt(r.seen)
		if m == nil || r.wait || t.s.cluster {
			unknown = append(unknown, r)
			continue
		}
		still := m.stamp.equal(r.seen)
		r.shared = r.shared || m.shared || !still && len(m.held) >= keepsFrom
		var changed []int64
		if !still {
			var found bool
			if changed, found = r.log.since(m.stamp, r.seen); !found || len(changed) > len(m.held)/2 {
				unknown = append(unknown, r)
				continue
			}
		}
		var err error
		if r.def, err = t.s.version(ctx, t, r.run.VersionID); err != nil || t.overdue(r) {
			unknown = append(unknown, r)
			continue
		}
		r.held, r.index, r.kept, r.recalled = m.held, m.index, m.kept, true
		known[r.run.ID] = r
		for _, id := range changed {
			behind[id] = r
		}
	}
	lost, err := t.catchUp(ctx, behind)
	if err != nil {
		return err
	}
	for _, r := range lost {
		r.held, r.index, r.kept, r.recalled = nil, nil, nil, false
		delete(known, r.run.ID)
		unknown = append(unknown, r)
	}
	for _, g := range good {
		if r := known[g.row.DagRunID]; r != nil {
			r.change(g.row.ID, g.result)
		}
	}
	return t.loadRuns(ctx, unknown)
}

// catchUp reads instances that others have changed, by id, into what is remembered
// of their runs. It gives those runs of which it is not known after all what has
// changed.
func (t *tx) catchUp(ctx context.Context, behind map[int64]*passRun) (lost []*passRun, err error) {
	for part := range slices.Chunk(slices.Sorted(maps.Keys(behind)), chunk) {
		in, args := t.s.among(part)
		if err := eachInstance(ctx, t, scheduleColumns, "task_instance"+t.force("PRIMARY"), " WHERE id IN "+in, args, func(row *instanceRow) {
			r := behind[row.ID]
			ti := r.changing(row.ID)
			if ti == nil || row.DagRunID != r.run.ID || row.TaskID != ti.TaskID || row.MapIndex != ti.MapIndex {
				return
			}
			row.DagID, row.RunID = r.run.DagID, r.run.RunID
			r.fleeting = r.fleeting || row.Replaying
			*ti = row.model()
			delete(behind, row.ID)
		}); err != nil {
			return nil, err
		}
	}
	for _, r := range behind { // not an instance that it had
		if !slices.Contains(lost, r) {
			lost = append(lost, r)
		}
	}
	return lost, nil
}

// overdue tells whether a run is over its limit of time: what ends then has to be
// known as it is, to who claimed it.
func (t *tx) overdue(r *passRun) bool {
	limit := r.def.DagrunTimeout
	return limit > 0 && r.run.StartDate != nil && !r.run.StartDate.Add(limit).After(t.now)
}

// change brings what is remembered of an instance up to a result.
func (r *passRun) change(id int64, result *dag.Result) {
	ti := r.changing(id)
	if ti == nil {
		return
	}
	ti.State, ti.NextTryAt = result.State, result.NextTryAt
	if len(result.SkipTasks) > 0 {
		ti.SkipTasks = result.SkipTasks
	}
}

// remember keeps runs as a committed transaction left them. What is replayed is
// not kept: its instances change in more than their state.
func (s *Store) remember(runs []*passRun) {
	for _, r := range runs {
		if !r.shared && !s.follows.Load() || r.wait || r.raced || r.fleeting || r.def == nil || !r.followable() || r.run.State.Finished() || !r.recalled && looksBack(r.def) {
			continue
		}
		for _, tr := range r.decision.Transitions {
			ti := r.changing(tr.TaskInstanceID)
			if ti == nil {
				continue
			}
			if ti.State = tr.To; isReady(tr) {
				ti.State = dag.StateQueued // or scheduled: a decision makes no difference
			} else if tr.To.Finished() {
				ti.NextTryAt = nil
			}
		}
		s.memory.put(r.run.ID, &remembered{stamp: r.written, log: r.log, run: r.run, held: r.held, index: r.index, kept: r.kept, shared: r.shared})
	}
}
