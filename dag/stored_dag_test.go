package dag_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func TestHashNamesTheStoredJSON(t *testing.T) {
	t.Parallel()
	d := &dag.DAG{ID: "d", Description: "a < b & c", Params: map[string]any{"z": 1.0, "a": json.Number("12345678901234567890")}}
	content, hash, err := dag.EncodeDAG(d)
	require.NoError(t, err)
	sum := sha256.Sum256(content)
	require.Equal(t, hash, d.Hash())
	require.Equal(t, hex.EncodeToString(sum[:]), d.Hash())

	other := *d
	other.Params = map[string]any{"z": 2.0, "a": json.Number("12345678901234567890")}
	require.NotEqual(t, d.Hash(), other.Hash())
}

func TestADAGWithAValueThatIsNotJSONStillHasAHash(t *testing.T) {
	t.Parallel()
	d := &dag.DAG{ID: "d", Params: map[string]any{"f": func() {}}}
	require.Len(t, d.Hash(), 64)
}

func TestNumbersOfAStoredDAG(t *testing.T) {
	t.Parallel()
	var d dag.DAG
	require.NoError(t, json.Unmarshal([]byte(`{"dag_id":"d","params":{"n":1,"f":1.5,"e":1e3,"exact":9007199254740992,"big":9007199254740993,"list":[1,{"x":2}]},
		"tasks":[{"task_id":"t","args":{"n":-7},"expand":{"args":{"a":{"literal":[1]}},"kwargs":{"literal":[]}},
		"callbacks":{"on_retry_callback":[{"callback":"log","args":{"n":3}}]}}]}`), &d))
	require.Equal(t, map[string]any{
		"n": 1.0, "f": 1.5, "e": 1000.0, "exact": 9007199254740992.0, "big": json.Number("9007199254740993"),
		"list": []any{1.0, map[string]any{"x": 2.0}},
	}, d.Params)
	require.Equal(t, map[string]any{"n": -7.0}, d.Tasks[0].Args)
	require.Equal(t, []any{1.0}, d.Tasks[0].Expand.Args["a"].Literal)
	require.NotNil(t, d.Tasks[0].Expand.Kwargs.Literal, "an empty list of instances is not no list")
	require.Equal(t, map[string]any{"n": 3.0}, d.Tasks[0].Callbacks.OnRetry[0].Args)
	require.Error(t, json.Unmarshal([]byte(`{"dag_id": 5}`), &d))
}
