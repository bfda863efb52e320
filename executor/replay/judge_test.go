package replay

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// caseOf is a letter that passes every gate.
func caseOf(id int64, key string) dag.ReplayCase {
	payload := json.RawMessage(`{}`)
	return dag.ReplayCase{
		Letter: dag.DeadLetter{
			ID: id, Status: dag.LetterSealed, SchemaVersion: dag.LetterSchemaVersion, Payload: payload,
			OriginalPayloadHash: dag.PayloadHash(payload), IdempotencyKey: key,
		},
		TaskInstanceID: id, Fence: 1, Instance: dag.TaskInstance{ID: id, State: dag.StateFailed, Fence: 1},
	}
}

// Of two letters of one effect in a page only the first goes. What a page before
// let through and was not carried out (the letter had changed) holds nothing
// back: what was, the tables tell.
func TestAnEffectGoesOnceAPage(t *testing.T) {
	t.Parallel()
	j := newJudge(3, nil, Probes{})
	decisions := func(cases ...dag.ReplayCase) (out []dag.ReplayDecision) {
		got, err := j.page(t.Context(), cases)
		require.NoError(t, err)
		for i := range got {
			out = append(out, got[i].Decision)
		}
		return out
	}
	require.Equal(t, []dag.ReplayDecision{dag.DecisionReplayed, dag.DecisionDeferred, dag.DecisionReplayed},
		decisions(caseOf(1, "k"), caseOf(2, "k"), caseOf(3, "other")))
	require.Equal(t, []dag.ReplayDecision{dag.DecisionDeferred}, decisions(caseOf(4, "k")), "a dry run remembers")
	j.forget()
	require.Empty(t, j.sent)
	carried := caseOf(5, "k")
	carried.SameEffect = 1
	require.Equal(t, []dag.ReplayDecision{dag.DecisionDeferred, dag.DecisionReplayed}, decisions(carried, caseOf(6, "k")))
}
