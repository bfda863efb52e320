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

// Claim takes up to p.N queued instances, the most urgent first and within a
// priority those whose turn it is: each becomes
// running under a new fence and a lease, and counts a try. Two claimers never
// get the same instance: rows are locked as they are found, and rows that
// others hold are passed over.
func (s *Store) Claim(ctx context.Context, p dag.ClaimParams) ([]dag.Claim, error) {
	if p.N <= 0 {
		return nil, nil
	}
	if s.idle.claims.Load() {
		if found, err := s.finds(ctx, "SELECT id FROM task_instance WHERE state = 'queued' LIMIT 1"); err != nil || !found {
			return nil, s.explain("claim", err)
		}
	}
	var out []dag.Claim
	err := s.write(ctx, "claim", func(ctx context.Context, t *tx) error {
		var err error
		out, err = t.claim(ctx, p, map[int64]dag.Run{})
		return err
	})
	s.idle.claims.Store(err == nil && len(out) == 0)
	if dialect.LostCommit(err) {
		// What was claimed without our knowing would run nowhere until its lease
		// ends, and then count as a crash: ask.
		lost := err
		if out, err = s.claimed(ctx, out); err != nil {
			err = errors.Join(lost, err)
		}
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// claimOrder is the order of k_claim.
const claimOrder = " ORDER BY claim_rank, turn, id"

// claim is Claim inside a transaction; known are runs that it has read already.
func (t *tx) claim(ctx context.Context, p dag.ClaimParams, known map[int64]dag.Run) ([]dag.Claim, error) {
	var c condition
	c.add("state = 'queued'")
	c.in("queue", anys(p.Queues))
	if p.OnlyRun != 0 {
		c.add("dag_run_id = ?", p.OnlyRun)
	}
	rows, err := instances(ctx, t, queuedColumns, "task_instance"+t.force("k_claim"), c.where()+
		claimOrder+" LIMIT ?"+t.s.db.SkipLocked(), append(c.args, p.N)...)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	if err := t.begin(ctx, rows, p); err != nil {
		return nil, err
	}
	return t.s.claims(ctx, t, rows, known)
}

// claimed keeps those of the claims that the database has: the fence alone does
// not tell, for another worker may have got the same number. The locking read
// waits for a transaction that the server has not finished yet.
func (s *Store) claimed(ctx context.Context, list []dag.Claim) ([]dag.Claim, error) {
	var out []dag.Claim
	err := s.write(ctx, "claim", func(ctx context.Context, t *tx) error {
		out = nil
		for _, c := range list {
			var mine []int64
			if err := t.SelectContext(ctx, &mine, `SELECT id FROM task_instance WHERE id = ? AND fence = ? AND state = 'running' AND worker_id = ?
 AND lease_until = ?`+s.db.ForUpdate(), c.ID, c.Fence, c.WorkerID, dialect.StampPtr(c.LeaseUntil)); err != nil {
				return err
			}
			if len(mine) > 0 {
				out = append(out, c)
			}
		}
		return nil
	})
	return out, err
}

// Held lists the running instances that a worker holds. The locking read waits
// for a claim whose COMMIT the server has not finished.
func (s *Store) Held(ctx context.Context, workerID string) ([]dag.Claim, error) {
	var out []dag.Claim
	err := s.write(ctx, "list what a worker holds", func(ctx context.Context, t *tx) error {
		out = nil
		rows, err := instances(ctx, t, claimColumns, "task_instance"+t.force("k_claim"),
			" WHERE state = 'running' AND worker_id = ? ORDER BY id"+s.db.ForUpdate(), short(workerID, 250))
		if err != nil || len(rows) == 0 {
			return err
		}
		out, err = s.claims(ctx, t, rows, map[int64]dag.Run{})
		return err
	})
	return out, err
}

// begin makes locked rows running, in the table and in the slice.
func (t *tx) begin(ctx context.Context, rows []instanceRow, p dag.ClaimParams) error {
	ids := make([]int64, len(rows))
	var stale []instanceRow
	for i := range rows {
		r := &rows[i]
		ids[i] = r.ID
		// A sensor that comes back after a reschedule goes on with its attempt: it
		// keeps its start. Else what an earlier attempt left is removed.
		goesOn := r.StartDate.Valid && !r.EndDate.Valid
		if !goesOn {
			r.StartDate = dialect.At(t.now)
			if r.Fence > 0 {
				stale = append(stale, *r)
			}
		}
		r.State, r.Fence, r.TryNumber = string(dag.StateRunning), r.Fence+1, r.TryNumber+1
		r.WorkerID, r.Hostname = short(p.WorkerID, 250), short(p.Hostname, 250)
		r.EndDate, r.NextTryAt = dialect.Time{}, dialect.Time{}
		r.LeaseUntil, r.UpdatedAt = dialect.At(t.now.Add(p.Lease)), dialect.At(t.now)
	}
	slices.Sort(ids)
	in, args := t.s.among(ids)
	err := t.laterMatching(ctx, len(rows), errors.New("a locked instance was not queued any more"), "UPDATE task_instance"+t.force("PRIMARY")+` SET state = 'running', fence = fence + 1, try_number = try_number + 1,
 start_date = CASE WHEN end_date IS NULL THEN COALESCE(start_date, ?) ELSE ? END, end_date = NULL, next_try_at = NULL,
 worker_id = ?, hostname = ?, lease_until = ?, updated_at = ? WHERE id IN `+in+" AND state = 'queued'",
		append([]any{t.at, t.at, rows[0].WorkerID, rows[0].Hostname, dialect.Stamp(t.now.Add(p.Lease)), t.at}, args...)...)
	if err != nil {
		return err
	}
	t.began = append(t.began, rows...)
	return t.deleteXComs(ctx, stale)
}

// claims puts rows and their runs together; byID has those runs that are known.
// One that is as this process remembers it is not read.
func (s *Store) claims(ctx context.Context, q queryer, rows []instanceRow, byID map[int64]dag.Run) ([]dag.Claim, error) {
	var ids []int64
	for i := range rows {
		id := rows[i].DagRunID
		if _, known := byID[id]; known {
			continue
		}
		if run, known := s.memory.run(id, rows[i].RunUpdated); known {
			byID[id] = run
		} else {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) > 0 {
		var runs []runRow
		in, args := s.among(ids)
		if err := q.SelectContext(ctx, &runs, "SELECT "+runColumns+" FROM dag_run WHERE id IN "+in, args...); err != nil {
			return nil, err
		}
		for _, r := range runs {
			byID[r.ID] = r.model()
		}
	}
	out := make([]dag.Claim, len(rows))
	for i := range rows {
		out[i] = dag.Claim{TaskInstance: rows[i].model(), Run: byID[rows[i].DagRunID]}
	}
	return out, nil
}

// Renew extends leases and lists those that are not held any more. A lease that
// has ended but that nobody took over is held again.
func (s *Store) Renew(ctx context.Context, leases []dag.Lease, lease time.Duration) ([]dag.Lease, error) {
	var lost []dag.Lease
	err := s.write(ctx, "renew leases", func(ctx context.Context, t *tx) error {
		lost = nil
		sorted := slices.Clone(leases)
		slices.SortFunc(sorted, func(a, b dag.Lease) int { return int(a.TaskInstanceID - b.TaskInstanceID) })
		for part := range slices.Chunk(sorted, chunk) {
			held, err := t.held(ctx, part)
			if err != nil {
				return err
			}
			var ids []int64
			for _, l := range part {
				if held[l] {
					ids = append(ids, l.TaskInstanceID)
				} else {
					lost = append(lost, l)
				}
			}
			if len(ids) == 0 {
				continue
			}
			in, args := s.among(ids)
			if _, err := t.exec(ctx, "UPDATE task_instance"+t.force("PRIMARY")+" SET lease_until = ? WHERE id IN "+in+" AND state = 'running'",
				append([]any{dialect.Stamp(t.now.Add(lease))}, args...)...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return lost, nil
}

// held locks the instances of leases, in the order of their ids, and tells which
// leases are good.
func (t *tx) held(ctx context.Context, leases []dag.Lease) (map[dag.Lease]bool, error) {
	return t.s.heldBy(ctx, t, leases, t.s.db.ForUpdate())
}

func (s *Store) heldBy(ctx context.Context, q queryer, leases []dag.Lease, lock string) (map[dag.Lease]bool, error) {
	ids := make([]int64, len(leases))
	for i, l := range leases {
		ids[i] = l.TaskInstanceID
	}
	var rows []struct {
		ID    int64 `db:"id"`
		Fence int64 `db:"fence"`
	}
	in, args := s.among(ids)
	err := q.SelectContext(ctx, &rows, "SELECT id, fence FROM task_instance"+s.force("PRIMARY")+" WHERE id IN "+in+" AND state = 'running' ORDER BY id"+lock, args...)
	if err != nil {
		return nil, err
	}
	out := make(map[dag.Lease]bool, len(rows))
	for _, r := range rows {
		out[dag.Lease{TaskInstanceID: r.ID, Fence: r.Fence}] = true
	}
	return out, nil
}

// LostLeases lists those that are not held any more, by a plain read. On a
// server that lags behind it may name one too many; Renew knows.
func (s *Store) LostLeases(ctx context.Context, leases []dag.Lease) ([]dag.Lease, error) {
	var lost []dag.Lease
	for part := range slices.Chunk(leases, chunk) {
		held, err := s.heldBy(ctx, s.db.Reader(), part, "")
		if err != nil {
			return nil, fmt.Errorf("ask for leases: %w", err)
		}
		for _, l := range part {
			if !held[l] {
				lost = append(lost, l)
			}
		}
	}
	return lost, nil
}

// StillMine tells whether the lease is held at this instant: nobody took it
// over, and it has not ended.
func (s *Store) StillMine(ctx context.Context, l dag.Lease) (bool, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return false, err
	}
	var n int
	// The writing pool: on SQLite the same connection that a take-over uses.
	err = s.db.Writer().GetContext(ctx, &n, "SELECT COUNT(*) FROM task_instance WHERE id = ? AND fence = ? AND state = 'running' AND lease_until >= ?",
		l.TaskInstanceID, l.Fence, dialect.Stamp(now))
	if err != nil {
		return false, fmt.Errorf("ask for a lease: %w", err)
	}
	return n == 1, nil
}

// Expired lists running instances whose lease has ended. They are found without
// locks; who applies a result to one is guarded by fence and lease.
func (s *Store) Expired(ctx context.Context, n int) ([]dag.Claim, error) {
	if err := s.settleRestarting(ctx); err != nil {
		return nil, err
	}
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	var rows []instanceRow
	err = s.db.Reader().SelectContext(ctx, &rows, "SELECT "+instanceColumns+`, payload FROM task_instance
 WHERE state = 'running' AND lease_until < ? ORDER BY id`+limit(n, 100), dialect.Stamp(now))
	if err == nil {
		var out []dag.Claim
		if out, err = s.claims(ctx, s.db.Reader(), rows, map[int64]dag.Run{}); err == nil {
			return out, nil
		}
	}
	return nil, fmt.Errorf("list ended leases: %w", err)
}

// settleRestarting sets cleared instances back whose worker did not come to say
// that the attempt has stopped.
func (s *Store) settleRestarting(ctx context.Context) error {
	if found, err := s.finds(ctx, "SELECT id FROM task_instance WHERE state = 'restarting' LIMIT 1"); err != nil || !found {
		return s.explain("list cleared instances", err)
	}
	return s.write(ctx, "set cleared instances back", func(ctx context.Context, t *tx) error {
		var rows []instanceRow
		if err := t.SelectContext(ctx, &rows, "SELECT "+instanceColumns+` FROM task_instance
 WHERE state = 'restarting' AND (lease_until IS NULL OR lease_until < ?) ORDER BY id`+limit(chunk, chunk), t.at); err != nil {
			return err
		}
		return t.restart(ctx, rows)
	})
}

// restart sets instances from restarting to none and wakes their runs.
func (t *tx) restart(ctx context.Context, rows []instanceRow) error {
	if len(rows) == 0 {
		return nil
	}
	var ids, runs []int64
	for i := range rows {
		ids = append(ids, rows[i].ID)
		runs = append(runs, rows[i].DagRunID)
	}
	slices.Sort(ids)
	slices.Sort(runs)
	if _, err := t.exec(ctx, `UPDATE task_instance SET state = 'none', lease_until = NULL, start_date = NULL, end_date = NULL, updated_at = ?
 WHERE id IN (`+idList(ids)+") AND state = 'restarting'", t.at); err != nil {
		return err
	}
	return t.wakeRuns(ctx, slices.Compact(runs))
}

// deleteXComs removes what earlier attempts of instances left.
func (t *tx) deleteXComs(ctx context.Context, rows []instanceRow) error {
	for part := range slices.Chunk(rows, chunk) {
		var q strings.Builder
		var args []any
		for i := range part {
			if i > 0 {
				q.WriteString(" OR ")
			}
			// Not (a, b, c) IN (..): with one tuple MariaDB would not use the key.
			q.WriteString("(dag_run_id = ? AND task_id = ? AND map_index = ?)")
			args = append(args, part[i].DagRunID, part[i].TaskID, part[i].MapIndex)
		}
		if err := t.later(ctx, nil, "DELETE FROM xcom WHERE "+q.String(), args...); err != nil {
			return err
		}
	}
	return nil
}
