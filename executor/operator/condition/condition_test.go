package condition_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/executor/operator/condition"
)

func TestTrue(t *testing.T) {
	t.Parallel()
	for _, v := range []any{
		nil, false, 0, int64(0), 0.0, json.Number("0"), json.Number("0.00"), []any{}, map[string]any{},
		"", "  \n", "false", "False", " FALSE ", "f", "no", "N", "off", "None", "null", "empty", "0", "0.0", "-0", "0e5",
		"[]", "[ ]", "{}", "()", "''",
	} {
		require.False(t, condition.True(v), "%#v", v)
	}
	for _, v := range []any{
		true, 1, int64(-1), 0.1, json.Number("2"), []any{nil}, map[string]any{"a": nil}, struct{}{},
		"true", "True", "yes", "on", "1", "-1", "0.1", "NaN", "[0]", "['']", "{'a': 1}", "2026-03-01", "anything", "nothing",
	} {
		require.True(t, condition.True(v), "%#v", v)
	}
}
