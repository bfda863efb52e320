package storetest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// wideRun drives a run of so many tasks that decisions go on from one another.
type wideRun struct {
	*bundle
	g    *dag.Graph
	run  dag.Run
	held []dag.Claim
	went int // decisions that went on from the one before
}

func newWideRun(b *bundle, d *dag.DAG) *wideRun {
	d.MaxActiveTasks = 1000
	return &wideRun{bundle: b, run: b.trigger(d, "r"), g: dag.NewGraph(d)}
}

// decide holds what comes of going on against a look at the whole run.
func (w *wideRun) decide(s *dag.RunSnapshot, now time.Time) (dag.Decision, error) {
	all := *s
	all.Kept = nil
	whole := w.g.Evaluate(&all, now)
	if s.Kept == nil { // a scheduler of its own, which has not seen that others decide as well
		return whole, nil
	}
	before := s.Kept.Steps()
	kept := w.g.Evaluate(s, now)
	w.went += s.Kept.Steps() - before
	if len(whole.Transitions)+len(kept.Transitions) > 0 && !reflect.DeepEqual(whole.Transitions, kept.Transitions) ||
		whole.State != kept.State || !whole.NextAt.Equal(kept.NextAt) {
		return kept, fmt.Errorf("going on: %+v; a look at all: %+v", kept, whole)
	}
	return kept, nil
}

// trade hands in results and takes what it gets.
func (w *wideRun) trade(results ...dag.Result) {
	w.t.Helper()
	_, claims, report, err := w.s.ExchangeAndSchedule(w.t.Context(), results, dag.ClaimParams{WorkerID: "w1", Hostname: "h1", N: 12, Lease: testLease}, w.decide)
	require.NoError(w.t, err)
	w.got(claims, report)
}

// pass makes a pass and takes what it finds.
func (w *wideRun) pass() {
	w.t.Helper()
	claims, report, err := w.s.ScheduleAndClaim(w.t.Context(), dag.SchedulePass{Limit: 100}, dag.ClaimParams{WorkerID: "w1", Hostname: "h1", N: 12, Lease: testLease}, w.decide)
	require.NoError(w.t, err)
	w.got(claims, report)
}

func (w *wideRun) got(claims []dag.Claim, report dag.ScheduleReport) {
	w.t.Helper()
	for _, r := range report.Runs {
		require.NoError(w.t, r.Err)
		for _, task := range r.Decision.Expand {
			w.expand(task)
		}
	}
	w.held = append(w.held, claims...)
}

// expand makes 70 instances of a mapped task.
func (w *wideRun) expand(task string) {
	w.t.Helper()
	payloads := make([]json.RawMessage, 70)
	for i := range payloads {
		payloads[i] = raw(fmt.Sprintf(`{"x":%d}`, i))
	}
	_, err := w.s.ExpandTask(w.t.Context(), w.run.ID, task, payloads)
	require.NoError(w.t, err)
}

// settled holds the tables against a look at the whole run: where none is called
// for, there is nothing to decide.
func (w *wideRun) settled() {
	w.t.Helper()
	if w.count("SELECT COUNT(*) FROM dag_run WHERE state = 'running' AND next_eval_at IS NULL") == 0 {
		return
	}
	list, err := w.s.Instances(w.t.Context(), dag.InstanceFilter{DagID: w.run.DagID, RunID: w.run.RunID, Limit: -1})
	require.NoError(w.t, err)
	d := w.g.Evaluate(&dag.RunSnapshot{Run: w.run, Instances: list}, w.clock.Now())
	require.Empty(w.t, d.Transitions)
	require.Empty(w.t, d.Expand)
	require.False(w.t, d.State.Finished())
}

// some takes up to n of the claims that are held, in random order.
func (w *wideRun) some(r *rand.Rand, n int) []dag.Claim {
	r.Shuffle(len(w.held), func(i, j int) { w.held[i], w.held[j] = w.held[j], w.held[i] })
	n = min(n, len(w.held))
	out := w.held[:n:n]
	w.held = w.held[n:]
	return out
}

// wideDAG has a root, 70 tasks below it, a task below each of the first ten, one
// that waits for all and is not kept by failures, and a mapped task with a join.
func wideDAG() *dag.DAG {
	d := oneDAG("d", "root")
	add := func(id string, rule dag.TriggerRule, up ...string) *dag.Task {
		t := d.Tasks[0]
		t.ID, t.TriggerRule, t.Upstream = id, rule, up
		d.Tasks = append(d.Tasks, t)
		return &d.Tasks[len(d.Tasks)-1]
	}
	var all []string
	for i := range 70 {
		id := fmt.Sprintf("t%02d", i)
		all = append(all, id)
		add(id, dag.AllSuccess, "root")
	}
	for i := range 10 {
		add(fmt.Sprintf("u%02d", i), dag.AllSuccess, all[i])
	}
	add("join", dag.AllDone, all...)
	add("first", dag.OneSuccess, all...)
	mapped := add("mapped", dag.AllSuccess, "join")
	mapped.Expand = &dag.Expand{Names: []string{"x"}, Args: map[string]dag.ExpandSource{"x": {XCom: "join"}}}
	add("last", dag.AllDone, "mapped")
	return d
}

// testWide: in a run of many tasks whose results come in random batches, with
// failures, retries, hand-backs, clears and results by another process, every
// decision is that of a look at the whole run, and none is left out.
func testWide(t *testing.T, b *bundle) {
	random := rand.New(rand.NewPCG(7, 11))
	w := newWideRun(b, wideDAG())
	other := w.open()
	w.pass()
	for round := 0; w.bundle.run(w.run).State == dag.RunRunning; round++ {
		require.Less(t, round, 400, "the run does not end")
		w.clock.Advance(time.Duration(1+random.IntN(1000)) * time.Millisecond)
		results := []dag.Result{}
		for _, c := range w.some(random, 1+random.IntN(8)) {
			state := dag.StateSuccess
			switch n := random.IntN(12); {
			case c.TaskID == "root" || c.TaskID == "join": // else there is little to see
			case n == 0:
				state = dag.StateFailed
			case n < 3 && c.TryNumber < 3:
				state = dag.StateUpForRetry
			case n == 3:
				state = dag.StateSkipped
			}
			results = append(results, w.result(c, state))
		}
		switch random.IntN(12) {
		case 0: // the scheduler of another process has to look
			_, err := other.Apply(t.Context(), results)
			require.NoError(t, err)
			w.pass()
		case 1:
			w.trade(results...)
			_, err := other.Clear(t.Context(), dag.ClearRequest{DagID: "d", RunID: "r", TaskIDs: []string{fmt.Sprintf("u%02d", random.IntN(10))}})
			require.NoError(t, err)
		default:
			w.trade(results...)
		}
		w.settled()
		if len(w.held) == 0 {
			w.clock.Advance(5 * time.Minute)
			w.pass()
			w.settled()
		}
	}
	require.Greater(t, w.went, 30)
	states := w.states(w.run)
	require.Equal(t, dag.StateSuccess, states["join"])
	require.Contains(t, states, "mapped[69]")
	w.sound()
}
