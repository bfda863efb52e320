package render_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/render"
)

func TestValuesOfAMappedGroupLieOverTheParams(t *testing.T) {
	t.Parallel()
	d := &dag.DAG{
		ID: "d", Params: map[string]any{"clip": "none", "shop": "7"}, Groups: []dag.Group{{ID: "g", Expand: &dag.Expand{Names: []string{"clip"}}}},
		Tasks: []dag.Task{{ID: "g.a", GroupID: "g", Params: map[string]any{"clip": "task's"}}, {ID: "b"}},
	}
	conf, payload := json.RawMessage(`{"clip": "conf's", "shop": "8"}`), json.RawMessage(`{"clip": "c1"}`)
	got, err := render.InstanceParams(d, &d.Tasks[0], conf, payload)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"clip": "c1", "shop": "8"}, got, "instances must differ, whatever conf says")
	got, err = render.InstanceParams(d, &d.Tasks[1], conf, payload)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"clip": "conf's", "shop": "8"}, got, "the payload of another task is its arguments")
	got, err = render.InstanceParams(d, &d.Tasks[0], conf, nil)
	require.NoError(t, err)
	require.Equal(t, "conf's", got["clip"])
	_, err = render.InstanceParams(d, &d.Tasks[0], conf, json.RawMessage(`[1]`))
	require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))
}
