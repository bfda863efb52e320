package executor

import (
	"context"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// A worker says now and again that it takes work. Who has not for noticeAlive is
// taken for dead by those who wonder why a queue does not move; nothing else
// depends on it, so that a database that is away for a moment is no matter.
const (
	noticeEvery = 20 * time.Second
	noticeAlive = 3 * noticeEvery
	noticeLimit = 5 * time.Second // for taking it back
)

// notice keeps the worker's notice, until ctx ends and it takes no more work. A test
// run's worker serves nobody else.
func (w *Worker) notice(ctx context.Context) {
	if w.o.OnlyRun != 0 {
		return
	}
	n := dag.WorkerNotice{ID: w.o.ID, Hostname: w.o.Hostname, Queues: w.o.Queues, Concurrency: w.o.Concurrency, Alive: noticeAlive}
	for {
		if err := w.o.Store.NoteWorker(ctx, n); err != nil && ctx.Err() == nil {
			w.o.Log.Debug("the worker's notice was not written", "error", err)
		}
		select {
		case <-w.o.Clock.After(noticeEvery):
			continue
		case <-ctx.Done():
		}
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), noticeLimit)
		defer cancel()
		if err := w.o.Store.ForgetWorker(last, w.o.ID); err != nil {
			w.o.Log.Debug("the worker's notice was not taken back; it ends by itself", "error", err)
		}
		return
	}
}

// What waits in a queue for shorter than unservedFor may have its worker on the way.
const unservedFor = 10 * time.Second

// tellUnserved says which queues no living worker takes from though tasks wait in
// them.
func (s *Scheduler) tellUnserved(ctx context.Context) {
	list, err := s.o.Store.Unserved(ctx, unservedFor)
	if err != nil { // the next pass will say so
		return
	}
	for _, u := range list {
		s.o.Warnings.Warn(u.What(), "queue", u.Queue, "tasks", u.Tasks, "workers", u.Workers, "hint", u.Hint())
	}
}
