package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

const (
	// sayEvery is the time between two lines about one trouble that goes on.
	sayEvery = time.Minute
	// sayOther is after how long it is said again when its cause has changed.
	sayOther = 10 * time.Second
)

// repeats is a log that says once a minute what a loop complains of each time
// it tries again: a database that is away for minutes must not fill the log.
// What is about one thing (a task, a run, a callback) is always written, and so
// is what is no complaint.
type repeats struct {
	slog.Handler
	clock dag.Clock
	about bool // With gave it a thing that its lines are about
	said  *said
}

type said struct {
	mu sync.Mutex
	by map[string]*complaint
}

// complaint is what was said of one trouble.
type complaint struct {
	at    time.Time
	cause string
	more  int // not written since
}

// withoutRepeats wraps a log.
func withoutRepeats(log *slog.Logger, clock dag.Clock) *slog.Logger {
	return slog.New(&repeats{Handler: log.Handler(), clock: clock, said: &said{by: map[string]*complaint{}}})
}

// Handle is slog.Handler.
func (h *repeats) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn || h.about {
		return h.Handler.Handle(ctx, r)
	}
	cause, about := "", false
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			cause = a.Value.String()
		}
		about = about || isThing(a.Key)
		return true
	})
	if cause == "" || about {
		return h.Handler.Handle(ctx, r)
	}
	more, say := h.said.next(r.Message, cause, h.clock.Now())
	if !say {
		return nil
	}
	if more > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("not_written_since", more))
	}
	return h.Handler.Handle(ctx, r)
}

// next tells whether a complaint is to be written now, and how many like it
// were not since the last one.
func (s *said) next(message, cause string, now time.Time) (more int, say bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.by[message]
	if c == nil {
		c = &complaint{}
		s.by[message] = c
	} else {
		wait := sayEvery
		if c.cause != cause {
			wait = sayOther
		}
		if since := now.Sub(c.at); since >= 0 && since < wait { // a clock that was set back must not silence it
			c.more++
			return 0, false
		}
	}
	more = c.more
	*c = complaint{at: now, cause: cause}
	return more, true
}

// isThing tells whether an attribute names what a line is about.
func isThing(key string) bool {
	switch key {
	case "task_instance", "task_id", "dag_id", "run_id", "event", "file":
		return true
	}
	return false
}

// WithAttrs is slog.Handler.
func (h *repeats) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := *h
	out.Handler = h.Handler.WithAttrs(attrs)
	for _, a := range attrs {
		out.about = out.about || isThing(a.Key)
	}
	return &out
}

// WithGroup is slog.Handler.
func (h *repeats) WithGroup(name string) slog.Handler {
	out := *h
	out.Handler = h.Handler.WithGroup(name)
	return &out
}
