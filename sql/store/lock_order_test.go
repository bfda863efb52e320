package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/sqltest"
	"github.com/airlock-dag/airlock/sql/store"
)

// What a person changes is locked in the order of a pass: runs, then their DAG,
// then pools. The other way round each change of what is busy was a deadlock, which
// the pass, having written more, always won: after five of them the change failed.
func TestChangesByHandLockInTheOrderOfAPass(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(s *store.Store) error
		asks   string
	}{
		{
			"a pool is changed",
			func(s *store.Store) error { return s.SetPool(t.Context(), dag.Pool{Name: "small", Slots: 2}) },
			"SELECT name FROM pool FOR UPDATE NOWAIT",
		},
		{
			"a DAG is paused",
			func(s *store.Store) error { _, err := s.SetPaused(t.Context(), "d1", true); return err },
			"SELECT dag_id FROM dag FOR UPDATE NOWAIT",
		},
		{
			"another version is stored",
			func(s *store.Store) error {
				_, err := s.SyncDAGs(t.Context(), []dag.DAGUpdate{{DAG: &dag.DAG{ID: "d1", MaxActiveRuns: 5, Timezone: "UTC"}}})
				return err
			},
			"", // it waits for no run
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, sqltest.Servers(t)[0].DSN)
			ctx := t.Context()
			limited(t, s, 1)
			require.NoError(t, s.SetPool(ctx, dag.Pool{Name: "small", Slots: 1}))
			_, err := s.Schedule(ctx, dag.SchedulePass{}, evaluate(s))
			require.NoError(t, err) // one of the three DAGs has the slot, two wait for it

			pass, err := s.DB().Writer().BeginTxx(ctx, nil)
			require.NoError(t, err)
			defer func() { _ = pass.Rollback() }()
			var ids []int64
			require.NoError(t, pass.SelectContext(ctx, &ids, "SELECT id FROM dag_run FOR UPDATE"))
			require.Len(t, ids, 3)
			changed := make(chan error, 1)
			go func() { changed <- c.change(s) }()
			if c.asks == "" {
				require.NoError(t, <-changed)
				return
			}
			sqltest.AwaitLockWaits(t, s.DB(), 1) // the change waits for the pass
			var names []string
			require.NoError(t, pass.SelectContext(ctx, &names, c.asks), "the pass waits for nobody")
			require.NoError(t, pass.Commit())
			require.NoError(t, <-changed)
		})
	}
}
