package store

import (
	"context"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// slots is what is in use and what is open, while all pools are locked.
type slots struct {
	// open has the pools; a pool without a limit has unlimited set.
	open map[string]*openPool
	// active counts instances that occupy a slot: by run, by task of a run, by
	// task of a DAG.
	runs     map[int64]int
	runTasks map[runTask]int
	dagTasks map[dagTask]int
	versions map[int64]int64 // run -> version
	// refused is set when a limit of a run or a task kept an instance from a slot.
	refused bool
	fair
	// stands is set when the count may be gone on from: seen is what the file was
	// then, and counted when it was made.
	stands  bool
	pass    int64
	before  *stood
	seen    fileStamp
	counted time.Time
}

type openPool struct {
	open      int
	size      int
	unlimited bool
}

type runTask struct {
	run  int64
	task string
}

type dagTask struct{ dag, task string }

// lockPools locks all pools in the order of their names, and tells which of them
// count deferred instances. Nothing is taken off yet.
func (t *tx) lockPools(ctx context.Context) (*slots, map[string]bool, error) {
	l := &slots{
		open: map[string]*openPool{}, runs: map[int64]int{}, runTasks: map[runTask]int{}, dagTasks: map[dagTask]int{}, versions: map[int64]int64{},
		fair: newFair(),
	}
	l.pass, l.before = t.s.standing.begin()
	deferred := map[string]bool{}
	var pools []struct {
		Name            string `db:"name"`
		Slots           int    `db:"slots"`
		IncludeDeferred bool   `db:"include_deferred"`
	}
	if err := t.SelectContext(ctx, &pools, "SELECT name, slots, include_deferred FROM pool ORDER BY name"+t.s.db.ForUpdate()); err != nil {
		return nil, nil, err
	}
	for _, p := range pools {
		l.open[p.Name] = &openPool{open: p.Slots, size: p.Slots, unlimited: p.Slots < 0}
		deferred[p.Name] = p.IncludeDeferred
	}
	return l, deferred, nil
}

// onlyPoolsLimit tells whether nothing but a pool can keep the candidates from a
// slot: their runs have no more instances than may be active, and their tasks
// have no limit of their own. Then a count by pool is enough.
func onlyPoolsLimit(runs []*passRun, list []candidate) bool {
	byID := make(map[int64]*passRun, len(runs))
	for _, r := range runs {
		byID[r.run.ID] = r
	}
	for i := range list {
		r := byID[list[i].RunID]
		if r == nil || r.def == nil {
			return false
		}
		if r.def.MaxActiveTasks > 0 && len(r.held) > r.def.MaxActiveTasks {
			return false
		}
		task := r.def.Task(list[i].TaskID)
		if task != nil && (task.MaxActiveTisPerDag > 0 || task.MaxActiveTisPerDagrun > 0) {
			return false
		}
	}
	return true
}

// countPools takes off what is in use of each pool, and sees whose turn it is.
func (t *tx) countPools(ctx context.Context, l *slots, deferred map[string]bool) error {
	var used []inUse
	if err := t.SelectContext(ctx, &used, `SELECT dag_id, pool, state, priority_weight, COUNT(*) AS n, SUM(pool_slots) AS slots,
 MIN(turn) AS first_turn, MAX(turn) AS last_turn FROM task_instance
 WHERE state IN ('queued', 'running', 'restarting', 'deferred') GROUP BY dag_id, pool, state, priority_weight`); err != nil {
		return err
	}
	for _, u := range used {
		l.count(u, deferred)
	}
	return nil
}

// countAll takes off what is in use, and counts it by run and task. Turns of
// what waits matter only where something is to get a place behind it.
func (t *tx) countAll(ctx context.Context, l *slots, deferred map[string]bool, turns bool) error {
	waiting := ""
	if turns {
		waiting = ", 'scheduled'"
	}
	var used []inUse
	if err := t.SelectContext(ctx, &used, `SELECT dag_run_id, MAX(dag_version_id) AS dag_version_id, dag_id, task_id, pool, state, priority_weight,
 COUNT(*) AS n, SUM(pool_slots) AS slots, MIN(turn) AS first_turn, MAX(turn) AS last_turn FROM task_instance
 WHERE state IN ('queued', 'running', 'restarting', 'deferred'`+waiting+`) GROUP BY dag_run_id, dag_id, task_id, pool, state, priority_weight`); err != nil {
		return err
	}
	for _, u := range used {
		l.count(u, deferred)
		if dag.State(u.State).Occupies() {
			l.runs[u.Run] += u.N
			l.runTasks[runTask{u.Run, u.Task}] += u.N
			l.dagTasks[dagTask{u.Dag, u.Task}] += u.N
			l.versions[u.Run] = u.Version
		}
	}
	return nil
}

// inUse is what instances that are alike have in use, or wait for.
type inUse struct {
	Run      int64  `db:"dag_run_id"`
	Version  int64  `db:"dag_version_id"`
	Dag      string `db:"dag_id"`
	Task     string `db:"task_id"`
	Pool     string `db:"pool"`
	State    string `db:"state"`
	Priority int    `db:"priority_weight"`
	N        int    `db:"n"`
	Slots    int    `db:"slots"`
	First    int64  `db:"first_turn"`
	Last     int64  `db:"last_turn"`
}

// count takes slots off their pool, and notes turns.
func (l *slots) count(u inUse, deferred map[string]bool) {
	occupies := dag.State(u.State).Occupies()
	if p := l.open[u.Pool]; p != nil && (occupies || deferred[u.Pool]) {
		p.open -= u.Slots
	}
	if occupies {
		l.inUse[share{u.Dag, u.Pool}] += u.Slots
	}
	l.note(u)
}

// countReplays takes off what replays use of their own pool: a slot each.
func (t *tx) countReplays(ctx context.Context, l *slots) error {
	pool := l.open[dag.ReplayPool]
	if pool == nil || pool.unlimited {
		return nil
	}
	var n int
	if err := t.GetContext(ctx, &n, "SELECT COUNT(*) FROM task_instance WHERE state IN ('queued', 'running', 'restarting') AND replaying = 1"); err != nil {
		return err
	}
	pool.open -= n
	return nil
}

// take gives the slots that an instance needs, if all its limits allow it. A
// pool that does not exist gives none, ever; so does one that is smaller than
// the instance. def is nil when the DAG's version is gone: then only the pool
// counts.
func (l *slots) take(c *candidate, def *dag.DAG) bool {
	pool := l.open[c.Pool]
	if pool == nil || (!pool.unlimited && pool.open < c.PoolSlots) {
		return false
	}
	var replays *openPool
	if c.Replaying {
		replays = l.open[dag.ReplayPool]
		if replays == nil || (!replays.unlimited && replays.open < 1) {
			return false
		}
	}
	rt, dt := runTask{c.RunID, c.TaskID}, dagTask{c.DagID, c.TaskID}
	if l.limited(rt, dt, def) {
		l.refused = true
		return false
	}
	pool.open -= c.PoolSlots
	l.inUse[share{c.DagID, c.Pool}] += c.PoolSlots
	if replays != nil {
		replays.open--
	}
	l.runs[c.RunID]++
	l.runTasks[rt]++
	l.dagTasks[dt]++
	l.versions[c.RunID] = max(l.versions[c.RunID], c.VersionID)
	return true
}

// limited tells whether a run or a task has as many active as it may.
func (l *slots) limited(rt runTask, dt dagTask, def *dag.DAG) bool {
	if def == nil {
		return false
	}
	if def.MaxActiveTasks > 0 && l.runs[rt.run] >= def.MaxActiveTasks {
		return true
	}
	task := def.Task(rt.task)
	return task != nil && (task.MaxActiveTisPerDag > 0 && l.dagTasks[dt] >= task.MaxActiveTisPerDag ||
		task.MaxActiveTisPerDagrun > 0 && l.runTasks[rt] >= task.MaxActiveTisPerDagrun)
}

// neverFits tells whether an instance's pool can never hold it as it is.
func (l *slots) neverFits(c *candidate) (dag.NeverFit, bool) {
	n := dag.NeverFit{DagID: c.DagID, TaskID: c.TaskID, Pool: c.Pool, PoolSlots: c.PoolSlots}
	pool := l.open[c.Pool]
	if pool == nil {
		n.Missing = true
		return n, true
	}
	n.Slots = pool.size
	return n, !pool.unlimited && pool.size < c.PoolSlots
}

func (l *slots) fullPools() []string {
	var out []string
	for name, p := range l.open {
		if !p.unlimited && p.open <= 0 {
			out = append(out, name)
		}
	}
	return out
}

// fullRuns lists runs that are at their max_active_tasks.
func (l *slots) fullRuns(ctx context.Context, t *tx) ([]int64, error) {
	var out []int64
	for run, n := range l.runs {
		def, err := t.s.version(ctx, t, l.versions[run])
		if err != nil && dag.CodeOf(err) != dag.ErrNotFound {
			return nil, err
		}
		if def != nil && def.MaxActiveTasks > 0 && n >= def.MaxActiveTasks {
			out = append(out, run)
		}
	}
	return out, nil
}
