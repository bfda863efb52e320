package app_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/config"
	"github.com/airlock-dag/airlock/dag"
)

func TestMappedGroupHandsItsValuesOn(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 8, nil, `
d:
  schedule: null
  params: {clip: none, shop: 7}
  task_groups:
    clips: {expand: {clip: make.output}, partial: {codec: h264}}
    none: {expand: {x: []}}
  tasks:
    make: {operator: listing, size: 3}
    check: {operator: gauge, say: "{{ params.clip }}", task_group_name: clips}
    convert:
      operator: gauge
      say: "{{ ti.xcom_pull('clips.check', map_indexes=ti.map_index) }} {{ params.clip }} {{ params.codec }} {{ params.shop }}"
      dependencies: [check]
      task_group_name: clips
    idle: {operator: gauge, task_group_name: none}
    publish: {operator: gauge, say: "{{ ti.xcom_pull('clips.convert') | join(', ') }}", dependencies: [clips]}
`)
	e.trigger("d", "r", time.Time{})
	require.Equal(t, dag.RunSuccess, e.ends("d", "r"))
	for task, want := range map[string]string{
		"clips.check":   `["0","1","2"]`,
		"clips.convert": `["0 0 h264 7","1 1 h264 7","2 2 h264 7"]`,
		"publish":       `"0 0 h264 7, 1 1 h264 7, 2 2 h264 7"`,
	} {
		got, err := e.Store().XCom(t.Context(), "d", "r", task, dag.XComReturnValue, nil)
		require.NoError(t, err)
		require.JSONEq(t, want, string(got), task)
	}
	idle := e.instances("d", "r", "none.idle")
	require.Len(t, idle, 1)
	require.Equal(t, dag.StateSkipped, idle[0].State)
	e.sound()
}

func TestMappedGroupWithoutValuesIsOneLetter(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 4, nil, `
d:
  schedule: null
  task_groups: {g: {expand: {x: {glob: "[", }}}}
  tasks:
    a: {operator: gauge, task_group_name: g}
    b: {operator: gauge, task_group_name: g, dependencies: [a], trigger_rule: all_done}
`)
	e.trigger("d", "r", time.Time{})
	require.Equal(t, dag.RunFailed, e.ends("d", "r"))
	require.Equal(t, dag.StateFailed, e.instances("d", "r", "g.a")[0].State)
	require.Equal(t, dag.StateUpstreamFailed, e.instances("d", "r", "g.b")[0].State)
	letters, err := e.Store().Letters(t.Context(), dag.LetterFilter{})
	require.NoError(t, err)
	require.Len(t, letters, 1)
	require.Contains(t, letters[0].ErrorMessage, "task group g cannot be expanded over [")
	e.sound()
}

// TestTenThousandInstances: as many as the setting allows, from a list that a
// task returns.
func TestTenThousandInstances(t *testing.T) {
	t.Parallel()
	n := 10_000
	if testing.Short() { // the race detector makes the database in the binary ten times slower
		n = 1_000
	}
	e := newEngine(t, 64, []dag.Pool{{Name: "wide", Slots: 1000}}, fmt.Sprintf(`
d:
  schedule: null
  max_active_tasks: 1000
  default_args: {pool: wide}
  tasks:
    make: {operator: listing, size: %d}
    each: {operator: gauge, expand: {n: make.output}}
    end:  {operator: gauge, dependencies: [each]}
`, n), func(c *config.Config) { c.MaxMapLength = n })
	e.trigger("d", "r", time.Time{})
	// The last task is looked for, and not the run, whose states take long to count.
	end := dag.TaskInstanceKey{DagID: "d", RunID: "r", TaskID: "end", MapIndex: -1}
	require.Eventually(t, func() bool {
		attempts, err := e.Store().Attempts(t.Context(), end)
		return err == nil && len(attempts) == 1
	}, 5*patience, 100*time.Millisecond)
	require.Equal(t, dag.RunSuccess, e.ends("d", "r"))
	list := e.instances("d", "r", "each")
	require.Len(t, list, n)
	for i, ti := range list {
		require.Equal(t, i, ti.MapIndex)
		require.Equal(t, dag.StateSuccess, ti.State)
	}
	e.sound()
}
