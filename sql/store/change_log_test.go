package store

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// passAt is the stamp that a pass leaves n microseconds after the first.
func passAt(n int, next ...int) stamp {
	at := time.Date(2026, 6, 10, 12, 0, 0, 0, time.UTC)
	s := stamp{updated: at.Add(time.Duration(n) * time.Microsecond)}
	for _, n := range next {
		later := at.Add(time.Duration(n) * time.Microsecond)
		s.next = &later
	}
	return s
}

// TestChangeLog: whoever remembers a run as one of the steps left it is told all
// that was changed since, and nobody else is told anything.
func TestChangeLog(t *testing.T) {
	t.Parallel()
	begun := changeLog("").and(passAt(1), passAt(2), []int64{7})
	log := begun.and(passAt(2), passAt(3, 99), []int64{5, 1 << 40, 5, 3}).and(passAt(3, 99), passAt(4), nil).and(passAt(4), passAt(5), []int64{4, 3})
	for _, c := range []struct {
		name        string
		log         changeLog
		before, now stamp
		want        []int64
		tells       bool
	}{
		{"from where it begins", log, passAt(2), passAt(5), []int64{3, 4, 5, 1 << 40}, true},
		{"from a step", log, passAt(3, 99), passAt(5), []int64{3, 4}, true},
		{"from one that changed nothing", log, passAt(4), passAt(5), []int64{3, 4}, true},
		{"from the present", log, passAt(5), passAt(5), nil, true},
		{"from before it", log, passAt(1), passAt(5), nil, false},
		{"from a stamp like one of its own", log, passAt(3), passAt(5), nil, false},
		{"the run was woken since", log, passAt(3, 99), passAt(6, 6), nil, false},
		{"at once", log, passAt(3, 99), passAt(5, 5), nil, false},
		{"a pass has left it as it was", log, passAt(3, 99), passAt(6), nil, false},
		{"it begins anew after a wake", log.and(passAt(6, 6), passAt(7), []int64{9}), passAt(5), passAt(7), nil, false},
		{"there is none", "", passAt(4), passAt(5), nil, false},
		{"it is no log", "|||", passAt(4), passAt(5), nil, false},
		{"nor a part of one", changeLog(passAt(4).key() + "|" + passAt(5).key() + "1,,2"), passAt(4), passAt(5), nil, false},
	} {
		got, tells := c.log.since(c.before, c.now)
		require.Equal(t, c.tells, tells, c.name)
		require.Equal(t, c.want, got, c.name)
	}
}

// TestChangeLogIsBounded: what is too long for the column loses its oldest steps,
// and what then is left tells the same as before.
func TestChangeLogIsBounded(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	var log changeLog
	var steps [][]int64
	lost := false
	for n := range 400 {
		ids := make([]int64, random.IntN(30))
		if random.IntN(50) == 0 {
			ids = make([]int64, 1200)
		}
		for i := range ids {
			ids[i] = 1<<33 + random.Int64N(1<<24)
		}
		log = log.and(passAt(n), passAt(n+1), ids)
		steps = append(steps, ids)
		require.LessOrEqual(t, len(log), maxChangeLog)
		require.True(t, log.endsAt(passAt(n+1)))
		for back := range 60 {
			from := n + 1 - back
			if from < 1 {
				break
			}
			got, tells := log.since(passAt(from), passAt(n+1))
			if !tells {
				require.Positive(t, back)
				lost = true
				continue
			}
			want := slices.Concat(steps[from:]...)
			slices.Sort(want)
			require.Equal(t, slices.Compact(want), got)
		}
	}
	require.True(t, lost)

	all := make([]int64, 100_000)
	for i := range all {
		all[i] = int64(i) * 1000
	}
	long := log.and(passAt(400), passAt(401), all)
	require.Zero(t, strings.Count(string(long), "|"), "others begin here")
	got, tells := long.since(passAt(401), passAt(401))
	require.True(t, tells)
	require.Empty(t, got)
}
