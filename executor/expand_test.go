package executor

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
)

// xcomStore is a SchedulerStore that has XComs and nothing else.
type xcomStore struct {
	SchedulerStore
	values map[string]string
}

func (s xcomStore) XCom(_ context.Context, _, _, taskID, key string, _ *int) (json.RawMessage, error) {
	if v, ok := s.values[taskID+"."+key]; ok {
		return json.RawMessage(v), nil
	}
	return nil, nil
}

func payloadsOf(t *testing.T, e *dag.Expand, xcoms map[string]string) ([]string, error) {
	t.Helper()
	s := NewScheduler(SchedulerOptions{Store: xcomStore{values: xcoms}})
	d := &dag.DAG{ID: "d", FileLoc: "d.yml"}
	raw, err := s.payloads(t.Context(), d, &dag.Task{ID: "t", Expand: e}, dag.Run{DagID: "d", RunID: "r"})
	out := []string{}
	for _, p := range raw {
		out = append(out, string(p))
	}
	return out, err
}

func TestExpandOverLists(t *testing.T) {
	t.Parallel()
	lit := func(v ...any) dag.ExpandSource { return dag.ExpandSource{Literal: v} }
	for name, c := range map[string]struct {
		expand *dag.Expand
		xcoms  map[string]string
		want   []string
	}{
		"cross product, the last varies fastest": {
			&dag.Expand{Names: []string{"a", "b"}, Args: map[string]dag.ExpandSource{"a": lit(1, 2), "b": lit("x", "y")}}, nil,
			[]string{`{"a":1,"b":"x"}`, `{"a":1,"b":"y"}`, `{"a":2,"b":"x"}`, `{"a":2,"b":"y"}`},
		},
		"partial lies under the values": {
			&dag.Expand{Names: []string{"a"}, Args: map[string]dag.ExpandSource{"a": lit(1)}, Partial: map[string]any{"a": 9, "p": "q"}}, nil,
			[]string{`{"a":1,"p":"q"}`},
		},
		"an upstream's list, numbers exact": {
			&dag.Expand{Names: []string{"a"}, Args: map[string]dag.ExpandSource{"a": {XCom: "up"}}},
			map[string]string{"up.return_value": `[9007199254740993, null]`},
			[]string{`{"a":9007199254740993}`, `{"a":null}`},
		},
		"an upstream's mapping by its items": {
			&dag.Expand{Names: []string{"a"}, Args: map[string]dag.ExpandSource{"a": {XCom: "up"}}},
			map[string]string{"up.return_value": `{"k2": 2, "k1": 1}`},
			[]string{`{"a":["k1",1]}`, `{"a":["k2",2]}`},
		},
		"another key": {
			&dag.Expand{Names: []string{"a"}, Args: map[string]dag.ExpandSource{"a": {XCom: "up", Key: "k"}}},
			map[string]string{"up.k": `["v"]`}, []string{`{"a":"v"}`},
		},
		"an upstream that left nothing": {
			&dag.Expand{Names: []string{"a"}, Args: map[string]dag.ExpandSource{"a": {XCom: "up"}}}, nil, []string{},
		},
		"expand_kwargs": {
			&dag.Expand{Kwargs: &dag.ExpandSource{XCom: "up"}, Partial: map[string]any{"p": 1}},
			map[string]string{"up.return_value": `[{"a": 1}, {"p": 2}]`},
			[]string{`{"a":1,"p":1}`, `{"p":2}`},
		},
	} {
		got, err := payloadsOf(t, c.expand, c.xcoms)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
}

func TestExpandRefusesWhatIsNoList(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{`"text"`, `7`, `true`} {
		_, err := payloadsOf(t, &dag.Expand{Names: []string{"a"}, Args: map[string]dag.ExpandSource{"a": {XCom: "up"}}}, map[string]string{"up.return_value": bad})
		var e *dag.TaskError
		require.ErrorAs(t, err, &e)
		require.Equal(t, fault.CodeExpansionSource, e.Code)
		require.Contains(t, e.Message, "task t cannot be expanded over up")
	}
	_, err := payloadsOf(t, &dag.Expand{Kwargs: &dag.ExpandSource{Literal: []any{"x"}}}, nil)
	require.ErrorContains(t, err, "a mapping is needed")
}

func TestExpandOverFiles(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, name := range []string{"b.mp4", "a.mp4", "c.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), nil, 0o600))
	}
	s := NewScheduler(SchedulerOptions{Store: xcomStore{}, DagsFolder: filepath.Dir(root)})
	d := &dag.DAG{ID: "d", FileLoc: filepath.Base(root) + "/d.yml"}
	got, err := s.globSource(t.Context(), d, &dag.Task{ID: "t"}, dag.Run{DagID: "d"}, "*.mp4")
	require.NoError(t, err)
	require.Equal(t, []any{filepath.Join(root, "a.mp4"), filepath.Join(root, "b.mp4")}, got)
	_, err = s.globSource(t.Context(), d, &dag.Task{ID: "t"}, dag.Run{DagID: "d"}, "[")
	require.ErrorContains(t, err, "is no file pattern")
}

// TestExpandIsAskedBeforeItIsMade: eight lists of a thousand would make more
// instances than any memory holds; with an empty list among them there is none.
func TestExpandIsAskedBeforeItIsMade(t *testing.T) {
	t.Parallel()
	thousand := make([]any, 1000)
	e := &dag.Expand{Args: map[string]dag.ExpandSource{}}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		e.Names = append(e.Names, name)
		e.Args[name] = dag.ExpandSource{Literal: thousand}
	}
	_, err := payloadsOf(t, e, nil)
	var te *dag.TaskError
	require.ErrorAs(t, err, &te)
	require.Equal(t, fault.CodeExpansionTooLarge, te.Code)
	e.Args["h"] = dag.ExpandSource{Literal: []any{}}
	got, err := payloadsOf(t, e, nil)
	require.NoError(t, err)
	require.Empty(t, got)
}
