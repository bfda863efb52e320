package merge_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/merge"
)

// TestFencesBeginAnewAfterAReset: an attempt with fence 7 was killed between
// registering and committing, and the state database was reset, or lost. The
// first attempt of the same task, now with fence 1, does the work. While the
// state database says that the newer one holds the task, it does not; nor does
// one that is not in the state database at all.
func TestFencesBeginAnewAfterAReset(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.file("orders.csv", "order_id,customer,amount_cents,currency,updated_at\n1,A,5,EUR,2026-01-01T00:00:00Z\n")
		job := b.job(b.spec(ordersStep))
		killed := *job
		killed.Fence = 7
		killed.StillMine = func(context.Context) error { return errors.New("it ends here") }
		_, err := b.engine().Run(t.Context(), &killed)
		require.ErrorContains(t, err, "it ends here")
		require.Equal(t, []string{"open|7"}, b.table("SELECT status, fence FROM airlock_effect"))

		fenced := func(fence int64, mine error) {
			t.Helper()
			e := &merge.Effect{
				DB: b.db, Clock: dag.SystemClock{}, Key: job.Key, Fingerprint: strings.Repeat("0", 64), Owner: job.Owner, Fence: fence,
				StillMine: func(context.Context) error { return mine },
			}
			_, _, err := e.Begin(t.Context())
			var te *dag.TaskError
			require.ErrorAs(t, err, &te)
			require.Equal(t, merge.CodeFenced, te.Code)
		}
		fenced(1, errors.New("the lease was lost"))
		fenced(0, nil)
		require.Equal(t, []string{"open|7"}, b.table("SELECT status, fence FROM airlock_effect"))

		first := *job
		first.Fence = 1
		first.StillMine = func(context.Context) error { return nil }
		d, err := b.engine().Run(t.Context(), &first)
		require.NoError(t, err)
		require.Equal(t, int64(1), d.RowsInserted)
		require.Equal(t, []string{"done|1"}, b.table("SELECT status, fence FROM airlock_effect"))

		// Should the one from before be alive after all, it finds the work done.
		killed.StillMine = nil
		d, err = b.engine().Run(t.Context(), &killed)
		require.NoError(t, err)
		require.True(t, d.AlreadyDone)
	})
}
