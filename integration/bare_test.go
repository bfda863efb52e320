package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/store"
)

// bare is the yardstick of the engine's benchmarks: SQL written by hand for
// exactly one shape of runs, with the same guarantees. It works on Airlock's own
// tables with their indexes and checks, writes the same rows (the run and its
// instances; queued, running with a fence and a lease, and the end of each
// instance; an attempt; the run's start and end) and commits as often as those
// guarantees ask for: a task is durably running before it begins, its end is
// durable before what follows begins, and as many share a commit as there are
// slots. It does without what makes an engine of it: it knows the graph by heart,
// reads no run, counts no slot of a pool, locks nothing that it does not write, and
// looks for no lease and no due DAG.
type bare struct {
	b    *testing.B
	ctx  context.Context
	db   *dialect.DB
	n    int   // slots
	next int64 // the newest run
	// tasks are the instances that have not ended.
	tasks map[int64]*bareTask

	took, cpu time.Duration // of the rounds that were measured
}

type bareTask struct {
	id, run int64
	up      int // upstream tasks that have not ended
	down    []*bareTask
	left    *int // instances of its run that have not ended
}

// newBare prepares the yardstick with n slots: its first run compiles the
// statements.
func newBare(b *testing.B, dsn string, d *dag.DAG, n int) *bare {
	b.Helper()
	st, err := store.Open(b.Context(), dsn, store.Options{})
	require.NoError(b, err)
	b.Cleanup(func() { _ = st.Close() })
	require.NoError(b, st.Migrate(b.Context()))
	x := &bare{b: b, ctx: b.Context(), db: st.DB(), n: n, tasks: map[int64]*bareTask{}}
	x.round(d, 1, 0)
	return x
}

// measure runs a round and adds up what it took.
func (x *bare) measure(d *dag.DAG, runs, round int) {
	start, used := time.Now(), cpuTime()
	x.round(d, runs, round)
	x.took += time.Since(start)
	x.cpu += cpuTime() - used
}

// round makes runs and takes all their tasks to the end.
func (x *bare) round(d *dag.DAG, runs, round int) {
	var ready []*bareTask
	var ids []int64
	x.write(func(tx *sqlx.Tx, at string) {
		var rows []any
		for i := range runs {
			x.next++
			ids = append(ids, x.next)
			rows = append(rows, x.next, d.ID, fmt.Sprintf("manual__%d_%d", round, i), at, at, at, at)
		}
		x.insert(tx, `INSERT INTO dag_run (id, dag_id, run_id, run_after, queued_at, next_eval_at, updated_at, run_type, state, reason, triggered_by, note, clear_number,
 dag_version_id) VALUES `, "(?, ?, ?, ?, ?, ?, ?, 'manual', 'queued', '', '', '', 0, 1)", 7, rows)
		rows = rows[:0]
		for i, run := range ids {
			for _, t := range x.graph(d, run) {
				rows = append(rows, t.id, run, d.ID, fmt.Sprintf("manual__%d_%d", round, i), d.Tasks[(t.id-1)%int64(len(d.Tasks))].ID, at)
				if t.up == 0 {
					ready = append(ready, t)
				}
			}
		}
		x.insert(tx, `INSERT INTO task_instance (id, dag_run_id, dag_id, run_id, task_id, updated_at, map_index, state, try_number, max_tries, failure_count, crash_count,
 throttled_us, fence, operator, queue, pool, pool_slots, priority_weight, claim_rank, dag_version_id, worker_id, hostname) VALUES `,
			"(?, ?, ?, ?, ?, ?, -1, 'none', 0, 0, 0, 0, 0, 0, 'noop', 'default', 'default_pool', 1, 1, -1, 1, '', '')", 6, rows)
	})
	x.write(func(tx *sqlx.Tx, at string) {
		x.update(tx, "dag_run", "state = 'running', start_date = ?, next_eval_at = NULL, updated_at = ?", "state = 'queued'", ids, at, at)
		x.queue(tx, at, ready)
	})
	var held []*bareTask
	for len(x.tasks) > 0 {
		x.write(func(tx *sqlx.Tx, at string) {
			x.finish(tx, at, held)
			held = x.claim(tx, at)
		})
	}
}

// graph makes the instances of a run.
func (x *bare) graph(d *dag.DAG, run int64) []*bareTask {
	list := make([]*bareTask, len(d.Tasks))
	byID := map[string]*bareTask{}
	left := len(d.Tasks)
	for i := range d.Tasks {
		list[i] = &bareTask{id: (run-1)*int64(len(d.Tasks)) + int64(i) + 1, run: run, up: len(d.Tasks[i].Upstream), left: &left}
		byID[d.Tasks[i].ID] = list[i]
		x.tasks[list[i].id] = list[i]
	}
	for i := range d.Tasks {
		for _, up := range d.Tasks[i].Upstream {
			byID[up].down = append(byID[up].down, list[i])
		}
	}
	return list
}

// finish writes the ends of instances, queues what follows and ends runs.
func (x *bare) finish(tx *sqlx.Tx, at string, held []*bareTask) {
	if len(held) == 0 {
		return
	}
	var ids, runs []int64
	var attempts []any
	var ready []*bareTask
	for _, t := range held {
		ids = append(ids, t.id)
		attempts = append(attempts, t.id, at, at)
		delete(x.tasks, t.id)
		for _, d := range t.down {
			if d.up--; d.up == 0 {
				ready = append(ready, d)
			}
		}
		if *t.left--; *t.left == 0 {
			runs = append(runs, t.run)
		}
	}
	x.update(tx, "task_instance", "state = 'success', end_date = ?, lease_until = NULL, next_try_at = NULL, updated_at = ?",
		"state = 'running' AND fence = 1", ids, at, at)
	x.insert(tx, `INSERT INTO task_attempt (task_instance_id, start_date, end_date, fence, try_number, state, worker_id, hostname, error_class, error_code, error_message,
 delay_ceiling_us, delay_us, log_path) VALUES `,
		"(?, ?, ?, 1, 1, 'success', 'bench', 'bench', '', '', '', 0, 0, 'dag_id=diamond/run_id=manual__1_1/task_id=t0001/attempt=1.log')", 3, attempts)
	if len(ready) > 0 {
		x.queue(tx, at, ready)
	}
	if len(runs) > 0 {
		x.update(tx, "dag_run", "state = 'success', end_date = ?, next_eval_at = NULL, updated_at = ?", "state = 'running'", runs, at, at)
	}
}

func (x *bare) queue(tx *sqlx.Tx, at string, ready []*bareTask) {
	ids := make([]int64, len(ready))
	for i, t := range ready {
		ids[i] = t.id
	}
	x.update(tx, "task_instance", "state = 'queued', scheduled_at = ?, queued_at = ?, updated_at = ?", "state = 'none'", ids, at, at, at)
}

// claim takes the next instances, as many as there are slots, with what a worker
// has to know about them.
func (x *bare) claim(tx *sqlx.Tx, at string) []*bareTask {
	force := ""
	if !x.db.IsSQLite() {
		force = x.db.ForceIndex("k_claim")
	}
	rows, err := tx.QueryxContext(x.ctx, "SELECT id, dag_run_id, dag_id, run_id, task_id, map_index, try_number, fence, operator, payload, dag_version_id FROM task_instance"+
		force+" WHERE state = 'queued' ORDER BY claim_rank, turn, id LIMIT ?"+x.db.SkipLocked(), x.n)
	require.NoError(x.b, err)
	defer func() { require.NoError(x.b, rows.Close()) }()
	var ids []int64
	var held []*bareTask
	for rows.Next() {
		var id, run, version int64
		var dagID, runID, taskID, operator string
		var mapIndex, try, fence int
		var payload *string
		require.NoError(x.b, rows.Scan(&id, &run, &dagID, &runID, &taskID, &mapIndex, &try, &fence, &operator, &payload, &version))
		ids, held = append(ids, id), append(held, x.tasks[id])
	}
	require.NoError(x.b, rows.Err())
	if len(ids) > 0 {
		x.update(tx, "task_instance", "state = 'running', fence = fence + 1, try_number = try_number + 1, start_date = ?, worker_id = 'bench', hostname = 'bench', lease_until = ?, updated_at = ?",
			"state = 'queued'", ids, at, at, at)
	}
	return held
}

// write is one durable commit.
func (x *bare) write(fn func(tx *sqlx.Tx, at string)) {
	tx, err := x.db.Writer().BeginTxx(x.ctx, nil)
	require.NoError(x.b, err)
	fn(tx, dialect.Stamp(time.Now().UTC()))
	require.NoError(x.b, tx.Commit())
}

// update changes all rows of a list at once; each must be as it was left. They are
// found by their ids, not by the state that the guard names.
func (x *bare) update(tx *sqlx.Tx, table, set, guard string, ids []int64, args ...any) {
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ","), "[]")
	in, hint := "("+list+")", x.db.ForceIndex("PRIMARY")
	if x.db.IsSQLite() { // one text for any ids: the compiled statement is kept
		in, hint = "(SELECT value FROM json_each(?))", " NOT INDEXED"
		args = append(args, "["+list+"]")
	}
	r, err := tx.ExecContext(x.ctx, "UPDATE "+table+hint+" SET "+set+" WHERE id IN "+in+" AND "+guard, args...)
	require.NoError(x.b, err)
	n, err := r.RowsAffected()
	require.NoError(x.b, err)
	require.EqualValues(x.b, len(ids), n)
}

// insert writes rows, up to 500 at once on a server and 64 on SQLite.
func (x *bare) insert(tx *sqlx.Tx, head, row string, width int, args []any) {
	size := 500
	if x.db.IsSQLite() {
		size = 64
	}
	for len(args) > 0 {
		for size*width > len(args) {
			size = max(1, size/2)
		}
		_, err := tx.ExecContext(x.ctx, head+strings.Repeat(row+",", size-1)+row, args[:size*width]...)
		require.NoError(x.b, err)
		args = args[size*width:]
	}
}
