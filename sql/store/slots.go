package store

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// slots is what is in use and what is open, while all pools are locked.
type slots struct {
	pools map[string]*openPool
	// active counts instances that occupy a slot: by run, by task of a run, by
	// task of a DAG.
	runs     map[int64]int
	runTasks map[runTask]int
	dagTasks map[dagTask]int
	versions map[int64]int64 // run -> version
	// refused is set when a limit of a run or a task kept an instance from a slot.
	refused bool
	fair
	// drained is set when nothing is queued.
	drained bool
	// stands is set when the count may be gone on from: seen is the stamp of this
	// pass, and counted when it was made.
	stands  bool
	pass    int64
	before  *stood
	seen    passStamp
	counted time.Time
}

// openPool is a pool in a pass.
type openPool struct {
	open      int
	size      int
	unlimited bool
	deferred  bool // deferred instances count as well
}

type runTask struct {
	run  int64
	task string
}

type dagTask struct{ dag, task string }

// beginPass begins to hand out slots. Where passes are numbered it locks them out
// by that; else lockPools does.
func (t *tx) beginPass(ctx context.Context) (*slots, error) {
	l := &slots{
		pools: map[string]*openPool{}, runs: map[int64]int{}, runTasks: map[runTask]int{}, dagTasks: map[dagTask]int{}, versions: map[int64]int64{},
		fair: newFair(),
	}
	return l, t.stampPass(ctx, l)
}

// lockPools locks all pools in the order of their names. Nothing is taken off yet.
func (t *tx) lockPools(ctx context.Context, l *slots) error {
	var rows []struct {
		Name            string `db:"name"`
		Slots           int    `db:"slots"`
		IncludeDeferred bool   `db:"include_deferred"`
	}
	if err := t.SelectContext(ctx, &rows, "SELECT name, slots, include_deferred FROM pool ORDER BY name"+t.s.db.ForUpdate()); err != nil {
		return err
	}
	for _, p := range rows {
		l.pools[p.Name] = &openPool{open: p.Slots, size: p.Slots, unlimited: p.Slots < 0, deferred: p.IncludeDeferred}
	}
	return nil
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

// countPools takes off what is in use of each pool, and sees whose turn it is. It
// tells whether anything waits: then that is not enough.
func (t *tx) countPools(ctx context.Context, l *slots) (waits bool, err error) {
	var used []inUse
	if err := t.SelectContext(ctx, &used, `SELECT dag_id, pool, state, priority_weight, COUNT(*) AS n, SUM(pool_slots) AS slots,
 MIN(turn) AS first_turn, MAX(turn) AS last_turn FROM task_instance
 WHERE state IN ('queued', 'running', 'restarting', 'deferred') GROUP BY dag_id, pool, state, priority_weight
 UNION ALL SELECT '', '', 'scheduled', 0, 0, 0, 0, 0 FROM (SELECT id FROM task_instance WHERE state = 'scheduled' LIMIT 1) w`); err != nil {
		return false, err
	}
	if slices.ContainsFunc(used, func(u inUse) bool { return u.State == string(dag.StateScheduled) }) {
		return true, nil
	}
	l.drained, l.counted = true, t.now
	for _, u := range used {
		l.count(u)
	}
	return false, nil
}

// countAll takes off what is in use, and counts it by run and task. Turns of
// what waits matter only where something is to get a place behind it.
func (t *tx) countAll(ctx context.Context, l *slots, turns bool) error {
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
		l.count(u)
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
func (l *slots) count(u inUse) {
	occupies := dag.State(u.State).Occupies()
	l.drained = l.drained && u.State != string(dag.StateQueued)
	if p := l.pools[u.Pool]; p != nil && (occupies || p.deferred) {
		p.open -= u.Slots
	}
	if occupies {
		l.inUse[share{u.Dag, u.Pool}] += u.Slots
	}
	l.note(u)
}

// countReplays takes off what replays use of their own pool: a slot each.
func (t *tx) countReplays(ctx context.Context, l *slots) error {
	p := l.pools[dag.ReplayPool]
	if p == nil || p.unlimited {
		return nil
	}
	var n int
	if err := t.GetContext(ctx, &n, "SELECT COUNT(*) FROM task_instance WHERE state IN ('queued', 'running', 'restarting') AND replaying = 1"); err != nil {
		return err
	}
	p.open -= n
	return nil
}

// take gives the slots that an instance needs, if all its limits allow it. A
// pool that does not exist gives none, ever; so does one that is smaller than
// the instance. def is nil when the DAG's version is gone: then only the pool
// counts.
func (l *slots) take(c *candidate, def *dag.DAG) bool {
	pool := l.pools[c.Pool]
	if pool == nil || (!pool.unlimited && pool.open < c.PoolSlots) {
		return false
	}
	var replays *openPool
	if c.Replaying {
		replays = l.pools[dag.ReplayPool]
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
	pool := l.pools[c.Pool]
	if pool == nil {
		n.Missing = true
		return n, true
	}
	n.Slots = pool.size
	return n, !pool.unlimited && pool.size < c.PoolSlots
}

// ahead is how many waiting instances are worth a look.
func (l *slots) ahead() int {
	open := 0
	for _, p := range l.pools {
		if p.unlimited {
			return maxWaiting
		}
		open += min(max(0, p.open), maxWaiting)
	}
	return min(max(minWaiting, open), maxWaiting)
}

// anyOpen tells whether any pool has a slot.
func (l *slots) anyOpen() bool {
	for _, p := range l.pools {
		if p.unlimited || p.open > 0 {
			return true
		}
	}
	return false
}

// onlyOpen leaves out instances whose pool has no slot or can never hold them;
// false when no pool has one.
func (l *slots) onlyOpen(c *condition) bool {
	var parts []string
	var args []any
	for _, name := range slices.Sorted(maps.Keys(l.pools)) {
		switch p := l.pools[name]; {
		case p.unlimited:
			parts, args = append(parts, "ti.pool = ?"), append(args, name)
		case p.open > 0:
			parts, args = append(parts, "ti.pool = ? AND ti.pool_slots <= ?"), append(args, name, p.size)
		}
	}
	if len(parts) == 0 {
		return false
	}
	c.add("("+strings.Join(parts, " OR ")+")", args...)
	return true
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
