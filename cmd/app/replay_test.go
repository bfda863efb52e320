package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/app"
	"github.com/airlock-dag/airlock/cmd/config"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/replay"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/store"
)

// deskHouse is an application with sealed letters, and no engine: the test ends
// the attempts.
type deskHouse struct {
	t   *testing.T
	app *app.App
	st  *store.Store
}

// newDeskHouse seals n letters of a SQL step over the given connection.
func newDeskHouse(t *testing.T, n int, connections ...string) *deskHouse {
	t.Helper()
	cfg := config.Default(t.TempDir())
	a, err := app.New(t.Context(), app.Options{Config: cfg, Environment: config.NewEnvironment(connections)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.Close() })
	h := &deskHouse{t: t, app: a, st: a.Store()}
	d := &dag.DAG{ID: "d", MaxActiveRuns: 1 << 20, MaxActiveTasks: 1 << 20, Timezone: "UTC", Tasks: []dag.Task{{
		ID: "work", Operator: "sql", Args: map[string]any{"conn_id": "target", "sql": "SELECT 1"}, Queue: dag.DefaultQueue, Pool: dag.DefaultPool, PoolSlots: 1,
		PriorityWeight: 1, WeightRule: "absolute", TriggerRule: dag.AllSuccess,
	}}}
	versions, err := h.st.SyncDAGs(t.Context(), []dag.DAGUpdate{{DAG: d}})
	require.NoError(t, err)
	for _, pool := range []string{dag.DefaultPool, dag.ReplayPool} {
		require.NoError(t, h.st.SetPool(t.Context(), dag.Pool{Name: pool, Slots: -1}))
	}
	var runs []dag.NewRun
	for i := range n {
		runs = append(runs, dag.NewRun{
			Run:       dag.Run{DagID: "d", RunID: fmt.Sprintf("r%04d", i), Type: dag.RunManual, RunAfter: time.Now().UTC().Add(-time.Second), VersionID: versions[0]},
			Instances: dag.NewInstances(d),
		})
	}
	_, err = h.st.CreateRuns(t.Context(), runs)
	require.NoError(t, err)
	for h.work(t.Context(), func(string) bool { return false }) > 0 {
		continue
	}
	require.Equal(t, n, h.count("SELECT COUNT(*) FROM dead_letter WHERE status = 'sealed'"))
	return h
}

// work ends what is queued: good says which runs succeed. It tells how many
// attempts it ended.
func (h *deskHouse) work(ctx context.Context, good func(runID string) bool) int {
	h.t.Helper()
	_, err := h.st.Schedule(ctx, dag.SchedulePass{Limit: 500}, func(s *dag.RunSnapshot, now time.Time) (dag.Decision, error) {
		d, err := h.st.Version(context.WithoutCancel(ctx), s.Run.VersionID)
		if err != nil {
			return dag.Decision{}, err
		}
		return dag.Evaluate(d, s, now), nil
	})
	if ctx.Err() != nil {
		return 0
	}
	require.NoError(h.t, err)
	claims, err := h.st.Claim(ctx, dag.ClaimParams{WorkerID: "w", N: 500, Lease: time.Minute})
	if ctx.Err() != nil {
		return 0
	}
	require.NoError(h.t, err)
	results := make([]dag.Result, len(claims))
	for i, c := range claims {
		at := time.Now().UTC()
		results[i] = dag.Result{
			TaskInstanceID: c.ID, Fence: c.Fence, State: dag.StateSuccess, SpendTry: true,
			Attempt: dag.Attempt{WorkerID: "w", StartDate: *c.StartDate, EndDate: at},
		}
		if !good(c.RunID) {
			l := dag.Seal(dag.SealInput{TI: c.TaskInstance, Run: c.Run, Attempts: c.TryNumber, At: at, Payload: json.RawMessage(`{"conn_id":"target","n":1}`),
				Err: &dag.TaskError{Class: dag.ClassPermanent, Code: "EXIT_CODE", Message: "it failed"}})
			results[i].State, results[i].Letter, results[i].Spent = dag.StateFailed, &l, dag.BudgetFailures
		}
	}
	_, err = h.st.Apply(context.WithoutCancel(ctx), results)
	require.NoError(h.t, err)
	return len(results)
}

// worker works in the background until the test's end or stop.
func (h *deskHouse) worker(good func(runID string) bool) (stop func()) {
	ctx, cancel := context.WithCancel(h.t.Context())
	var g sync.WaitGroup
	g.Go(func() {
		for ctx.Err() == nil {
			if h.work(ctx, good) == 0 {
				select {
				case <-ctx.Done():
				case <-time.After(5 * time.Millisecond):
				}
			}
		}
	})
	return func() { cancel(); g.Wait() }
}

func (h *deskHouse) count(query string, args ...any) int {
	h.t.Helper()
	var n int
	require.NoError(h.t, h.st.DB().Reader().Get(&n, query, args...))
	return n
}

func (h *deskHouse) desk(probing bool) *app.Desk {
	d := h.app.NewDesk(probing)
	h.t.Cleanup(func() { _ = d.Close() })
	return d
}

func usual() replay.Request {
	return replay.Request{MaxReturns: 3, PauseShare: 1, Actor: "cli:ann"}
}

// drain does what a request asks for.
func (h *deskHouse) drain(d *app.Desk, r replay.Request) dag.Drain {
	h.t.Helper()
	drain, err := d.Begin(h.t.Context(), r)
	require.NoError(h.t, err)
	drain, err = d.Run(h.t.Context(), drain.ID, r.Actor, nil)
	require.NoError(h.t, err)
	return drain
}

func (h *deskHouse) ended(id string) dag.DrainOutcome {
	h.t.Helper()
	var out dag.DrainOutcome
	require.Eventually(h.t, func() bool {
		var err error
		out, err = h.st.DrainOutcome(h.t.Context(), id)
		return err == nil && out.InFlight == 0
	}, time.Minute, 10*time.Millisecond)
	return out
}

// Letters that come back do not go round in a circle: a drain tries each once,
// and the gate of poison holds them when they came back too often.
func TestReplayDoesNotGoRound(t *testing.T) {
	t.Parallel()
	const all, poison = 1000, 300
	h := newDeskHouse(t, all)
	desk := h.desk(false)
	stop := h.worker(func(runID string) bool { return runID >= fmt.Sprintf("r%04d", poison) })
	defer stop()
	plan, err := desk.DryRun(t.Context(), usual(), nil)
	require.NoError(t, err)
	d := h.drain(desk, usual())
	require.Equal(t, plan.DrainCounts, d.DrainCounts)
	require.Equal(t, []any{dag.DrainDone, all}, []any{d.State, d.Replayed})
	require.Equal(t, dag.DrainOutcome{Resolved: all - poison, Back: poison}, h.ended(d.ID))
	require.Equal(t, poison, h.count("SELECT COUNT(*) FROM dead_letter WHERE status = 'sealed' AND return_count = 1"))
	for range 3 {
		d = h.drain(desk, usual())
		require.Equal(t, poison, d.Replayed)
		h.ended(d.ID)
	}
	d = h.drain(desk, usual())
	require.Equal(t, dag.DrainCounts{Quarantine: poison}, d.DrainCounts, "four returns are more than three")
	require.Equal(t, all+4*poison, h.count("SELECT COUNT(*) FROM dead_letter_audit"))
	broken, err := h.st.Check(t.Context())
	require.NoError(t, err)
	require.Empty(t, broken)
}

// What the target's own ledger has as done is dropped; a condition selects by
// the payload; of two letters with one key only the first goes.
func TestReplayAsksTheTarget(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "target.db")
	h := newDeskHouse(t, 4, "AIRLOCK_CONN_TARGET=sqlite:///"+path)
	desk := h.desk(true)
	plan, err := desk.DryRun(t.Context(), usual(), nil)
	require.NoError(t, err)
	require.Equal(t, dag.DrainCounts{Deferred: 4}, plan.DrainCounts)
	for reason := range plan.Reasons {
		require.Contains(t, reason, "connection target cannot be used", "there is no such file")
	}
	early := h.drain(h.desk(true), usual())
	require.Equal(t, []any{dag.DrainDone, plan.DrainCounts}, []any{early.State, early.DrainCounts}, "the drain does what the dry run says")

	db, err := dialect.Open(t.Context(), "sqlite:///"+path, dialect.Options{Create: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	_, err = db.Writer().Exec("CREATE TABLE airlock_effect (idempotency_key TEXT PRIMARY KEY, status TEXT)")
	require.NoError(t, err)
	_, err = db.Writer().Exec("INSERT INTO airlock_effect VALUES ('d/work/r0000', 'done'), ('d/work/r0001', 'open')")
	require.NoError(t, err)
	_, err = h.st.DB().Writer().Exec("UPDATE dead_letter SET idempotency_key = 'd/work/r0001' WHERE run_id = 'r0002'")
	require.NoError(t, err)
	desk = h.desk(true)
	want := dag.DrainCounts{DropDuplicate: 1, Replayed: 2, Deferred: 1}
	r := usual()
	r.Where = "payload.n == 1"
	plan, err = desk.DryRun(t.Context(), r, nil)
	require.NoError(t, err)
	require.Equal(t, want, plan.DrainCounts)
	require.Equal(t, want, h.drain(desk, r).DrainCounts)
	require.Equal(t, 1, h.count("SELECT COUNT(*) FROM dead_letter_audit WHERE decision = 'drop_duplicate' AND reason LIKE '%airlock_effect of connection target%'"))
	require.Equal(t, 1, h.count("SELECT COUNT(*) FROM dead_letter_audit WHERE decision = 'deferred' AND reason LIKE '%same effect%'"))
	r.Where = "payload.n == 2"
	require.Zero(t, h.drain(desk, r).Sum())
}

// A drain that is stopped goes on where it was; one of which too much comes back
// pauses by itself, and goes on when somebody says so.
func TestReplayStopsPausesAndGoesOn(t *testing.T) {
	t.Parallel()
	h := newDeskHouse(t, 200)
	desk := h.desk(false)
	r := usual()
	r.Rate, r.Limit = 100, 150
	d, err := desk.Begin(t.Context(), r)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	d, err = desk.Run(ctx, d.ID, "cli:ann", func(tick replay.Tick) {
		if tick.Drain.Replayed >= 3 {
			stop()
		}
	})
	stop()
	require.NoError(t, err)
	require.Equal(t, []any{dag.DrainStopped, 3}, []any{d.State, d.Replayed})
	d, err = desk.Resume(t.Context(), d.ID)
	require.NoError(t, err)
	d, err = desk.Run(t.Context(), d.ID, "cli:ann", nil)
	require.NoError(t, err)
	require.Equal(t, []any{dag.DrainDone, 150}, []any{d.State, d.Replayed})
	require.Equal(t, 150, h.count("SELECT COUNT(DISTINCT dead_letter_id) FROM dead_letter_audit"))

	end := h.worker(func(string) bool { return false })
	defer end()
	h.ended(d.ID)
	r = usual()
	r.Rate, r.PauseShare = 30, 0.5 // seven seconds: it is looked at each second, and fifty have to be back
	d = h.drain(desk, r)
	require.Equal(t, dag.DrainPaused, d.State)
	require.Contains(t, d.Reason, "came back")
	require.Less(t, d.Replayed, 200)
	d, err = desk.Resume(t.Context(), d.ID)
	require.NoError(t, err)
	d, err = desk.Run(t.Context(), d.ID, "cli:ann", nil)
	require.NoError(t, err)
	require.Equal(t, []any{dag.DrainDone, 200}, []any{d.State, d.Replayed})
	_, err = desk.Resume(t.Context(), d.ID)
	require.Equal(t, dag.ErrConflict, dag.CodeOf(err))
	for _, bad := range []replay.Request{{Rate: -1}, {PauseShare: 3}, {Where: "("}} {
		_, err := desk.Begin(t.Context(), bad)
		require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))
		_, err = desk.DryRun(t.Context(), bad, nil)
		require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))
	}
}

// A drain that waits for the ends of its letters looks without writing.
func TestADrainThatWaitsWritesNothing(t *testing.T) {
	t.Parallel()
	h := newDeskHouse(t, 3)
	desk := h.desk(false)
	ctx, stop := context.WithCancel(t.Context())
	r := usual()
	r.MaxInFlight = 1
	d, err := desk.Begin(ctx, r)
	require.NoError(t, err)
	var commits []int64
	d, err = desk.Run(ctx, d.ID, "cli:ann", func(tick replay.Tick) {
		if tick.WaitFor == dag.WaitInFlight {
			commits = append(commits, h.st.DB().Commits())
		}
		if len(commits) == 5 {
			stop()
		}
	})
	require.NoError(t, err)
	require.Equal(t, []any{dag.DrainStopped, 1}, []any{d.State, d.Replayed})
	// The first waits after a replay, the second has looked once more; then it only reads.
	require.Equal(t, []int64{commits[1], commits[1], commits[1]}, commits[2:])
}

// Letters that joined since a drain began are those that it would have selected,
// by its condition, too.
func TestJoinedLettersFitTheCondition(t *testing.T) {
	t.Parallel()
	h := newDeskHouse(t, 4)
	desk := h.desk(false)
	for _, c := range []struct {
		where string
		want  []int // letters in each group
	}{{"", []int{3}}, {`run_id == "r0002"`, []int{1}}, {`run_id == "r0000"`, nil}, {`payload.conn_id == "target"`, []int{3}}} {
		r := usual()
		r.Where = c.where
		d, err := desk.Begin(t.Context(), r)
		require.NoError(t, err)
		d.MaxID = 1 // as if the others had been sealed since
		groups, err := desk.Joined(t.Context(), d)
		require.NoError(t, err)
		var got []int
		for _, g := range groups {
			got = append(got, g.Count)
			require.Equal(t, []any{"d", "work"}, []any{g.DagID, g.TaskID})
			require.NotEmpty(t, g.Message)
		}
		require.Equal(t, c.want, got, c.where)
	}
}
