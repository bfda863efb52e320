package executor

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// lettered is a WorkerStore with an open letter about everything.
type lettered struct{ WorkerStore }

func (lettered) OpenLetterOf(context.Context, string, string, string) (int64, error) { return 5, nil }

// A replay has to run, though its own letter stands open; so has a try that the
// state database knows nothing of.
func TestAReplayIsNotKeptFromItsFile(t *testing.T) {
	t.Parallel()
	w := NewWorker(WorkerOptions{Store: lettered{}, ID: "w"})
	for want, c := range map[int64]dag.Claim{
		5: {TaskInstance: dag.TaskInstance{ID: 1}},
		0: {TaskInstance: dag.TaskInstance{ID: 1, Replaying: true}},
	} {
		got, err := w.sealedBefore(t.Context(), &Ending{Claim: c}, "hash")
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	got, err := w.sealedBefore(t.Context(), &Ending{}, "hash")
	require.NoError(t, err)
	require.Zero(t, got)
}
