package load_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func TestMappedGroups(t *testing.T) {
	t.Parallel()
	d := one(t, `
d:
  task_groups:
    shows: {}
    clips:
      parent_group_name: shows
      expand: {clip: fetch.output, size: [1, 2]}
      partial: {codec: h264}
    each: {expand_kwargs: [{a: 1}, {a: 2, b: x}]}
    files: {expand: {path: {glob: "*.mp4"}}}
  tasks:
    fetch: {operator: python, python_callable: a.b}
    check: {operator: bash, bash_command: "./check {{ params.clip }}", task_group_name: clips}
    convert: {operator: bash, bash_command: ./convert, dependencies: [check], task_group_name: clips}
    one: {operator: bash, bash_command: ./one, task_group_name: each}
    file: {operator: bash, bash_command: ./file, task_group_name: files}
    end: {operator: bash, bash_command: ./end, dependencies: [clips]}
`)
	clips := d.Group("shows.clips")
	require.Equal(t, &dag.Expand{
		Names:   []string{"clip", "size"},
		Args:    map[string]dag.ExpandSource{"clip": {XCom: "fetch"}, "size": {Literal: []any{1.0, 2.0}}},
		Partial: map[string]any{"codec": "h264"},
	}, clips.Expand)
	require.Same(t, clips, d.MappedGroup(d.Task("shows.clips.convert")))
	require.Nil(t, d.MappedGroup(d.Task("end")))
	require.Equal(t, []string{"fetch"}, d.Task("shows.clips.check").Upstream, "the source comes before the group's first tasks")
	require.Equal(t, []string{"shows.clips.check"}, d.Task("shows.clips.convert").Upstream)
	require.Equal(t, []string{"shows.clips.convert"}, d.Task("end").Upstream)
	require.Equal(t, []any{map[string]any{"a": 1.0}, map[string]any{"a": 2.0, "b": "x"}}, d.Group("each").Expand.Kwargs.Literal)
	require.Equal(t, "*.mp4", d.Group("files").Expand.Args["path"].Glob)
	require.Nil(t, d.Group("shows").Expand)
}
