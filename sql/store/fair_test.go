package store

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/migrations"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

// drawn are candidates of a few DAGs, priorities and pools, by urgency.
func drawn(t *rapid.T) []candidate {
	list := make([]candidate, rapid.IntRange(0, 60).Draw(t, "n"))
	for i := range list {
		list[i] = candidate{
			ID: int64(i + 1), RunID: 1, DagID: rapid.SampledFrom([]string{"a", "a", "a", "b", "c"}).Draw(t, "dag"),
			Priority: rapid.IntRange(1, 2).Draw(t, "priority"), Pool: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "pool"),
			PoolSlots: rapid.IntRange(1, 2).Draw(t, "slots"), arrives: rapid.Bool().Draw(t, "arrives"),
		}
	}
	slices.SortFunc(list, byUrgency)
	return list
}

// Each candidate is asked for once, priorities fall, a DAG's own order stays,
// and no DAG gets a slot while another one that asks for the same pool, with as
// urgent work, has fewer.
func TestSlotsGoToWhoHasTheFewest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := drawn(t)
		f := newFair()
		f.inUse[share{"a", "p"}] = rapid.IntRange(0, 9).Draw(t, "in use")
		var got []candidate
		require.NoError(t, f.fairly(list, func(c candidate) error {
			heads := map[string]candidate{} // the next one of each DAG
			for _, other := range list {
				if _, there := heads[other.DagID]; !there && other.Priority == c.Priority && !slices.ContainsFunc(got, func(g candidate) bool { return g.ID == other.ID }) {
					heads[other.DagID] = other
				}
			}
			require.Equal(t, heads[c.DagID].ID, c.ID, "a DAG's own order")
			for _, other := range heads {
				require.LessOrEqual(t, f.inUse[share{c.DagID, c.Pool}], f.inUse[share{other.DagID, other.Pool}])
			}
			got = append(got, c)
			if rapid.Bool().Draw(t, "fits") {
				f.inUse[share{c.DagID, c.Pool}] += c.PoolSlots
			}
			return nil
		}))
		require.Len(t, got, len(list))
		require.True(t, slices.IsSortedFunc(got, func(a, b candidate) int { return cmp.Compare(b.Priority, a.Priority) }))
	})
}

// Turns rise within a DAG and priority, and never lie before the one that is
// claimed now; a DAG with nothing waiting begins there.
func TestTurns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := newFair()
		claimed := int64(rapid.IntRange(0, 50).Draw(t, "claimed"))
		waits := claimed + int64(rapid.IntRange(0, 50).Draw(t, "waits"))
		f.note(inUse{Dag: "a", State: "running", Priority: 1, First: 0, Last: claimed})
		f.note(inUse{Dag: "a", State: "scheduled", Priority: 1, First: claimed + 1, Last: waits})
		list := drawn(t)
		f.giveTurns(list)
		want := map[line]int64{{"a", 1}: waits + 1, {"b", 1}: claimed, {"c", 1}: claimed} // nothing is known of priority 2
		for _, c := range list {
			l := line{c.DagID, c.Priority}
			if !c.arrives {
				require.Zero(t, c.turn, "it keeps the turn that it has")
				continue
			}
			require.Equal(t, want[l], c.turn)
			want[l]++
		}
	})
}

// What nobody takes does not hold the turns back, and what has a high one and
// is the last that runs does not push others behind all that wait.
func TestTheTurnThatIsClaimed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		running, queued, scheduled, want int64 // -1 for none
	}{
		{-1, -1, -1, 0},
		{-1, -1, 7, 7},
		{-1, 5, 7, 5},
		{9, -1, 7, 9},
		{9, 10, 3, 10},
		{9, 2, 3, 9}, // a queue without a worker
	} {
		f := newFair()
		for state, turn := range map[string]int64{"running": c.running, "queued": c.queued, "scheduled": c.scheduled} {
			if turn >= 0 {
				f.note(inUse{Dag: "d", State: state, Priority: 4, First: turn, Last: turn})
			}
		}
		require.Equal(t, c.want, f.heads[4].now(), c)
		require.Zero(t, f.heads[5].now(), "each priority has its own")
	}
}

// The claim and the look at what waits read their index in its order: they must
// not cost more because much is there.
func TestClaimsReadTheirIndexInOrder(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		db, err := dialect.Open(t.Context(), dsn, dialect.Options{Create: true})
		require.NoError(t, err)
		defer func() { _ = db.Close() }()
		require.NoError(t, migrations.Up(t.Context(), db))
		if db.IsSQLite() {
			var plan []struct {
				ID, Parent, NotUsed int
				Detail              string
			}
			require.NoError(t, db.Reader().SelectContext(t.Context(), &plan, "EXPLAIN QUERY PLAN SELECT id FROM task_instance WHERE state = 'queued'"+claimOrder+" LIMIT 8"))
			require.Len(t, plan, 1, "no sorting")
			require.Contains(t, plan[0].Detail, "task_instance_claim")
			return
		}
		var plan []map[string]any
		rows, err := db.Reader().QueryxContext(t.Context(), "EXPLAIN FORMAT=TRADITIONAL SELECT id FROM task_instance"+db.ForceIndex("k_claim")+" WHERE state = 'queued'"+claimOrder+" LIMIT 8")
		require.NoError(t, err)
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			row := map[string]any{}
			require.NoError(t, rows.MapScan(row))
			plan = append(plan, row)
		}
		require.NoError(t, rows.Err())
		require.Len(t, plan, 1)
		require.Equal(t, "k_claim", fmt.Sprintf("%s", plan[0]["key"]))
		require.NotContains(t, fmt.Sprintf("%s", plan[0]["Extra"]), "filesort")
	})
}
