package storetest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/store"
)

// trip opens a closed breaker at three failures, with one alert.
func trip(c dag.Circuit, w dag.CircuitWindow, now time.Time) (dag.Circuit, []dag.Event) {
	next := c
	next.Policy = dag.DefaultCircuitPolicy()
	if c.State == dag.CircuitClosed && w.Failures >= 3 {
		at, retry := now, now.Add(30*time.Second)
		next.State, next.OpenedAt, next.RetryAt, next.Openings, next.Reason = dag.CircuitOpen, &at, &retry, c.Openings+1, "3 failed"
	}
	return next, dag.CircuitEvents(c, next, now)
}

func testCircuits(t *testing.T, b *bundle) {
	ctx := t.Context()
	open, until, err := b.s.CircuitOpen(ctx, "packager")
	require.NoError(t, err)
	require.False(t, open)
	require.Nil(t, until)

	update := func(u dag.CircuitUpdate) (before, after dag.Circuit) {
		u.Name, u.Window = "packager", time.Minute
		before, after, err := b.s.UpdateCircuit(ctx, u)
		require.NoError(t, err)
		return before, after
	}
	var seen dag.CircuitWindow
	look := func(c dag.Circuit, w dag.CircuitWindow, _ time.Time) (dag.Circuit, []dag.Event) {
		seen = w
		return c, nil
	}
	update(dag.CircuitUpdate{Calls: 5, Failures: 1, Decide: trip})
	b.clock.Advance(40 * time.Second)
	update(dag.CircuitUpdate{Calls: 2, Failures: 1, Decide: look})
	require.Equal(t, dag.CircuitWindow{Calls: 7, Failures: 2}, seen)
	b.clock.Advance(30 * time.Second)
	update(dag.CircuitUpdate{Decide: look})
	require.Equal(t, dag.CircuitWindow{Calls: 2, Failures: 1}, seen, "the first five are more than a minute old")

	before, after := update(dag.CircuitUpdate{Calls: 2, Failures: 2, Decide: trip})
	require.Equal(t, dag.CircuitClosed, before.State)
	require.Equal(t, dag.CircuitOpen, after.State)
	list, err := b.s.Circuits(ctx, true)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, dag.CircuitWindow{Calls: 4, Failures: 3}, list[0].Window)
	list[0].Window = dag.CircuitWindow{}
	require.Equal(t, after, list[0])
	require.Equal(t, b.clock.Now(), list[0].ChangedAt)
	_, same := update(dag.CircuitUpdate{Decide: look})
	require.Equal(t, after, same, "a step that changes nothing writes nothing")

	open, until, err = b.s.CircuitOpen(ctx, "packager")
	require.NoError(t, err)
	require.True(t, open)
	require.Equal(t, b.clock.Now().Add(30*time.Second), *until)
	events, err := b.s.ClaimEvents(ctx, "me", 10, time.Minute)
	require.NoError(t, err)
	require.Len(t, events, 1)
	require.Equal(t, dag.EventCircuitOpen, events[0].Kind)
	b.clock.Advance(31 * time.Second)
	open, _, err = b.s.CircuitOpen(ctx, "packager")
	require.NoError(t, err)
	require.False(t, open, "a probe may go")

	update(dag.CircuitUpdate{
		Audit: &dag.AuditEntry{Actor: "alice", Action: "circuit.close", Subject: "packager"},
		Decide: func(c dag.Circuit, _ dag.CircuitWindow, _ time.Time) (dag.Circuit, []dag.Event) {
			return dag.Circuit{State: dag.CircuitClosed, Openings: c.Openings, Policy: c.Policy}, nil
		},
	})
	update(dag.CircuitUpdate{Decide: look})
	require.Zero(t, seen, "a breaker that closes begins with an empty window")
	audit, err := b.s.Audit(ctx, dag.AuditFilter{Action: "circuit.close"})
	require.NoError(t, err)
	require.Len(t, audit, 1)

	_, _, err = b.s.UpdateCircuit(ctx, dag.CircuitUpdate{Decide: look})
	require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))
}

// Any number of processes may count and decide at once: no call is lost, and
// one opening is one change and one alert.
func testCircuitRace(t *testing.T, b *bundle) {
	stores := []*store.Store{b.s, b.open(), b.open()}
	const each = 8
	var g sync.WaitGroup
	errs := make([]error, len(stores)*2)
	opened := make([]int, len(errs))
	for i := range errs {
		g.Go(func() {
			for range each {
				before, after, err := stores[i%len(stores)].UpdateCircuit(t.Context(), dag.CircuitUpdate{
					Name: "packager", Calls: 1, Failures: 1, Window: time.Minute, Decide: trip,
				})
				errs[i] = errors.Join(errs[i], err)
				if before.State != after.State {
					opened[i]++
				}
			}
		})
	}
	g.Wait()
	total := 0
	for i, err := range errs {
		require.NoError(t, err)
		total += opened[i]
	}
	require.Equal(t, 1, total)
	list, err := b.s.Circuits(t.Context(), true)
	require.NoError(t, err)
	require.Equal(t, dag.CircuitWindow{Calls: len(errs) * each, Failures: len(errs) * each}, list[0].Window)
	require.Equal(t, 1, list[0].Openings)
	require.Equal(t, 1, b.count("SELECT COUNT(*) FROM callback_event WHERE kind = 'on_circuit_open'"))
}
