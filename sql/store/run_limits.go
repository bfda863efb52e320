package store

import (
	"context"
	"slices"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// startRuns lets queued runs of a pass become running: those that are due, as
// far as max_active_runs leaves room. The DAGs' rows are locked, so that two
// schedulers do not fill the same room, and so that the end of a run is seen
// either by the count here or by the wake-up there.
//
// One that was made ahead and that its DAG would not have now is taken back.
func (t *tx) startRuns(ctx context.Context, runs []*passRun, anyway bool) error {
	var queued []*passRun
	for _, r := range runs {
		if r.run.State != dag.RunQueued {
			continue
		}
		if !anyway && r.run.RunAfter.After(t.now) {
			at := r.run.RunAfter
			r.wait, r.look = true, &at
			continue
		}
		if r.run.IsReplay { // it had its room
			at := t.now
			r.started = true
			r.run.State, r.run.StartDate = dag.RunRunning, &at
			continue
		}
		queued = append(queued, r)
	}
	if len(queued) == 0 {
		return nil
	}
	slices.SortFunc(queued, func(a, b *passRun) int {
		if c := a.run.RunAfter.Compare(b.run.RunAfter); c != 0 {
			return c
		}
		return int(a.run.ID - b.run.ID)
	})
	backfills, err := t.backfillsOf(ctx, queued)
	if err != nil {
		return err
	}
	room, err := t.lockRoom(ctx, queued, backfills)
	if err != nil {
		return err
	}
	turn, err := t.turns(ctx, queued, room, backfills)
	if err != nil {
		return err
	}
	var late map[int64]bool
	if !anyway {
		if late, err = t.superseded(ctx, queued); err != nil {
			return err
		}
	}
	var back []dag.Run
	for _, r := range queued {
		k := kindOf(&r.run, backfills)
		if !anyway && madeAhead(&r.run) && (room[k] <= 0 || late[r.run.ID]) {
			// The schedule would not make it now.
			at := t.now.Add(putOff)
			r.wait, r.look = true, &at
			back = append(back, r.run)
			continue
		}
		if !anyway && (room[k] <= 0 || k.backfill > 0 && !turn[r.run.ID]) {
			r.wait = true // until a run of its kind ends
			continue
		}
		room[k]--
		at := t.now
		r.started = true
		r.run.State, r.run.StartDate = dag.RunRunning, &at
	}
	gone, err := t.takeBack(ctx, back)
	for _, r := range queued {
		r.gone = slices.Contains(gone, r.run.ID)
	}
	return err
}

// turns tells which runs of backfills may start: the first of each in its own
// order, as many as it has room. Those among them that the pass does not have
// are woken.
func (t *tx) turns(ctx context.Context, queued []*passRun, room map[runKind]int, backfills map[int64]int64) (map[int64]bool, error) {
	turn, here := map[int64]bool{}, map[int64]bool{}
	asked := map[int64]bool{}
	for _, r := range queued {
		here[r.run.ID] = true
	}
	var wake []int64
	for _, r := range queued {
		k := kindOf(&r.run, backfills)
		if k.backfill <= 0 || asked[k.backfill] {
			continue
		}
		asked[k.backfill] = true
		ids, err := t.nextOfBackfill(ctx, k.backfill, room[k])
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			turn[id] = true
			if !here[id] {
				wake = append(wake, id)
			}
		}
	}
	return turn, t.wakeFound(ctx, wake)
}

// runKind is what has a limit of its own: the runs of a DAG, or those of one of
// its backfills (-1 for backfill runs that no backfill has).
type runKind struct {
	dag      string
	backfill int64
}

func kindOf(run *dag.Run, backfills map[int64]int64) runKind {
	k := runKind{dag: run.DagID}
	if run.Type == dag.RunBackfill {
		k.backfill = -1
		if id := backfills[run.ID]; id != 0 {
			k.backfill = id
		}
	}
	return k
}

// lockRoom locks the DAGs of some runs and tells how many more may run: none of a
// DAG that was paused since the pass found its runs.
func (t *tx) lockRoom(ctx context.Context, runs []*passRun, backfills map[int64]int64) (map[runKind]int, error) {
	var ids []string
	room := map[runKind]int{}
	var open []int64
	for _, r := range runs {
		ids = append(ids, r.run.DagID)
		// A run whose DAG has no row (a test run) is limited by nothing.
		room[runKind{r.run.DagID, 0}], room[runKind{r.run.DagID, -1}] = 1<<30, dag.DefaultBackfillRuns
		if k := kindOf(&r.run, backfills); k.backfill > 0 {
			open = append(open, k.backfill)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	var dags []struct {
		ID     string `db:"dag_id"`
		Max    int    `db:"max_active_runs"`
		Paused bool   `db:"is_paused"`
	}
	err := t.SelectContext(ctx, &dags, "SELECT dag_id, max_active_runs, is_paused FROM dag WHERE dag_id IN ("+dialect.Marks(len(ids))+") ORDER BY dag_id"+
		t.s.db.ForUpdate(), anys(ids)...)
	if err != nil {
		return nil, err
	}
	paused := map[string]bool{}
	for _, d := range dags {
		room[runKind{d.ID, 0}], paused[d.ID] = d.Max, d.Paused
	}
	if len(open) > 0 {
		var limits []struct {
			ID  int64  `db:"id"`
			Dag string `db:"dag_id"`
			Max int    `db:"max_active_runs"`
		}
		if err := t.SelectContext(ctx, &limits, "SELECT id, dag_id, max_active_runs FROM backfill WHERE id IN ("+idList(open)+")"); err != nil {
			return nil, err
		}
		for _, l := range limits {
			room[runKind{l.Dag, l.ID}] = l.Max
		}
	}
	var running []struct {
		Dag      string `db:"dag_id"`
		Backfill int64  `db:"backfill"`
		N        int    `db:"n"`
	}
	err = t.SelectContext(ctx, &running, `SELECT dag_id, backfill, COUNT(*) AS n FROM (SELECT r.dag_id, CASE WHEN r.run_type = 'backfill'
 THEN COALESCE((SELECT MAX(b.backfill_id) FROM backfill_run b WHERE b.dag_run_id = r.id), -1) ELSE 0 END AS backfill
 FROM dag_run r WHERE r.state = 'running' AND r.is_replay = 0 AND r.dag_id IN (`+dialect.Marks(len(ids))+`)) x GROUP BY dag_id, backfill`, anys(ids)...)
	if err != nil {
		return nil, err
	}
	for _, r := range running {
		room[runKind{r.Dag, r.Backfill}] -= r.N
	}
	for k := range room {
		if paused[k.dag] {
			room[k] = 0
		}
	}
	return room, nil
}

// soon is how far before its time a DAG's run may be made.
const soon = 5 * time.Second

// afterEnd does what the end of runs brings: queued runs of the DAG may start,
// runs that look back may go on, and a DAG whose last runs all failed is paused
// if it asks for that.
func (t *tx) afterEnd(ctx context.Context, ended []*passRun) error {
	byDag := map[string][]*passRun{}
	var ids []string
	for _, r := range ended {
		if byDag[r.run.DagID] == nil {
			ids = append(ids, r.run.DagID)
		}
		byDag[r.run.DagID] = append(byDag[r.run.DagID], r)
	}
	slices.Sort(ids)
	backfills, err := t.backfillsOf(ctx, ended)
	if err != nil {
		return err
	}
	waits, err := t.lockEnded(ctx, ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		last := byDag[id][len(byDag[id])-1]
		var next []int64
		if waits[id] || looksBack(last.def) || slices.ContainsFunc(byDag[id], func(r *passRun) bool { return r.run.Type == dag.RunBackfill }) {
			if next, err = t.nextRuns(ctx, byDag[id], backfills); err != nil {
				return err
			}
		}
		if err := t.wakeFound(ctx, next); err != nil {
			return err
		}
		if err := t.pauseAfterFailures(ctx, last); err != nil {
			return err
		}
	}
	return nil
}

// lockEnded locks the DAGs of runs that have ended, before the look at what waits
// for the reason that startRuns gives, and tells which of them have runs that wait
// for the end of another. A DAG whose next run is due, or soon, may have been kept
// from it by its limit: a scheduler is to look.
func (t *tx) lockEnded(ctx context.Context, ids []string) (map[string]bool, error) {
	waits := map[string]bool{}
	for part := range slices.Chunk(ids, chunk) {
		var dags []struct {
			ID   string       `db:"dag_id"`
			Next dialect.Time `db:"next_run_after"`
		}
		if err := t.SelectContext(ctx, &dags, "SELECT dag_id, next_run_after FROM dag WHERE dag_id IN ("+dialect.Marks(len(part))+
			") ORDER BY dag_id"+t.s.db.ForUpdate(), anys(part)...); err != nil {
			return nil, err
		}
		for _, d := range dags {
			t.room = t.room || d.Next.Valid && d.Next.Time.Before(t.now.Add(soon))
		}
		var waiting []string
		if err := t.SelectContext(ctx, &waiting, "SELECT dag_id FROM dag_run WHERE state = 'queued' AND next_eval_at IS NULL AND dag_id IN ("+
			dialect.Marks(len(part))+")", anys(part)...); err != nil {
			return nil, err
		}
		for _, id := range waiting {
			waits[id] = true
		}
	}
	return waits, nil
}

// nextRuns lists the runs of a DAG that the end of others may let go on: all
// that are unfinished where tasks look back, else as many waiting ones of each
// kind as have ended.
func (t *tx) nextRuns(ctx context.Context, ended []*passRun, backfills map[int64]int64) ([]int64, error) {
	dagID := ended[0].run.DagID
	find := func(which string, n int) (ids []int64, err error) {
		err = t.SelectContext(ctx, &ids, "SELECT id FROM dag_run WHERE dag_id = ? AND "+which+" ORDER BY run_after, id"+limit(n, 1), dagID)
		return ids, err
	}
	if looksBack(ended[len(ended)-1].def) {
		return find("state IN ('queued', 'running')", -1)
	}
	count := map[int64]int{}
	for _, r := range ended {
		count[kindOf(&r.run, backfills).backfill]++
	}
	var out []int64
	for kind, n := range count {
		var ids []int64
		var err error
		switch {
		case kind > 0:
			ids, err = t.nextOfBackfill(ctx, kind, n)
		case kind < 0:
			ids, err = find("state = 'queued' AND next_eval_at IS NULL AND run_type = 'backfill'", n)
		default:
			ids, err = find("state = 'queued' AND next_eval_at IS NULL AND run_type <> 'backfill'", n)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, ids...)
	}
	return out, nil
}

// pauseAfterFailures pauses a DAG whose newest runs, as many as its
// max_consecutive_failed_dag_runs says, all failed.
func (t *tx) pauseAfterFailures(ctx context.Context, r *passRun) error {
	if r.def == nil || r.def.MaxConsecutiveFailedDagRuns <= 0 || r.run.State != dag.RunFailed {
		return nil
	}
	n := r.def.MaxConsecutiveFailedDagRuns
	var states []string
	if err := t.SelectContext(ctx, &states, "SELECT state FROM dag_run WHERE dag_id = ? AND state IN ('success', 'failed') ORDER BY run_after DESC, id DESC"+
		limit(n, n), r.run.DagID); err != nil {
		return err
	}
	if len(states) < n || slices.Contains(states, string(dag.RunSuccess)) {
		return nil
	}
	if err := t.setPaused(ctx, r.run.DagID, true); err != nil {
		return err
	}
	return t.audit(ctx, dag.AuditEntry{
		Actor: "scheduler", Action: "pause", Subject: r.run.DagID,
		Detail: mustJSON(map[string]any{"reason": "max_consecutive_failed_dag_runs", "failed_runs": n}),
	})
}
