package app_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// TestAStepThatIsGoneIsNotReplayed: who took a step out of the file does not want
// it done; its letters wait for a decision, or for the step to come back.
func TestAStepThatIsGoneIsNotReplayed(t *testing.T) {
	t.Parallel()
	h := newDeskHouse(t, 2, "AIRLOCK_CONN_TARGET=sqlite:///"+t.TempDir()+"/target.db")
	was, err := h.st.DAGRows(t.Context(), dag.DAGFilter{IDs: []string{"d"}})
	require.NoError(t, err)
	old, err := h.st.Version(t.Context(), was[0].VersionID)
	require.NoError(t, err)
	without := *old
	without.Tasks = []dag.Task{old.Tasks[0]}
	without.Tasks[0].ID = "other"
	_, err = h.st.SyncDAGs(t.Context(), []dag.DAGUpdate{{DAG: &without}})
	require.NoError(t, err)

	for _, probing := range []bool{true, false} {
		d := h.drain(h.desk(probing), usual())
		require.Equal(t, 2, d.Deferred)
		require.Zero(t, d.Replayed)
		require.Equal(t, 2, h.count("SELECT COUNT(*) FROM dead_letter_audit WHERE drain_id = '"+d.ID+"' AND reason LIKE '%no task work any more%'"))
	}
	require.Equal(t, 2, h.count("SELECT COUNT(*) FROM dead_letter WHERE status = 'sealed'"))

	_, err = h.st.SyncDAGs(t.Context(), []dag.DAGUpdate{{DAG: old}})
	require.NoError(t, err)
	require.Equal(t, 2, h.drain(h.desk(false), usual()).Replayed)
}
