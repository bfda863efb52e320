package expression_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/executor/operator/expression"
)

type env struct {
	Value any            `expr:"value"`
	Row   map[string]any `expr:"row"`
	Code  int            `expr:"code"`
}

func TestHolds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"value > 10": true, "value == 12 and code in [200, 201]": true, "not (value > 10)": false,
		"row.name matches '^a'": true, "row.missing == nil": true, "row.list": false, "row.name": true, "code": true,
		"all(row.numbers, # > 1)": false, "len(row.numbers) == 3": true,
	} {
		e, err := expression.Compile(text, env{})
		require.NoError(t, err, text)
		got, err := e.Holds(env{Value: 12, Code: 200, Row: map[string]any{"name": "abc", "list": []any{}, "numbers": []any{1, 2, 3}}})
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", " ", "value >", "valeu > 1", "code == 'x'", "lambda response: True", "my.module.check", strings.Repeat("1 + ", 5000) + "1", "\x00", "{{ value }}",
	} {
		_, err := expression.Compile(text, env{})
		require.Error(t, err, "%.40q", text)
		require.NotContains(t, err.Error(), "\n")
	}
	e, err := expression.Compile("value.a.b > 1", env{})
	require.NoError(t, err)
	_, err = e.Holds(env{Value: 1})
	require.Error(t, err, "what does not fit the value is an error, not false")
}

func TestMessagesNameNoTypes(t *testing.T) {
	t.Parallel()
	type answer struct {
		Code int `expr:"code"`
	}
	_, err := expression.Compile("a.cod == 1", struct {
		A answer `expr:"a"`
	}{})
	require.ErrorContains(t, err, "there is no field cod (1:3)")
}

func FuzzCompile(f *testing.F) {
	f.Add("value > 1")
	f.Fuzz(func(_ *testing.T, text string) {
		if e, err := expression.Compile(text, env{}); err == nil && len(text) < 64 {
			_, _ = e.Holds(env{Value: "x", Row: map[string]any{"a": 1}})
		}
	})
}
