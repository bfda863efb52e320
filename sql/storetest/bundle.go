package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
	"github.com/airlock-dag/airlock/sql/store"
)

// start is where every test's clock stands at first.
var start = time.Date(2026, 6, 10, 12, 0, 0, 123456000, time.UTC)

const (
	testLease = 30 * time.Second
	testKey   = "cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4="
)

// bundle is one store with what a test needs around it.
type bundle struct {
	t     *testing.T
	dsn   string
	clock *dagtest.Clock
	s     *store.Store
}

func newBundle(t *testing.T, fresh Fresh) *bundle {
	t.Helper()
	b := &bundle{t: t, dsn: fresh(t), clock: dagtest.NewClock(start)}
	b.s = b.open()
	require.NoError(t, b.s.Migrate(t.Context()))
	return b
}

// open is another process on the same database.
func (b *bundle) open() *store.Store {
	b.t.Helper()
	s, err := store.Open(b.t.Context(), b.dsn, store.Options{Clock: b.clock, FernetKey: testKey})
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = s.Close() })
	return s
}

// oneDAG is a DAG of bash tasks; "b<a" is a task b below a.
func oneDAG(id string, tasks ...string) *dag.DAG {
	d := &dag.DAG{ID: id, MaxActiveRuns: 16, MaxActiveTasks: 16, Timezone: "UTC"}
	for _, text := range tasks {
		task := dag.Task{
			ID: text, Operator: "bash", Queue: dag.DefaultQueue, Pool: dag.DefaultPool, PoolSlots: 1, PriorityWeight: 1, WeightRule: "absolute",
			TriggerRule: dag.AllSuccess, IgnoreFirstDependsOnPast: true, Retry: dag.RetryPolicy{Retries: 2, MaxCrashes: 3},
		}
		for i := range text {
			if text[i] == '<' {
				task.ID, task.Upstream = text[:i], []string{text[i+1:]}
			}
		}
		d.Tasks = append(d.Tasks, task)
	}
	return d
}

// sync stores a DAG, unpaused, and gives its version.
func (b *bundle) sync(d *dag.DAG) int64 {
	b.t.Helper()
	ids, err := b.s.SyncDAGs(b.t.Context(), []dag.DAGUpdate{{DAG: d}})
	require.NoError(b.t, err)
	return ids[0]
}

// newRun asks for a manual run of a DAG.
func (b *bundle) newRun(d *dag.DAG, version int64, runID string) dag.NewRun {
	return dag.NewRun{
		Run:       dag.Run{DagID: d.ID, RunID: runID, Type: dag.RunManual, RunAfter: b.clock.Now(), VersionID: version, TriggeredBy: "test"},
		Instances: dag.NewInstances(d),
	}
}

// trigger syncs a DAG and makes a run of it.
func (b *bundle) trigger(d *dag.DAG, runID string) dag.Run {
	b.t.Helper()
	got, err := b.s.CreateRuns(b.t.Context(), []dag.NewRun{b.newRun(d, b.sync(d), runID)})
	require.NoError(b.t, err)
	require.False(b.t, got[0].Existed)
	return got[0].Run
}

// decide is the product's own decision.
func (b *bundle) decide(s *dag.RunSnapshot, now time.Time) (dag.Decision, error) {
	d, err := b.s.Version(b.t.Context(), s.Run.VersionID)
	if err != nil {
		return dag.Decision{}, err
	}
	return dag.Evaluate(d, s, now), nil
}

// pass is one scheduling pass over all runs that need a look.
func (b *bundle) pass() dag.ScheduleReport {
	b.t.Helper()
	report, err := b.s.Schedule(b.t.Context(), dag.SchedulePass{Limit: 100}, b.decide)
	require.NoError(b.t, err)
	for _, r := range report.Runs {
		require.NoError(b.t, r.Err)
	}
	return report
}

func (b *bundle) claim(n int) []dag.Claim {
	b.t.Helper()
	got, err := b.s.Claim(b.t.Context(), dag.ClaimParams{WorkerID: "w1", Hostname: "h1", N: n, Lease: testLease})
	require.NoError(b.t, err)
	return got
}

// claimTask claims everything and gives the one instance of a task.
func (b *bundle) claimTask(task string) dag.Claim {
	b.t.Helper()
	for _, c := range b.claim(100) {
		if c.TaskID == task {
			return c
		}
	}
	require.Fail(b.t, "nothing queued for task "+task)
	return dag.Claim{}
}

func (b *bundle) apply(results ...dag.Result) []dag.ApplyStatus {
	b.t.Helper()
	got, err := b.s.Apply(b.t.Context(), results)
	require.NoError(b.t, err)
	return got
}

// result is the end of a claimed attempt, one second after the clock.
func (b *bundle) result(c dag.Claim, state dag.State) dag.Result {
	now := b.clock.Now()
	r := dag.Result{
		TaskInstanceID: c.ID, Fence: c.Fence, State: state, SpendTry: true,
		Attempt: dag.Attempt{WorkerID: c.WorkerID, Hostname: c.Hostname, StartDate: *c.StartDate, EndDate: now, LogPath: "x/y.log"},
	}
	if state == dag.StateFailed || state == dag.StateUpForRetry {
		r.Spent = dag.BudgetFailures
		r.Attempt.ErrorClass, r.Attempt.ErrorCode, r.Attempt.ErrorMessage = dag.ClassTransient, "EXIT_CODE", "exit code 1"
	}
	if state == dag.StateUpForRetry {
		at := now.Add(5 * time.Minute)
		r.NextTryAt = &at
	}
	if state == dag.StateFailed {
		l := b.letter(c, "exit code 1")
		r.Letter = &l
	}
	return r
}

func (b *bundle) letter(c dag.Claim, message string) dag.DeadLetter {
	return dag.Seal(dag.SealInput{
		TI: c.TaskInstance, Run: c.Run, Attempts: c.TryNumber, At: b.clock.Now(),
		Err: &dag.TaskError{Class: dag.ClassPermanent, Code: "EXIT_CODE", Message: message},
	})
}

// finish schedules, claims and ends everything until nothing is queued.
func (b *bundle) finish(state func(c dag.Claim) dag.State) {
	b.t.Helper()
	for {
		b.pass()
		claims := b.claim(100)
		if len(claims) == 0 {
			return
		}
		var results []dag.Result
		for _, c := range claims {
			results = append(results, b.result(c, state(c)))
		}
		for _, st := range b.apply(results...) {
			require.Equal(b.t, dag.Applied, st)
		}
	}
}

func succeed(dag.Claim) dag.State { return dag.StateSuccess }

// states are the states of a run's instances by task, with [n] for mapped ones.
func (b *bundle) states(run dag.Run) map[string]dag.State {
	b.t.Helper()
	list, err := b.s.Instances(b.t.Context(), dag.InstanceFilter{DagID: run.DagID, RunID: run.RunID, Limit: -1})
	require.NoError(b.t, err)
	out := map[string]dag.State{}
	for _, ti := range list {
		name := ti.TaskID
		if ti.MapIndex >= 0 {
			name += fmt.Sprintf("[%d]", ti.MapIndex)
		}
		out[name] = ti.State
	}
	return out
}

func (b *bundle) instance(run dag.Run, task string) dag.TaskInstance {
	b.t.Helper()
	list, err := b.s.Instances(b.t.Context(), dag.InstanceFilter{DagID: run.DagID, RunID: run.RunID, TaskID: task})
	require.NoError(b.t, err)
	require.Len(b.t, list, 1)
	return list[0]
}

func (b *bundle) run(run dag.Run) dag.Run {
	b.t.Helper()
	got, err := b.s.Run(b.t.Context(), run.DagID, run.RunID)
	require.NoError(b.t, err)
	return got
}

// sound proves that no promise is broken.
func (b *bundle) sound() {
	b.t.Helper()
	got, err := b.s.Check(b.t.Context())
	require.NoError(b.t, err)
	require.Empty(b.t, got)
}

// behind runs a statement behind the store's back, and has letters counted anew
// that it may have changed.
func (b *bundle) behind(statement string, args ...any) {
	b.t.Helper()
	b.raw(statement, args...)
	if strings.HasPrefix(statement, "UPDATE dead_letter") || strings.HasPrefix(statement, "DELETE FROM dead_letter") ||
		strings.HasPrefix(statement, "INSERT INTO dead_letter") {
		_, err := b.s.Recount(b.t.Context())
		require.NoError(b.t, err)
	}
}

// raw runs a statement behind the store's back and mends nothing.
func (b *bundle) raw(statement string, args ...any) {
	b.t.Helper()
	_, err := b.s.DB().Writer().ExecContext(b.t.Context(), statement, args...)
	require.NoError(b.t, err, statement)
}

func (b *bundle) count(query string, args ...any) int {
	b.t.Helper()
	var n int
	require.NoError(b.t, b.s.DB().Reader().GetContext(b.t.Context(), &n, query, args...))
	return n
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func ptr[T any](v T) *T { return &v }
