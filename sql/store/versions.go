package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/airlock-dag/airlock/dag"
)

// maxCachedVersions bounds the cache; a DAG is some kilobytes to a megabyte.
const maxCachedVersions = 1000

// versionCache keeps decoded DAGs. A version never changes, so nothing in it
// grows old; when it is full an arbitrary entry makes room.
type versionCache struct {
	mu   sync.RWMutex
	byID map[int64]*dag.DAG
}

func newVersionCache() *versionCache { return &versionCache{byID: map[int64]*dag.DAG{}} }

func (c *versionCache) get(id int64) *dag.DAG {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.byID[id]
}

func (c *versionCache) put(id int64, d *dag.DAG) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byID) >= maxCachedVersions {
		for other := range c.byID {
			delete(c.byID, other)
			break
		}
	}
	c.byID[id] = d
}

// Version loads the DAG of a version id. Callers share the value and must not
// change it.
func (s *Store) Version(ctx context.Context, id int64) (*dag.DAG, error) {
	return s.version(ctx, s.db.Reader(), id)
}

// version is Version inside a transaction: on SQLite the pool of readers would
// not see a version that the same transaction wrote.
func (s *Store) version(ctx context.Context, q queryer, id int64) (*dag.DAG, error) {
	if d := s.versions.get(id); d != nil {
		return d, nil
	}
	var content string
	err := q.GetContext(ctx, &content, "SELECT content FROM dag_version WHERE id = ?", id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, &dag.Error{Code: dag.ErrNotFound, Op: fmt.Sprintf("DAG version %d", id), Err: errors.New("there is none")}
	}
	if err != nil {
		return nil, fmt.Errorf("DAG version %d: %w", id, err)
	}
	d, err := dag.DecodeDAG([]byte(content))
	if err != nil {
		return nil, fmt.Errorf("DAG version %d: %w", id, err)
	}
	d.Freeze()
	s.versions.put(id, d)
	return d, nil
}
