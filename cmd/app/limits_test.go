package app_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/config"
	"github.com/airlock-dag/airlock/dag"
)

// tasks writes n tasks of one kind: t0, t1 ...
func tasks(n int, keys string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "    t%d: {operator: gauge, %s}\n", i, keys)
	}
	return b.String()
}

func TestPoolIsNeverExceeded(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 16, []dag.Pool{{Name: "two", Slots: 2}},
		"d:\n  schedule: null\n  max_active_tasks: 20\n  tasks:\n"+tasks(20, "pool: two, meet: 2"))
	e.trigger("d", "r", time.Time{})
	require.Equal(t, dag.RunSuccess, e.ends("d", "r"))
	require.Equal(t, 2, e.gauge.peak("pool two"))
	e.sound()
}

// TestPoolSlotsCount: a task of two slots and one of one do not fit into two.
func TestPoolSlotsCount(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 16, []dag.Pool{{Name: "three", Slots: 3}},
		"d:\n  schedule: null\n  tasks:\n"+tasks(6, "pool: three, pool_slots: 2")+strings.ReplaceAll(tasks(6, "pool: three"), "    t", "    u"))
	e.trigger("d", "r", time.Time{})
	require.Equal(t, dag.RunSuccess, e.ends("d", "r"))
	require.LessOrEqual(t, e.gauge.peak("pool three"), 3)
	e.sound()
}

func TestPriorityDecidesWhoComesFirst(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 1, []dag.Pool{{Name: "one", Slots: 1}}, `
d:
  schedule: null
  default_args: {pool: one}
  tasks:
    low:    {operator: gauge, priority_weight: 1}
    high:   {operator: gauge, priority_weight: 9}
    middle: {operator: gauge, priority_weight: 5}
    # With the rule downstream a task has the weight of all that waits for it.
    head:   {operator: gauge, priority_weight: 2}
    tail:   {operator: gauge, priority_weight: 5, dependencies: [head]}
    alone:  {operator: gauge, priority_weight: 6, weight_rule: absolute}
`)
	e.trigger("d", "r", time.Time{})
	require.Equal(t, dag.RunSuccess, e.ends("d", "r"))
	// 9, 2 + 5, 6; then middle and tail have 5 both: either is right.
	began := e.gauge.began()
	require.Equal(t, []string{"high", "head", "alone"}, began[:3])
	require.ElementsMatch(t, []string{"middle", "tail"}, began[3:5])
	require.Equal(t, "low", began[5])
}

func TestTasksThatNeverFitSayIt(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 4, []dag.Pool{{Name: "two", Slots: 2}}, `
d:
  schedule: null
  tasks:
    big:     {operator: gauge, pool: two, pool_slots: 3, priority_weight: 9}
    nowhere: {operator: gauge, pool: nowhere, priority_weight: 9}
    small:   {operator: gauge, pool: two}
`)
	e.trigger("d", "r", time.Time{})
	require.Eventually(t, func() bool {
		return e.instances("d", "r", "small")[0].State == dag.StateSuccess
	}, patience, 20*time.Millisecond)
	for task, words := range map[string]string{"big": "the task needs more slots than its pool has", "nowhere": "the task waits for a pool that does not exist"} {
		require.Equal(t, dag.StateScheduled, e.instances("d", "r", task)[0].State)
		// The pass says it after its commit, which the small one did not wait for.
		require.Eventually(t, func() bool {
			return strings.Contains(e.log.String(), words) && strings.Contains(e.log.String(), "task_id="+task)
		}, patience, 20*time.Millisecond, words)
	}
	require.NoError(t, e.Store().SetPool(t.Context(), dag.Pool{Name: "two", Slots: 3}))
	require.NoError(t, e.Store().SetPool(t.Context(), dag.Pool{Name: "nowhere", Slots: -1}))
	require.Equal(t, dag.RunSuccess, e.ends("d", "r"))
	e.sound()
}

// TestLimitsOfARun: max_active_tasks counts in each run, as in Airflow 3.
func TestLimitsOfARun(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 16, nil, "d:\n  schedule: null\n  max_active_tasks: 3\n  tasks:\n"+tasks(12, "meet: 4"))
	e.trigger("d", "r1", time.Time{})
	e.trigger("d", "r2", time.Time{})
	require.Equal(t, dag.RunSuccess, e.ends("d", "r1"))
	require.Equal(t, dag.RunSuccess, e.ends("d", "r2"))
	require.LessOrEqual(t, e.gauge.peak("run r1"), 3)
	require.LessOrEqual(t, e.gauge.peak("run r2"), 3)
	require.GreaterOrEqual(t, e.gauge.peak("all"), 4, "two runs together may have more")
	e.sound()
}

func TestLimitsOfATask(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 16, nil, `
d:
  schedule: null
  max_active_tasks: 100
  tasks:
    once:  {operator: gauge, max_active_tis_per_dag: 1}
    twice: {operator: gauge, max_active_tis_per_dagrun: 2, expand: {n: [1, 2, 3, 4, 5, 6, 7, 8]}}
`)
	for i := range 3 {
		e.trigger("d", fmt.Sprint("r", i), time.Time{})
	}
	for i := range 3 {
		require.Equal(t, dag.RunSuccess, e.ends("d", fmt.Sprint("r", i)))
		require.LessOrEqual(t, e.gauge.peak(fmt.Sprint("task twice of r", i)), 2)
	}
	require.Equal(t, 1, e.gauge.peak("task once"))
	e.sound()
}

// TestAThousandInstances: a task mapped over what another gives, up to the
// limit, and one past it.
func TestAThousandInstances(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 16, nil, `
d:
  schedule: null
  max_active_tasks: 2000
  tasks:
    source: {operator: listing, size: 1024}
    each:   {operator: gauge, expand: {n: source.output}}
    after:  {operator: gauge, dependencies: [each]}
    more:   {operator: listing, size: 1025}
    fails:  {operator: gauge, expand: {n: more.output}}
`)
	e.trigger("d", "r", time.Time{})
	require.Equal(t, dag.RunFailed, e.ends("d", "r"))
	list := e.instances("d", "r", "each")
	require.Len(t, list, 1024)
	for i, ti := range list {
		require.Equal(t, i, ti.MapIndex)
		require.Equal(t, dag.StateSuccess, ti.State)
		require.JSONEq(t, fmt.Sprintf(`{"n": %d}`, i), string(ti.Payload))
	}
	require.Equal(t, dag.StateSuccess, e.instances("d", "r", "after")[0].State)
	fails := e.instances("d", "r", "fails")
	require.Len(t, fails, 1)
	require.Equal(t, dag.StateFailed, fails[0].State)
	letters, err := e.Store().Letters(t.Context(), dag.LetterFilter{})
	require.NoError(t, err)
	require.Len(t, letters, 1)
	require.Equal(t, "EXPANSION_TOO_LARGE", letters[0].ErrorCode)
	e.sound()
}

// TestMapLengthIsASetting: more than Airflow's 1,024 where somebody wants it.
func TestMapLengthIsASetting(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 16, nil, `
d:
  schedule: null
  max_active_tasks: 5000
  tasks:
    source: {operator: listing, size: 1100}
    each:   {operator: gauge, expand: {n: source.output}}
    some:   {operator: listing, size: 2}
    fails:  {operator: gauge, expand: {n: some.output, meet: source.output}}
`, func(c *config.Config) { c.MaxMapLength = 1100 })
	e.trigger("d", "r", time.Time{})
	require.Equal(t, dag.RunFailed, e.ends("d", "r"))
	require.Len(t, e.instances("d", "r", "each"), 1100)
	letters, err := e.Store().Letters(t.Context(), dag.LetterFilter{})
	require.NoError(t, err)
	require.Len(t, letters, 1)
	require.Equal(t, "2200 instances, the limit is 1100 (core.max_map_length)", letters[0].ErrorMessage)
	e.sound()
}
