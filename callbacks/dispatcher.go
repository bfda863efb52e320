package callbacks

import (
	"context"
	"fmt"
	"time"
)

// Dispatcher delivers the events of an outbox. Make one with New, call Run, or
// Drain for what is there now, or RunUntil for both.
type Dispatcher struct {
	o         Options
	notifiers map[string]Notifier
	names     []string
	wake      chan struct{}
	recorder  recorder
}

// New makes a dispatcher. It panics on two notifiers of one name and on a
// missing outbox: those are programming errors.
func New(o Options) *Dispatcher {
	d := &Dispatcher{o: o.withDefaults(), notifiers: map[string]Notifier{}, wake: make(chan struct{}, 1)}
	if o.Outbox == nil {
		panic("callbacks.New: no outbox")
	}
	for _, n := range o.Notifiers {
		if _, twice := d.notifiers[n.Name()]; twice {
			panic(fmt.Sprintf("callbacks.New: notifier %q is there twice", n.Name()))
		}
		d.notifiers[n.Name()] = n
		d.names = append(d.names, n.Name())
	}
	return d
}

// Wake tells a running dispatcher that there may be new events. It never
// blocks.
func (d *Dispatcher) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run delivers events until ctx ends; then it takes no more, delivers what it
// holds within the grace time, and returns nil. An outbox that cannot
// be read is logged and tried again.
func (d *Dispatcher) Run(ctx context.Context) error { return d.RunUntil(ctx, nil) }

// RunUntil is Run until last is closed, and from then on Drain: what is being
// delivered goes on, what is due is delivered too.
func (d *Dispatcher) RunUntil(ctx context.Context, last <-chan struct{}) error {
	s := d.newSession(ctx)
	defer s.stop()
	more := true // the outbox may hold events that are due
	for ctx.Err() == nil {
		if more && s.room() > 0 {
			n, err := s.claim(ctx)
			more = err == nil && n > 0
			if err != nil && ctx.Err() == nil {
				d.o.Log.ErrorContext(ctx, "callback events cannot be read; trying again", "error", err)
			}
		}
		s.start()
		if more && s.room() > 0 {
			continue
		}
		select {
		case <-ctx.Done():
		case <-last:
			return s.drain(ctx)
		case r := <-s.results:
			s.finish(r)
		case <-d.wake:
			more = true
		case <-d.o.Wake:
			more = true
		case <-s.tick():
			s.poll, more = nil, true
			s.renew(ctx)
		}
	}
	s.settle(d.o.Grace)
	return nil
}

// Drain delivers what is pending and due now, each event once, and returns when
// nothing is left or ctx ends (with its error). Events whose delivery fails
// stay in the outbox for a later Run.
func (d *Dispatcher) Drain(ctx context.Context) error {
	s := d.newSession(ctx)
	defer s.stop()
	return s.drain(ctx)
}

func (s *session) drain(ctx context.Context) error {
	for more := true; ; {
		if more && s.room() > 0 && ctx.Err() == nil {
			n, err := s.claim(ctx)
			if err != nil {
				s.settle(s.d.o.Grace)
				return fmt.Errorf("read the callback events: %w", err)
			}
			more = n > 0
		}
		s.start()
		switch {
		case ctx.Err() != nil:
			s.settle(s.d.o.Grace)
			return ctx.Err()
		case more && s.room() > 0:
			continue
		case s.running+s.sparing == 0:
			return nil
		}
		select {
		case <-ctx.Done():
		case r := <-s.results:
			s.finish(r)
		case <-s.tick():
			s.poll = nil
			s.renew(ctx)
		}
	}
}

// tick is when the outbox is looked at next, and the leases are.
func (s *session) tick() <-chan time.Time {
	if s.poll == nil {
		s.poll = s.d.o.Clock.After(min(s.d.o.Poll, s.d.o.Lease/4))
	}
	return s.poll
}

// settle delivers what was claimed, for the grace time at most; then it ends
// what still runs. Events that are left stay claimed and come back when their
// lease ends.
func (s *session) settle(grace time.Duration) {
	over := s.d.o.Clock.After(grace)
	for s.start(); s.running+s.sparing > 0; s.start() {
		select {
		case r := <-s.results:
			s.finish(r)
		case <-over:
			s.stop()
			over = nil
		}
	}
}
