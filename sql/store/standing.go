package store

import (
	"context"
	"maps"
	"sync"
	"time"
)

// standingFor is how long a count of what is in use may be gone on from. Turns
// and shares are that old at most; the number of slots in use is never too low.
const standingFor = 50 * time.Millisecond

// standing is what was in use of the pools after the last pass that counted it,
// with what has been handed out since. On a SQLite file, where one connection
// writes and can tell whether anybody else has, nothing but its own passes can
// have raised it, so that a pass which finds room enough need not count again.
// Counting looks at all that is queued: with small batches it would be most of
// what a task costs. What has ended since makes it too high, and lets a pass count
// sooner.
type standing struct {
	mu   sync.Mutex
	pass int64  // the newest pass that has begun
	last *stood // nil when that one has not ended, or handed out slots by another count
}

type stood struct {
	pass     int64
	seen     fileStamp
	at       time.Time      // when it was counted
	used     map[string]int // slots by pool
	deferred map[string]bool
	fair     fair
}

// fileStamp tells whether another connection has written to a SQLite file:
// Version changes then. Changes are those of this connection, which begin at
// nothing when it is a new one.
type fileStamp struct {
	Version int64 `db:"data_version"`
	Changes int64 `db:"changes"`
}

// standingStamp is the present one; false on a server, which has none.
func (t *tx) standingStamp(ctx context.Context) (fileStamp, bool, error) {
	var now fileStamp
	if !t.s.db.IsSQLite() {
		return now, false, nil
	}
	err := t.GetContext(ctx, &now, "SELECT data_version, total_changes() AS changes FROM pragma_data_version()")
	return now, err == nil, err
}

// countOrGoOn takes off what is in use of each pool, as countPools does, or as
// it was when it was last counted if that leaves room for all candidates.
func (t *tx) countOrGoOn(ctx context.Context, l *slots, deferred map[string]bool, ready []candidate) error {
	now, can, err := t.standingStamp(ctx)
	if err != nil {
		return err
	}
	if !can || !t.goOn(l, deferred, now, ready) {
		l.counted = t.now
		if err := t.countPools(ctx, l, deferred); err != nil {
			return err
		}
	}
	l.seen, l.stands = now, can
	return nil
}

func (t *tx) goOn(l *slots, deferred map[string]bool, now fileStamp, ready []candidate) bool {
	s := l.before
	if s == nil || s.seen.Version != now.Version || s.seen.Changes > now.Changes || !maps.Equal(s.deferred, deferred) {
		return false
	}
	if since := t.now.Sub(s.at); since < 0 || since >= standingFor {
		return false
	}
	left := map[string]int{}
	for name, p := range l.open {
		left[name] = p.open - s.used[name]
	}
	for i := range ready {
		c := &ready[i]
		p := l.open[c.Pool]
		if p == nil || c.Replaying {
			return false
		}
		if left[c.Pool] -= c.PoolSlots; left[c.Pool] < 0 && !p.unlimited {
			return false
		}
	}
	for name, p := range l.open {
		p.open -= s.used[name]
	}
	l.fair, l.counted = s.fair, s.at
	return true
}

// begin begins a pass, which holds the file's write lock, and gives what the one
// before it left.
func (s *standing) begin() (pass int64, before *stood) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass++
	before, s.last = s.last, nil
	return s.pass, before
}

// keepStanding remembers what is in use at the end of a pass, once the
// transaction is committed: what it took off for results of its own counts again
// if it is not.
func (t *tx) keepStanding(l *slots, deferred map[string]bool) {
	used := make(map[string]int, len(l.open))
	for name, p := range l.open {
		used[name] = p.size - p.open
	}
	t.stands = &stood{pass: l.pass, seen: l.seen, at: l.counted, used: used, deferred: deferred, fair: l.fair}
}

// commit makes what a committed transaction counted the present standing, unless
// another pass has begun since: that one did not know of it.
func (s *standing) commit(after *stood) {
	if after == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if after.pass == s.pass {
		s.last = after
	}
}
