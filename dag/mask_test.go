package dag_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func TestMaskValues(t *testing.T) {
	t.Parallel()
	in := map[string]any{
		"url": "http://x", "Password": "p", "api_key": "k", "API-Key": "k", "db.passwd": "p", "private_key": map[string]any{"a": 1},
		"token": json.Number("12"), "secret": nil, "client_secret": "", "secret_conn_id": "hook", "key": "derived/x",
		"headers": map[string]any{"Authorization": "Bearer x", "Accept": "json"},
		"list":    []any{map[string]any{"access_token": "x"}, "token", 1},
		"texts":   map[string]string{"passwd": "p", "a": "b"},
		"maps":    []map[string]any{{"credentials": []any{"x"}}},
	}
	before, err := json.Marshal(in)
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"url": "http://x", "Password": "***", "api_key": "***", "API-Key": "***", "db.passwd": "***", "private_key": "***",
		"token": "***", "secret": nil, "client_secret": "", "secret_conn_id": "hook", "key": "derived/x",
		"headers": map[string]any{"Authorization": "***", "Accept": "json"},
		"list":    []any{map[string]any{"access_token": "***"}, "token", 1},
		"texts":   map[string]string{"passwd": "***", "a": "b"},
		"maps":    []map[string]any{{"credentials": "***"}},
	}, dag.MaskValues(in))
	after, err := json.Marshal(in)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after), "the value itself is not touched")

	require.Equal(t, json.RawMessage(`{"a":1.50,"token":"***"}`), dag.MaskValues(json.RawMessage(`{"token":"x","a":1.50}`)))
	require.Equal(t, json.RawMessage(`{broken`), dag.MaskValues(json.RawMessage(`{broken`)))
	require.Equal(t, 5, dag.MaskValues(5))
	require.Nil(t, dag.MaskValues(nil))
	require.Equal(t, map[string]any(nil), dag.MaskValues(map[string]any(nil)))
	require.Equal(t, []any(nil), dag.MaskValues([]any(nil)))
	require.Equal(t, map[string]string(nil), dag.MaskValues(map[string]string(nil)))
}
