package dag_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func TestDAGsGoToJSONAndBack(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	no := false
	d := &dag.DAG{
		ID: "d", StartDate: &start, IsPausedUponCreation: &no, DagrunTimeout: time.Hour,
		Params: map[string]any{"n": json.Number("9007199254740993"), "s": "<&>", "none": nil, "l": []any{true, 0.1}},
		Tasks: []dag.Task{{
			ID: "a", Args: map[string]any{"env": map[string]any{"A": "b"}}, Retry: dag.RetryPolicy{Retries: 3, Delay: 5 * time.Minute, Class: &dag.ClassPolicy{Jitter: dag.JitterFull}},
			Expand: &dag.Expand{Args: map[string]dag.ExpandSource{"x": {Literal: []any{1.0, "two"}}}, Names: []string{"x"}},
		}},
	}
	content, hash, err := dag.EncodeDAG(d)
	require.NoError(t, err)
	require.Len(t, hash, 64)
	back, err := dag.DecodeDAG(content)
	require.NoError(t, err)
	require.Equal(t, d, back)
	again, hash2, err := dag.EncodeDAG(back)
	require.NoError(t, err)
	require.JSONEq(t, string(content), string(again))
	require.Equal(t, hash, hash2)
	_, err = dag.DecodeDAG([]byte("{"))
	require.Error(t, err)
}

func TestAFrozenDAGAnswersTheSame(t *testing.T) {
	t.Parallel()
	d := dagOf(task("a"), task("b", after("a")))
	d.Freeze()
	require.Same(t, &d.Tasks[1], d.Task("b"))
	require.Nil(t, d.Task("c"))
	require.False(t, d.Maps())
	other := *d // a copy with other tasks is answered by what it has
	other.Tasks = []dag.Task{task("x"), task("b", mappedLiteral())}
	require.Equal(t, "x", other.Task("x").ID)
	require.NotNil(t, other.Task("b").Expand)
	require.Nil(t, other.Task("a"))

	mapped := dagOf(task("a", mappedLiteral()))
	require.True(t, mapped.Maps())
	mapped.Freeze()
	require.True(t, mapped.Maps())
}
