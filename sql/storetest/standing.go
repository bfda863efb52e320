package storetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/store"
)

// testPoolOfTwoSchedulers: however two processes take turns, and whatever each
// remembers of what it handed out, a pool never has more in use than it has slots.
func testPoolOfTwoSchedulers(t *testing.T, b *bundle) {
	const size = 5
	require.NoError(t, b.s.SetPool(t.Context(), dag.Pool{Name: "small", Slots: size}))
	d := oneDAG("d", "a")
	d.Tasks[0].Pool, d.MaxActiveRuns = "small", 100
	v := b.sync(d)
	other := b.open()
	inUse := func() int {
		return b.count("SELECT COUNT(*) FROM task_instance WHERE state IN ('queued', 'running')")
	}
	made := 0
	ask := func(s *store.Store, n int) {
		for range n {
			made++
			_, err := s.CreateRuns(t.Context(), []dag.NewRun{b.newRun(d, v, fmt.Sprint("r", made))})
			require.NoError(t, err)
		}
		_, err := s.Schedule(t.Context(), dag.SchedulePass{}, b.decide)
		require.NoError(t, err)
		require.LessOrEqual(t, inUse(), size)
	}
	ask(b.s, 1)
	ask(other, 2) // b.s does not know of these
	ask(b.s, 1)
	require.Equal(t, 4, inUse())
	ask(b.s, 2) // one of them waits
	require.Equal(t, size, inUse())

	// What has ended makes room again, for either of them.
	for _, c := range b.claim(3) {
		b.apply(b.result(c, dag.StateSuccess))
	}
	ask(other, 0)
	require.Equal(t, 3, inUse(), "two that were not claimed, and the one that waited")
	ask(b.s, 2)
	require.Equal(t, size, inUse())
	ask(other, 1)
	require.Equal(t, size, inUse())

	b.sound()
}
