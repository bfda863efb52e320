package app_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/replay"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// guard gives the step of the letters a circuit, as a newer version of its DAG.
func (h *deskHouse) guard(circuit string) {
	h.t.Helper()
	rows, err := h.st.DAGRows(h.t.Context(), dag.DAGFilter{IDs: []string{"d"}})
	require.NoError(h.t, err)
	require.Len(h.t, rows, 1)
	d, err := h.st.Version(h.t.Context(), rows[0].VersionID)
	require.NoError(h.t, err)
	guarded := *d
	guarded.Tasks = slices.Clone(d.Tasks)
	guarded.Tasks[0].Circuit = circuit
	_, err = h.st.SyncDAGs(h.t.Context(), []dag.DAGUpdate{{DAG: &guarded}})
	require.NoError(h.t, err)
}

// setCircuit puts a breaker into a state; an open one is held by hand, or may be
// probed after a while.
func (h *deskHouse) setCircuit(name string, state dag.CircuitState, openFor time.Duration) {
	h.t.Helper()
	_, after, err := h.st.UpdateCircuit(h.t.Context(), dag.CircuitUpdate{
		Name: name, Window: time.Minute, Decide: func(c dag.Circuit, _ dag.CircuitWindow, now time.Time) (dag.Circuit, []dag.Event) {
			c.Name, c.State, c.Policy, c.ChangedAt = name, state, dag.DefaultCircuitPolicy(), now
			c.OpenedAt, c.RetryAt, c.ByHand = nil, nil, false
			if state == dag.CircuitOpen {
				c.OpenedAt, c.ByHand = &now, openFor == 0
				if retry := now.Add(openFor); openFor > 0 {
					c.RetryAt = &retry
				}
			}
			return c, nil
		},
	})
	require.NoError(h.t, err)
	require.Equal(h.t, state, after.State)
}

// An open circuit of the step, or of the connection that it names, keeps letters
// sealed: in the dry run and in the drain. Closed, they are put back.
func TestReplayWaitsForAnOpenCircuit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		openFor    time.Duration
		step, conn bool
	}{
		"of the step, held by hand":        {step: true},
		"of the step, until it is probed":  {step: true, openFor: time.Hour},
		"of the connection, held by hand":  {conn: true},
		"of the connection, until a probe": {conn: true, openFor: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			uri := "sqlite:///" + filepath.Join(t.TempDir(), "target.db")
			target, err := dialect.Open(t.Context(), uri, dialect.Options{Create: true})
			require.NoError(t, err)
			require.NoError(t, target.Close())
			if c.conn {
				uri += "?circuit=depot"
			}
			h := newDeskHouse(t, 3, "AIRLOCK_CONN_TARGET="+uri)
			if c.step {
				h.guard("depot")
			}
			h.setCircuit("elsewhere", dag.CircuitOpen, 0) // of no concern
			h.setCircuit("depot", dag.CircuitOpen, c.openFor)
			const why = "deferred: the circuit depot is open"
			open := dag.DrainCounts{Deferred: 3}

			plan, err := h.desk(true).DryRun(t.Context(), usual(), nil)
			require.NoError(t, err)
			require.Equal(t, replay.Plan{DrainCounts: open, Selected: 3, Reasons: map[string]int{why: 3}, Samples: map[string]int64{why: 1}}, plan)
			require.Zero(t, h.count("SELECT COUNT(*) FROM dead_letter_audit"), "a dry run changes nothing")

			d := h.drain(h.desk(true), usual())
			require.Equal(t, []any{dag.DrainDone, open}, []any{d.State, d.DrainCounts})
			reasons, err := h.st.DrainReasons(t.Context(), d.ID)
			require.NoError(t, err)
			require.Equal(t, []dag.DrainReason{{Decision: dag.DecisionDeferred, Reason: why, Count: 3, Sample: 1}}, reasons)
			require.Equal(t, 3, h.count("SELECT COUNT(*) FROM dead_letter WHERE status = 'sealed' AND return_count = 0 AND drain_id IS NULL"))
			require.Zero(t, h.count("SELECT COUNT(*) FROM task_instance WHERE state <> 'failed'"))

			h.setCircuit("depot", dag.CircuitClosed, 0)
			plan, err = h.desk(true).DryRun(t.Context(), usual(), nil)
			require.NoError(t, err)
			require.Equal(t, dag.DrainCounts{Replayed: 3}, plan.DrainCounts)
			d = h.drain(h.desk(true), usual())
			require.Equal(t, []any{dag.DrainDone, dag.DrainCounts{Replayed: 3}}, []any{d.State, d.DrainCounts})
			require.Equal(t, 3, h.work(t.Context(), func(string) bool { return true }))
			require.Equal(t, dag.DrainOutcome{Resolved: 3}, h.ended(d.ID))
			require.Equal(t, 3, h.count("SELECT COUNT(*) FROM dead_letter WHERE status = 'resolved'"))
			require.Equal(t, 6, h.count("SELECT COUNT(*) FROM dead_letter_audit"), "two drains, three letters each")
		})
	}
}

// A circuit that opens while letters are put back pauses the drain: those that
// are left are not decided about, and go on when somebody resumes it.
func TestACircuitThatOpensPausesTheDrain(t *testing.T) {
	t.Parallel()
	uri := "sqlite:///" + filepath.Join(t.TempDir(), "target.db")
	target, err := dialect.Open(t.Context(), uri, dialect.Options{Create: true})
	require.NoError(t, err)
	require.NoError(t, target.Close())
	h := newDeskHouse(t, 25, "AIRLOCK_CONN_TARGET="+uri)
	h.guard("depot")
	h.setCircuit("depot", dag.CircuitClosed, 0)
	r := usual()
	r.Rate, r.PauseShare = 10, 0.5 // the first page is the letters of two seconds, twenty
	desk := h.desk(true)
	d, err := desk.Begin(t.Context(), r)
	require.NoError(t, err)
	d, err = desk.Run(t.Context(), d.ID, "cli:ann", func(tick replay.Tick) {
		if tick.Drain.Replayed == 3 {
			h.setCircuit("depot", dag.CircuitOpen, time.Hour)
		}
	})
	require.NoError(t, err)
	require.Equal(t, dag.DrainPaused, d.State)
	require.Contains(t, d.Reason, "circuit depot opened")
	require.Less(t, d.Sum(), 25)
	require.Equal(t, d.Sum(), d.Replayed, "nothing is deferred")

	h.setCircuit("depot", dag.CircuitClosed, 0)
	again := h.desk(true)
	d, err = again.Resume(t.Context(), d.ID)
	require.NoError(t, err)
	require.InDelta(t, 0.5, d.PauseShare, 0, "nobody has judged what came back")
	d, err = again.Run(t.Context(), d.ID, "cli:ann", nil)
	require.NoError(t, err)
	require.Equal(t, []any{dag.DrainDone, 25}, []any{d.State, d.Replayed})
	require.Equal(t, 25, h.count("SELECT COUNT(*) FROM dead_letter_audit"))
}
