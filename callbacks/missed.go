package callbacks

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// maxThrottled is how old an event may be while a receiver that takes no more
// for now costs it nothing; then such an answer is a failure like any other.
const maxThrottled = 24 * time.Hour

// missed decides what becomes of an event whose delivery did not work.
func (d *Dispatcher) missed(ctx context.Context, c claimed, f *Failure) (result, dag.MissedDelivery) {
	attempt := c.event.Attempts + 1
	cause := dag.CutText(f.Error(), maxCause)
	log := d.o.Log.With(eventAttrs(c.event)...).With("attempt", attempt, "cause", cause)
	m := dag.MissedDelivery{EventID: c.event.ID, Cause: cause}
	outcome := "dead"
	// The outbox says how old an event is and when it is due: the clock of this
	// machine may be off, and counts only what passes here.
	now, wait := d.o.Clock.Now(), time.Duration(0)
	switch {
	case f.Throttled && !f.Permanent && c.event.Age+now.Sub(c.at) < maxThrottled:
		wait = nextDelay(1, f.RetryAfter, d.o.Rand)
		m.Wait, m.PutOff, outcome = &wait, true, "put_off"
		log.DebugContext(ctx, "callback put off: the receiver takes no more for now", "next", now.Add(wait))
	case f.Permanent || attempt >= d.o.MaxAttempts:
		log.ErrorContext(ctx, "callback given up; it is kept as dead")
	default:
		wait = nextDelay(attempt, f.RetryAfter, d.o.Rand)
		m.Wait, outcome = &wait, "retried"
		log.WarnContext(ctx, "callback not delivered; it will be tried again", "next", now.Add(wait))
	}
	d.o.OnEnd(c.event.Callback.Name, outcome)
	r := result{claimed: c, err: f}
	if m.Wait != nil {
		next := now.Add(wait)
		r.next = &next
	}
	return r, m
}

// spared is an event that is not tried because its receiver is away, or takes no
// more for now, for so long.
type spared struct {
	claimed
	wait      time.Duration
	cause     string
	throttled bool
}

// maxReach is how many events may be held while all that comes is for receivers
// that are away: it costs two commits to let so many fail.
const maxReach = 256

// spareAway lets the events fail, all at once and without a place, whose receiver
// is away. The last delivery of an event is always a real one.
func (s *session) spareAway(now time.Time) {
	var away []spared
	for _, key := range s.order {
		if s.ctx.Err() != nil {
			return
		}
		l, r := s.lanes[key], s.receivers[key.receiver]
		if r == nil || !now.Before(r.downUntil) || l.busy || len(l.queue) == 0 || l.queue[0].event.Attempts+1 >= s.d.o.MaxAttempts || l.waits(l.queue[0], now) {
			continue
		}
		e := spared{claimed: s.take(l), wait: r.downUntil.Sub(now), cause: r.cause, throttled: r.throttled}
		if r.throttled {
			e.wait += time.Duration(r.spared) * sparedStep
			r.spared++
		}
		away = append(away, e)
	}
	// Where nothing else comes than what is spared, more is taken at a time.
	switch {
	case s.came == 0:
	case s.came == s.asked && len(away) >= s.came:
		s.reach = min(2*s.reach, maxReach)
	default:
		s.reach = 4 * s.d.o.Concurrency
	}
	s.came = 0
	if len(away) > 0 {
		s.sparing += len(away)
		go s.spare(away)
	}
}

// spare records deliveries that are not tried, and reports each.
func (s *session) spare(events []spared) {
	results, missed := make([]result, len(events)), make([]dag.MissedDelivery, len(events))
	for i, e := range events {
		results[i], missed[i] = s.d.missed(s.ctx, e.claimed, &Failure{
			Err: fmt.Errorf("not tried, the receiver is away: %s", e.cause), RetryAfter: e.wait, Throttled: e.throttled,
		})
		results[i].spared = true
	}
	s.d.record(s.ctx, missed...)
	for _, r := range results {
		s.results <- r
	}
}

// recorder writes what was missed. While one transaction runs, what comes
// gathers for the next.
type recorder struct {
	mu   sync.Mutex
	next *missedBatch // nil when nothing waits
	busy bool
}

type missedBatch struct {
	missed []dag.MissedDelivery
	done   chan struct{} // closed when they are recorded, or cannot be
}

// record returns when the missed deliveries are in the outbox. What cannot be
// recorded comes back when its lease ends.
func (d *Dispatcher) record(ctx context.Context, missed ...dag.MissedDelivery) {
	r := &d.recorder
	r.mu.Lock()
	if r.next == nil {
		r.next = &missedBatch{done: make(chan struct{})}
	}
	b := r.next
	b.missed = append(b.missed, missed...)
	if !r.busy {
		r.busy = true
		go d.recordAll(context.WithoutCancel(ctx))
	}
	r.mu.Unlock()
	<-b.done
}

// recordAll writes batch after batch until nothing waits.
func (d *Dispatcher) recordAll(ctx context.Context) {
	r := &d.recorder
	for {
		r.mu.Lock()
		b := r.next
		r.next = nil
		if r.busy = b != nil; !r.busy {
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		limited, cancel := recording(ctx)
		if err := d.o.Outbox.EventsMissed(limited, b.missed); err != nil {
			d.o.Log.ErrorContext(ctx, "failed callbacks cannot be recorded; they come back when their leases end", "events", len(b.missed), "error", err)
		}
		cancel()
		close(b.done)
	}
}
