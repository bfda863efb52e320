package executor

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
)

var errRefused = errors.New("dial tcp: connection refused")

// echo is an operator that succeeds when its text was rendered.
type echo struct{}

func (echo) Spec() dag.OperatorSpec {
	return dag.OperatorSpec{Name: "echo", Fields: []dag.Field{{Name: "text", Type: dag.FieldString, Templated: true}}}
}

func (echo) Run(context.Context, *operator.Task) dag.Outcome { return dag.Success(nil) }

func echoDAG(text string) *dag.DAG {
	return &dag.DAG{ID: "d", Tasks: []dag.Task{{
		ID: "t", Operator: "echo", Args: map[string]any{"text": text}, Retry: dag.RetryPolicy{MaxCrashes: 3},
		Callbacks: dag.Callbacks{OnFailure: []dag.Callback{{Name: "log"}}},
	}}}
}

// attemptOn makes one attempt of d/t on a store.
func attemptOn(t *testing.T, w *Worker) dag.Result {
	t.Helper()
	c := claim(1, 1)
	c.TryNumber = 1
	_, result := w.attempt(t.Context(), c)
	return result
}

func workerOn(t *testing.T, store interface {
	WorkerStore
	SettingsStore
}) *Worker {
	t.Helper()
	return NewWorker(WorkerOptions{
		Store: store, Settings: store, Operators: operator.NewRegistry(echo{}), LogsDir: t.TempDir(), ScratchRoot: t.TempDir(),
		Log: slog.New(slog.DiscardHandler),
	})
}

// TestAnAbsentStateDatabaseSpendsNothing: a task without retries is handed back
// when its version, or what its template needs, cannot be read.
func TestAnAbsentStateDatabaseSpendsNothing(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]brokenStore{
		"version":   {version: func() (*dag.DAG, error) { return nil, errRefused }},
		"variables": {version: func() (*dag.DAG, error) { return echoDAG("{{ var.value.x }}"), nil }, variables: func() ([]dag.Variable, error) { return nil, errRefused }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := workerOn(t, store)
			for range maxReleases {
				r := attemptOn(t, w)
				require.Equal(t, dag.StateQueued, r.State)
				require.False(t, r.SpendTry)
				require.Empty(t, r.Spent)
			}
			// A database that takes ten hand-backs is not away: the task must end.
			require.Equal(t, dag.StateFailed, attemptOn(t, w).State)
		})
	}
}

// TestAnAnswerOfTheStateDatabaseCounts: that something is not there is the
// task's own fault.
func TestAnAnswerOfTheStateDatabaseCounts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"{{ var.value.x }}", "{{ conn.x.host }}"} {
		w := workerOn(t, brokenStore{
			version: func() (*dag.DAG, error) { return echoDAG(text), nil }, variables: func() ([]dag.Variable, error) { return nil, nil },
		})
		r := attemptOn(t, w)
		require.Equal(t, dag.StateFailed, r.State, text)
		require.Equal(t, fault.CodeTemplate, r.Letter.ErrorCode)
		require.Len(t, r.Events, 1)
	}
}

// TestALeaseThatEndedAndNobodyTookIsStillMine: the database's clock was set
// forward by a day. What somebody took is lost, whatever the clock says.
func TestALeaseThatEndedAndNobodyTookIsStillMine(t *testing.T) {
	t.Parallel()
	taken := dag.Lease{TaskInstanceID: 2, Fence: 5}
	w := workerOn(t, brokenStore{renew: func(l []dag.Lease) (lost []dag.Lease, _ error) {
		if l[0] == taken {
			return l, nil
		}
		return nil, nil
	}})
	mine, err := w.stillMine(t.Context(), dag.Lease{TaskInstanceID: 1, Fence: 5})
	require.NoError(t, err)
	require.True(t, mine)
	mine, err = w.stillMine(t.Context(), taken)
	require.NoError(t, err)
	require.False(t, mine)
}
