package store

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// A pass considers, besides those that just became ready, as many waiting
// instances as slots are open, minWaiting at least. Where a limit of a run or a
// task kept some of them back, which may hide others, it looks again, at four
// times as many, up to maxWaiting and maxLooks times. Instances whose pool, run
// or task is full are not counted.
const (
	minWaiting = 100
	maxWaiting = 2000
	maxLooks   = 4
)

// candidate is an instance that waits for a slot.
type candidate struct {
	ID          int64        `db:"id"`
	RunID       int64        `db:"dag_run_id"`
	DagID       string       `db:"dag_id"`
	TaskID      string       `db:"task_id"`
	MapIndex    int          `db:"map_index"`
	From        string       `db:"state"`
	Pool        string       `db:"pool"`
	PoolSlots   int          `db:"pool_slots"`
	Priority    int          `db:"priority_weight"`
	VersionID   int64        `db:"dag_version_id"`
	Replaying   bool         `db:"replaying"`
	LogicalDate dialect.Time `db:"logical_date"`
	RunAfter    dialect.Time `db:"run_after"`
	// arrives is set for one that did not wait before; it gets a turn then.
	arrives bool
	turn    int64
}

func newCandidate(run *dag.Run, ti *dag.TaskInstance, from dag.State) candidate {
	c := candidate{
		ID: ti.ID, RunID: run.ID, DagID: run.DagID, TaskID: ti.TaskID, MapIndex: ti.MapIndex, From: string(from),
		Pool: ti.Pool, PoolSlots: ti.PoolSlots, Priority: ti.PriorityWeight, VersionID: run.VersionID, Replaying: ti.Replaying, RunAfter: dialect.At(run.RunAfter),
		arrives: from != dag.StateScheduled,
	}
	if run.LogicalDate != nil {
		c.LogicalDate = dialect.At(*run.LogicalDate)
	}
	return c
}

// date orders runs: the logical date, or for a run without one when it was due.
func (c *candidate) date() time.Time {
	if c.LogicalDate.Valid {
		return c.LogicalDate.Time
	}
	return c.RunAfter.Time
}

// byUrgency is Airflow's order: priority falling, logical date rising, map
// index rising.
func byUrgency(a, b candidate) int {
	return cmp.Or(
		cmp.Compare(b.Priority, a.Priority), a.date().Compare(b.date()), cmp.Compare(a.MapIndex, b.MapIndex),
		cmp.Compare(a.RunID, b.RunID), cmp.Compare(a.ID, b.ID),
	)
}

// queue gives slots to what is ready and to what waits, in the order of their
// urgency, and within a priority fairly between DAGs; what gets none is or
// stays scheduled. It locks all pools, so that only one transaction hands out
// slots at a time, and is therefore the last step of a pass.
//
// What becomes ready and can never fit into its pool is reported, once.
func (t *tx) queue(ctx context.Context, runs []*passRun, ready []candidate, onlyRun int64) (int, []dag.NeverFit, error) {
	if len(ready) == 0 {
		if waits, err := t.anyWaits(ctx); err != nil || !waits {
			t.unlocked = true
			return 0, nil, err
		}
	}
	l, err := t.beginPass(ctx)
	if err != nil {
		return 0, nil, err
	}
	waiting, n, err := t.count(ctx, l, runs, ready, onlyRun)
	if err != nil {
		return 0, nil, err
	}
	for _, g := range t.ended {
		l.ended(g.row)
	}
	h := handing{t: t, l: l, seen: make(map[int64]bool, len(ready)+len(waiting)), groups: map[change][]candidate{}}
	if err := h.give(ctx, append(slices.Clone(ready), waiting...)); err != nil {
		return 0, nil, err
	}
	// Tasks and runs that have become full just now may hide others. A pass of its
	// own sees to that, not one between results.
	for look := 1; t.ended == nil && look < maxLooks && n > 0 && len(waiting) == n && l.refused && l.anyOpen(); look++ {
		n = min(4*n, maxWaiting)
		if waiting, err = t.waiting(ctx, l, onlyRun, n); err != nil {
			return 0, nil, err
		}
		l.refused = false
		if err := h.give(ctx, waiting); err != nil {
			return 0, nil, err
		}
	}
	if err := t.startNow(ctx, l, runs, h.groups); err != nil {
		return 0, nil, err
	}
	l.drained = l.drained && h.queued == len(t.starts)
	if l.stands && !h.waits {
		t.keepStanding(l)
	}
	return h.queued, h.never, t.writeQueued(ctx, h.groups)
}

// count fills in what is in use, and gives what waits: up to n, which is 0 when
// it was not looked at.
func (t *tx) count(ctx context.Context, l *slots, runs []*passRun, ready []candidate, onlyRun int64) (waiting []candidate, n int, err error) {
	few := len(ready) > 0 && onlyPoolsLimit(runs, ready)
	// On SQLite the pass has begun and has what the one before it left; on a server
	// that comes with the number of the pass, which is worth waiting for where it may do.
	if few && (l.before != nil || t.s.standing.young(t.now)) {
		if err := t.flush(ctx); err != nil {
			return nil, 0, err
		}
		if t.goOn(l, ready) {
			return nil, 0, nil
		}
	}
	if err := t.lockPools(ctx, l); err != nil {
		return nil, 0, err
	}
	if few {
		if waits, err := t.countPools(ctx, l); err != nil || !waits {
			return nil, 0, err
		}
	}
	l.stands = false
	if err := t.countAll(ctx, l, len(ready) > 0); err != nil {
		return nil, 0, err
	}
	n = l.ahead()
	waiting, err = t.waiting(ctx, l, onlyRun, n)
	return waiting, n, err
}

// handing is how far a pass is with handing out slots.
type handing struct {
	t       *tx
	l       *slots
	seen    map[int64]bool // the candidates that were asked about
	replays bool           // what they use was counted
	waits   bool           // some got no slot
	queued  int
	never   []dag.NeverFit
	groups  map[change][]candidate
}

// give gives slots to candidates, once to each.
func (h *handing) give(ctx context.Context, list []candidate) error {
	list = slices.DeleteFunc(list, func(c candidate) bool {
		seen := h.seen[c.ID]
		h.seen[c.ID] = true
		return seen
	})
	if !h.replays && slices.ContainsFunc(list, func(c candidate) bool { return c.Replaying }) {
		h.replays = true
		if err := h.t.countReplays(ctx, h.l); err != nil {
			return err
		}
	}
	slices.SortFunc(list, byUrgency)
	h.l.giveTurns(list)
	return h.l.fairly(list, func(c candidate) error {
		def, err := h.t.s.version(ctx, h.t, c.VersionID)
		if err != nil && dag.CodeOf(err) != dag.ErrNotFound {
			return err
		}
		if n, yes := h.l.neverFits(&c); yes && !slices.Contains(h.never, n) {
			h.never = append(h.never, n)
		}
		to := dag.StateScheduled
		if h.l.take(&c, def) {
			to = dag.StateQueued
			h.queued++
		}
		h.waits = h.waits || to == dag.StateScheduled
		if from := dag.State(c.From); from != to {
			h.groups[change{from, to}] = append(h.groups[change{from, to}], c)
		}
		return nil
	})
}

// anyWaits tells whether any instance is in state scheduled.
func (t *tx) anyWaits(ctx context.Context) (bool, error) {
	if t.asked && !t.unqueued {
		return t.waits, nil
	}
	var one []int64
	err := t.SelectContext(ctx, &one, "SELECT id FROM task_instance WHERE state = 'scheduled' LIMIT 1")
	return len(one) > 0, err
}

func (t *tx) writeQueued(ctx context.Context, groups map[change][]candidate) error {
	order := make([]change, 0, len(groups))
	for c := range groups {
		order = append(order, c)
	}
	slices.SortFunc(order, func(a, b change) int { return strings.Compare(string(a.from+" "+a.to), string(b.from+" "+b.to)) })
	for _, c := range order {
		slices.SortFunc(groups[c], func(a, b candidate) int { return cmp.Compare(a.ID, b.ID) })
		set, args := "state = ?, updated_at = ?, scheduled_at = COALESCE(scheduled_at, ?)", []any{string(c.to), t.at, t.at}
		if c.to == dag.StateQueued {
			set += ", queued_at = ?"
			args = append(args, t.at)
		}
		for part := range slices.Chunk(groups[c], chunk) {
			turn, turnArgs, which, whichArgs := t.byTurn(part, c.from)
			if err := t.later(ctx, nil, "UPDATE task_instance"+t.force("PRIMARY")+" SET "+set+turn+which, slices.Concat(args, turnArgs, whichArgs)...); err != nil {
				return err
			}
		}
	}
	return nil
}

// waiting lists instances in state scheduled of running runs of unpaused DAGs,
// up to n, most urgent first and within a priority those whose turn it is, without those whose pool, run or task has nothing open, and
// without those that their pool can never hold: they would stand in the way of
// what can run.
func (t *tx) waiting(ctx context.Context, l *slots, onlyRun int64, n int) ([]candidate, error) {
	var c condition
	c.add("ti.state = 'scheduled'")
	c.add("r.state = 'running'")
	if !l.onlyOpen(&c) {
		return nil, nil
	}
	if onlyRun != 0 {
		c.add("r.id = ?", onlyRun)
	} else {
		c.add("NOT EXISTS (SELECT 1 FROM dag d WHERE d.dag_id = r.dag_id AND d.is_paused = 1)")
	}
	full, err := l.fullRuns(ctx, t)
	if err != nil {
		return nil, err
	}
	if len(full) > 0 {
		c.add("ti.dag_run_id NOT IN (" + idList(full) + ")")
	}
	if err := l.withoutFullTasks(ctx, t, &c); err != nil {
		return nil, err
	}
	var rows []candidate
	err = t.SelectContext(ctx, &rows, `SELECT ti.id, ti.dag_run_id, ti.dag_id, ti.task_id, ti.map_index, ti.state, ti.pool, ti.pool_slots,
 ti.priority_weight, ti.dag_version_id, ti.replaying, r.logical_date, r.run_after FROM task_instance ti`+t.force("k_claim")+t.s.db.StraightJoin()+
		"dag_run r ON r.id = ti.dag_run_id"+c.where()+" ORDER BY ti.claim_rank, ti.turn, ti.id"+limit(n, maxWaiting), c.args...)
	return rows, err
}
