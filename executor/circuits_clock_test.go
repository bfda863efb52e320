package executor

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
	"github.com/airlock-dag/airlock/executor/breaker"
)

// oneCircuit keeps one breaker and goes by the database's clock.
type oneCircuit struct {
	clock dag.Clock
	c     dag.Circuit
}

func (s *oneCircuit) Circuits(context.Context, bool) ([]dag.Circuit, error) {
	return []dag.Circuit{s.c}, nil
}

func (s *oneCircuit) UpdateCircuit(_ context.Context, u dag.CircuitUpdate) (before, after dag.Circuit, err error) {
	before = s.c
	s.c, _ = u.Decide(before, dag.CircuitWindow{}, s.clock.Now())
	s.c.Version++
	return before, s.c, nil
}

// A worker whose machine is ten minutes late probes an open circuit when the
// database's clock says so, not ten minutes later.
func TestCircuitsGoByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	here, database := dagtest.NewClock(noon.Add(-10*time.Minute)), dagtest.NewClock(noon)
	retry := noon.Add(-time.Second)
	need := []breaker.Need{{Name: "packager", Policy: dag.DefaultCircuitPolicy()}}
	st := &oneCircuit{clock: database, c: dag.Circuit{Name: "packager", State: dag.CircuitOpen, OpenedAt: &retry, RetryAt: &retry, Version: 1}}
	w := NewWorker(WorkerOptions{Clock: here, Circuits: breaker.NewGuard(breaker.Options{Store: st, Clock: here})})
	w.clock.learn(noon, here.Now(), here.Now())

	ticket, name, until := w.o.Circuits.Enter(t.Context(), need)
	require.NotNil(t, ticket, "%s is refused until %s", name, until)
	require.Equal(t, dag.CircuitHalfOpen, st.c.State)
	require.Equal(t, 1, st.c.Probes)
}
