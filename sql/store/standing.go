package store

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// standingFor is how long a count of what is in use may be gone on from. Turns
// and shares are that old at most; the number of slots in use is never too low.
const standingFor = 50 * time.Millisecond

// standing is what was in use of the pools after the last pass that counted it,
// with what has been handed out since. Only passes raise it, so that one which
// knows that no other process has made a pass meanwhile, and finds room enough,
// need not count again. Counting looks at all that is queued: with small batches
// it would be most of what a task costs. What has ended since makes it too high,
// and lets a pass count sooner.
type standing struct {
	mu   sync.Mutex
	pass int64  // the newest pass that has begun
	last *stood // nil when that one has not ended, or handed out slots by another count
}

type stood struct {
	pass  int64
	seen  passStamp
	at    time.Time            // when it was counted
	pools map[string]*openPool // with what is open of each
	fair  fair
	// drained is set when nothing was left queued that this process would claim.
	drained bool
}

// passStamp tells whether another process has made a pass. A SQLite file has a
// version that changes when another connection writes to it; changes are those
// of this connection, which begin at nothing when it is a new one. On a server
// passes are numbered, in the row of the default pool, which each pass locks.
type passStamp struct {
	Version int64 `db:"data_version"`
	Changes int64 `db:"changes"`
	number  int64
}

// follows tells whether nobody has made a pass between two stamps of this process.
func (p passStamp) follows(before passStamp) bool {
	return p.Version == before.Version && p.Changes >= before.Changes && (p.number == 0 || p.number == before.number+1)
}

// stampPass puts the stamp of the pass that begins into l. There is none to be
// had on a Galera cluster: its nodes do not see each other's locks, and a number
// in one row would only make them get in each other's way. On a server it is
// there when what waits is flushed.
func (t *tx) stampPass(ctx context.Context, l *slots) error {
	begins := func() {
		l.stands = true
		l.pass, l.before = t.s.standing.begin()
	}
	if t.s.db.IsSQLite() {
		err := t.GetContext(ctx, &l.seen, "SELECT data_version, total_changes() AS changes FROM pragma_data_version()")
		if err == nil {
			begins()
		}
		return err
	}
	if t.s.cluster {
		return nil
	}
	return t.later(ctx, func(o dialect.Outcome) error {
		if l.seen.number = o.ID; o.Rows > 0 {
			begins()
		}
		return nil
	}, numberPass, dag.DefaultPool)
}

// numberPass locks the row of the default pool, and thereby all passes, and
// gives the number of this one as the statement's id.
const numberPass = "UPDATE pool SET passes = LAST_INSERT_ID(passes + 1) WHERE name = ?"

// changePools lets the next pass see that pools have changed.
func (t *tx) changePools(ctx context.Context) error {
	if t.s.db.IsSQLite() {
		t.s.standing.begin()
		return nil
	}
	_, err := t.exec(ctx, numberPass, dag.DefaultPool)
	return err
}

// goOn fills in what is in use as it was when it was last counted, if that is
// known still and leaves room for all candidates.
func (t *tx) goOn(l *slots, ready []candidate) bool {
	s := l.before
	if s == nil || !l.stands || t.unqueued || !l.seen.follows(s.seen) {
		return false
	}
	if since := t.now.Sub(s.at); since < 0 || since >= standingFor {
		return false
	}
	left := map[string]int{}
	for name, p := range s.pools {
		left[name] = p.open
	}
	for i := range ready {
		c := &ready[i]
		p := s.pools[c.Pool]
		if p == nil || c.Replaying {
			return false
		}
		if left[c.Pool] -= c.PoolSlots; left[c.Pool] < 0 && !p.unlimited {
			return false
		}
	}
	l.pools, l.fair, l.counted, l.drained = s.pools, s.fair, s.at, s.drained
	return true
}

// young tells whether the last pass counted so lately that the next may go on
// from there.
func (s *standing) young(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return false
	}
	since := now.Sub(s.last.at)
	return since >= 0 && since < standingFor
}

// begin begins a pass, which holds the lock of all passes, and gives what the one
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
func (t *tx) keepStanding(l *slots) {
	t.stands = &stood{pass: l.pass, seen: l.seen, at: l.counted, pools: maps.Clone(l.pools), fair: l.fair, drained: l.drained}
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
