package store

import (
	"sync"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// stamp is what tells one state of a run from the next: updated_at, which every
// pass moves on, and next_eval_at, which whoever changes an instance sets to its
// own present. Who finds both as it left them knows that no instance of the run
// has changed since in a way that a decision could see.
type stamp struct {
	updated time.Time
	next    *time.Time
}

func (s stamp) equal(o stamp) bool {
	if (s.next == nil) != (o.next == nil) {
		return false
	}
	return s.updated.Equal(o.updated) && (s.next == nil || s.next.Equal(*o.next))
}

// after is the transaction's instant or, if that has been used, the next one.
func (t *tx) after(last time.Time) time.Time {
	if next := last.Add(time.Microsecond); next.After(t.now) {
		return next
	}
	return t.now
}

// maxRemembered bounds the instances that runMemory keeps, of all runs together:
// some instanceBytes each. A larger run is read again for each batch of results.
const (
	maxRemembered = 120_000
	instanceBytes = 800
)

// runMemory keeps the instances of runs that this process decided about last, so
// that the end of one task in a run of thousands does not read all the others
// again, and what the next decision goes on from. Runs that another process went on
// with stay until others need their room. It is never believed without the run's
// row, see stamp: what is written by it is guarded by the stamp, or the row is read
// first. A claim does not count as a change, for a decision makes no difference
// between queued and running but where it ends such an instance, and that is guarded
// by its state.
type runMemory struct {
	mu   sync.Mutex
	runs map[int64]*remembered
	size int // their weights
}

type remembered struct {
	stamp stamp
	log   changeLog
	run   dag.Run
	held  []dag.TaskInstance
	index map[int64]int
	kept  *dag.Kept // what decisions go on from; nil in a small run
	// shared is set when the run is wide and other processes decide about it as well:
	// see changeLog. What was remembered may be gone then, and only this be left.
	shared bool
}

// weight is what a run takes of maxRemembered: an instance for each that it has, and
// as many as its own row would fill.
func (r *remembered) weight() int {
	return len(r.held) + 1 + (len(r.run.Conf)+len(r.log))/instanceBytes
}

// keepsFrom is from how many instances on a run's evaluation is kept: a look at
// all of a smaller one costs no more than going on.
const keepsFrom = 64

func newRunMemory() *runMemory { return &runMemory{runs: map[int64]*remembered{}} }

// take gives what is remembered of a run, and forgets it: who changes it puts it
// back when the change is committed.
func (m *runMemory) take(id int64) *remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs[id]
	m.drop(id)
	return r
}

// takeAll gives what is remembered of all of some runs, and forgets it; nil, and
// nothing is forgotten, when one of them is not remembered as a run that waits
// for nothing but its instances, or is shared: it has changed most likely.
func (m *runMemory) takeAll(ids []int64) []*remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*remembered, len(ids))
	for i, id := range ids {
		r := m.runs[id]
		if r == nil || r.shared || r.stamp.next != nil || r.run.State != dag.RunRunning {
			return nil
		}
		out[i] = r
	}
	for _, id := range ids {
		m.drop(id)
	}
	return out
}

// share marks runs, of which nothing is remembered, as shared.
func (m *runMemory) share(ids []int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if m.runs[id] == nil && m.size < maxRemembered {
			r := &remembered{shared: true}
			m.runs[id] = r
			m.size += r.weight()
		}
	}
}

// run gives a run that is remembered as one that waits for nothing but its
// instances, and was last updated at an instant.
func (m *runMemory) run(id int64, updated dialect.Time) (dag.Run, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs[id]
	if r == nil || !updated.Valid || !r.stamp.equal(stamp{updated: updated.Time}) || r.run.State != dag.RunRunning {
		return dag.Run{}, false
	}
	return r.run, true
}

// forget forgets runs.
func (m *runMemory) forget(ids []int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		m.drop(id)
	}
}

// put remembers a run; others make room when there are too many.
func (m *runMemory) put(id int64, r *remembered) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(id)
	w := r.weight()
	if w > maxRemembered {
		return
	}
	for other := range m.runs {
		if m.size+w <= maxRemembered {
			break
		}
		m.drop(other)
	}
	m.runs[id] = r
	m.size += w
}

func (m *runMemory) drop(id int64) {
	if r := m.runs[id]; r != nil {
		m.size -= r.weight()
		delete(m.runs, id)
	}
}
