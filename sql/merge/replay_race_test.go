package merge_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/merge"
)

const counterStep = `
bad_rows: {max_ratio: 1}
sql: |
  MERGE INTO tgt AS target USING src AS source ON target.id = source.id
  WHEN MATCHED THEN UPDATE SET n = target.n + source.n
  WHEN NOT MATCHED THEN INSERT (id, n) VALUES (source.id, source.n)
`

// counters leaves 40 letters of a step that adds up, which is done once or wrong.
func counters(b *bench) *merge.Spec {
	b.exec("CREATE TABLE tgt (id INT PRIMARY KEY, n INT CHECK (n < 1000))", "CREATE TABLE src (id INT, n INT)")
	var target, feed []string
	for i := range 40 {
		target = append(target, fmt.Sprintf("(%d, 995)", i))
		feed = append(feed, fmt.Sprintf("(%d, %d)", i, 5+i))
	}
	b.exec("INSERT INTO tgt VALUES "+strings.Join(target, ", "), "INSERT INTO src VALUES "+strings.Join(feed, ", "))
	spec := b.spec(counterStep)
	require.Equal(b.t, int64(40), b.run(spec).RowsQuarantined)
	b.exec("UPDATE tgt SET n = 0")
	return spec
}

// addedOnce requires that each row was added exactly once.
func addedOnce(b *bench) {
	b.t.Helper()
	want := 0
	for i := range 40 {
		want += 5 + i
	}
	require.Equal(b.t, []string{fmt.Sprintf("%d|%d", want, 40)}, b.table("SELECT SUM(n), COUNT(*) FROM tgt WHERE n = id + 5"))
	require.Equal(b.t, []string{"40"}, b.table("SELECT COUNT(*) FROM airlock_dead_letter_row WHERE status = 'resolved'"))
	require.Equal(b.t, []string{"40"}, b.table("SELECT COUNT(*) FROM airlock_dead_letter_row_audit WHERE decision = 'replayed'"))
}

// Two people replay the same letters at once.
func TestTwoReplaysAtOnceDecideEachLetterOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		spec := counters(b)
		letters := b.open()
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for i := range errs {
			wg.Go(func() {
				_, errs[i] = b.engine().Replay(context.Background(), spec, letters, &merge.Replay{
					Drain: fmt.Sprintf("d%d", i), Actor: "a", Apply: true, Overwrite: true, MaxReturns: -1,
				})
			})
		}
		wg.Wait()
		require.NoError(t, errors.Join(errs...))
		addedOnce(b)
	})
}

// A replay that is stopped anywhere has decided some letters whole and left the
// others as they were.
func TestReplayThatIsStoppedGoesOn(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		spec := counters(b)
		b.exec("UPDATE tgt SET n = 995 WHERE id = 20") // one that comes back: the group is halved
		for stop := range 6 {
			ctx, cancel := context.WithCancelCause(context.Background())
			n := 0
			_, err := b.engine().Replay(ctx, spec, b.open(), &merge.Replay{
				Drain: fmt.Sprintf("s%d", stop), Actor: "a", Apply: true, Overwrite: true, MaxReturns: -1,
				Told: func(merge.RowDecision) {
					if n++; n > stop*3 {
						cancel(errors.New("killed"))
					}
				},
			})
			cancel(nil)
			done := b.table("SELECT (SELECT COUNT(*) FROM tgt WHERE n = id + 5), (SELECT COUNT(*) FROM airlock_dead_letter_row WHERE status = '" + string(dag.LetterResolved) + "')")
			parts := strings.Split(done[0], "|")
			require.Equal(t, parts[0], parts[1], "rows and letters agree after stop %d: %v", stop, err)
		}
		b.exec("UPDATE tgt SET n = 0 WHERE id = 20")
		b.replay(spec, func(r *merge.Replay) { r.Overwrite, r.MaxReturns = true, -1 })
		addedOnce(b)
	})
}

func TestCheckFindsLettersThatNobodyDecided(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		counters(b)
		b.exec("UPDATE airlock_dead_letter_row SET status = 'dropped' WHERE id = 3")
		v, err := merge.Check(t.Context(), b.db)
		require.NoError(t, err)
		require.Len(t, v, 1)
		require.Equal(t, merge.RuleDecision, v[0].Rule)
		require.Contains(t, v[0].Subject, "3")
	})
}
