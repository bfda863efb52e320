package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// workerMemory is how long the row of a worker stays that ended without a word.
const workerMemory = 24 * time.Hour

// NoteWorker keeps that a worker takes work, for as long as its notice counts.
func (s *Store) NoteWorker(ctx context.Context, w dag.WorkerNotice) error {
	queues, err := json.Marshal(append([]string{}, w.Queues...))
	if err != nil {
		return fmt.Errorf("note worker %s: %w", w.ID, err)
	}
	return s.write(ctx, "note a worker", func(ctx context.Context, t *tx) error {
		if _, err := t.exec(ctx, "DELETE FROM worker WHERE alive_until < ?", dialect.Stamp(t.now.Add(-workerMemory))); err != nil {
			return err
		}
		_, err := t.exec(ctx, "INSERT INTO worker (worker_id, hostname, queues, concurrency, started_at, alive_until) VALUES "+dialect.Rows(1, 6)+
			s.db.Upsert([]string{"worker_id"}, []string{"alive_until"}),
			short(w.ID, 250), short(w.Hostname, 250), string(queues), w.Concurrency, t.at, dialect.Stamp(t.now.Add(w.Alive)))
		return err
	})
}

// ForgetWorker tells that a worker takes no more work.
func (s *Store) ForgetWorker(ctx context.Context, id string) error {
	return s.write(ctx, "forget a worker", func(ctx context.Context, t *tx) error {
		_, err := t.exec(ctx, "DELETE FROM worker WHERE worker_id = ?", short(id, 250))
		return err
	})
}

// Unserved lists the queues in which instances have been queued for some time, and
// from which no living worker takes, by name.
func (s *Store) Unserved(ctx context.Context, queuedFor time.Duration) ([]dag.UnservedQueue, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	q := s.db.Reader()
	var rows []string
	if err := q.SelectContext(ctx, &rows, "SELECT queues FROM worker WHERE alive_until > ?", dialect.Stamp(now)); err != nil {
		return nil, fmt.Errorf("list the workers: %w", err)
	}
	served := map[string]bool{}
	for _, text := range rows {
		var queues []string
		if err := json.Unmarshal([]byte(text), &queues); err != nil {
			return nil, fmt.Errorf("list the workers: queues %q: %w", text, err)
		}
		if len(queues) == 0 { // it takes from all
			return nil, nil
		}
		for _, queue := range queues {
			served[queue] = true
		}
	}
	where, args := "state = 'queued'", []any{}
	if queuedFor > 0 { // only then the rows themselves are looked at
		where, args = where+" AND queued_at <= ?", []any{dialect.Stamp(now.Add(-queuedFor))}
	}
	var out []dag.UnservedQueue
	err = countBy(ctx, q, "SELECT queue AS name, COUNT(*) AS n FROM task_instance WHERE "+where+" GROUP BY queue", func(name string, n int) {
		if !served[name] {
			out = append(out, dag.UnservedQueue{Queue: name, Tasks: n, Workers: len(rows)})
		}
	}, args...)
	if err != nil {
		return nil, fmt.Errorf("count what is queued: %w", err)
	}
	slices.SortFunc(out, func(a, b dag.UnservedQueue) int { return strings.Compare(a.Queue, b.Queue) })
	return out, nil
}
