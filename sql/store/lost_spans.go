package store

import (
	"context"
	"slices"
	"sort"
	"time"

	"github.com/airlock-dag/airlock/sql/dialect"
)

// lostWorker is the error code of an attempt of which its worker never told.
const lostWorker = "WORKER_LOST"

// clocksApart is how far the clock that stamps an effect in a target may be from
// the one that stamps attempts: a worker's machine and the state database's.
const clocksApart = time.Hour

// Spans are stretches of time in their order, none of which touches another.
type Spans []Span

// Span is a stretch of time, both ends included.
type Span struct{ From, To time.Time }

// Has tells whether an instant lies in one of the spans.
func (s Spans) Has(at time.Time) bool {
	i := sort.Search(len(s), func(i int) bool { return !s[i].To.Before(at) })
	return i < len(s) && !s[i].From.After(at)
}

// join puts spans in order, and those that touch together.
func join(all Spans) Spans {
	slices.SortFunc(all, func(a, b Span) int { return a.From.Compare(b.From) })
	var out Spans
	for _, s := range all {
		if n := len(out); n > 0 && !s.From.After(out[n-1].To) {
			if s.To.After(out[n-1].To) {
				out[n-1].To = s.To
			}
			continue
		}
		out = append(out, s)
	}
	return out
}

// LostSpans gives the times in which attempts ran that belong to an open dead
// letter and whose worker was lost. Such an attempt may have committed its effect
// in a target under a key that a step wrote itself (idempotency_key), and that
// nobody knows here: what was committed in these times must stay, or a replay of
// the letter would do it again. An hour on either side is for clocks that differ.
func (s *Store) LostSpans(ctx context.Context) (Spans, error) {
	type row struct {
		ID    int64        `db:"id"`
		Start dialect.Time `db:"start_date"`
		End   dialect.Time `db:"end_date"`
	}
	var out Spans
	for after := int64(0); ; {
		var rows []row
		if err := s.db.Reader().SelectContext(ctx, &rows, `SELECT a.id, a.start_date, a.end_date FROM task_attempt a
 WHERE a.id > ? AND a.error_code = '`+lostWorker+`' AND EXISTS
  (SELECT 1 FROM dead_letter l WHERE l.task_instance_id = a.task_instance_id AND l.`+liveLetter+`) ORDER BY a.id`+limit(openAtOnce, openAtOnce),
			after); err != nil {
			return nil, s.explain("list the attempts of lost workers", err)
		}
		for _, r := range rows {
			out = append(out, Span{r.Start.Time.Add(-clocksApart), r.End.Time.Add(clocksApart)})
		}
		out = join(out)
		if len(rows) < openAtOnce {
			return out, nil
		}
		after = rows[len(rows)-1].ID
	}
}
