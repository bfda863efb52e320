package executor

import (
	"sync"
	"time"
)

// keepVersions is how long what was made of a DAG's version is kept at least
// after its last use; at most twice as long.
const keepVersions = 24 * time.Hour

// versionMemory keeps what was made of DAG versions, by their ids. A version
// never changes, so nothing in it grows old; what nobody asks for any more is
// forgotten, so that a process that lives for years does not keep every version
// that there ever was.
type versionMemory[T any] struct {
	mu         sync.Mutex
	fresh, old map[int64]T
	turned     time.Time // when fresh was begun
}

// get finds what was kept for a version.
func (m *versionMemory[T]) get(id int64, now time.Time) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if age := now.Sub(m.turned); m.fresh == nil || age >= keepVersions || age < 0 {
		m.fresh, m.old, m.turned = map[int64]T{}, m.fresh, now
	}
	if v, ok := m.fresh[id]; ok {
		return v, true
	}
	v, ok := m.old[id]
	if ok {
		m.fresh[id] = v
	}
	return v, ok
}

// put keeps a value. It comes after a get that did not find it.
func (m *versionMemory[T]) put(id int64, v T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fresh[id] = v
}
