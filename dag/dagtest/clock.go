// Package dagtest has the stand-ins for time, randomness and ids that tests of
// every room use. It imports the standard library only.
package dagtest

import (
	"fmt"
	"sync"
	"time"
)

// Clock is a dag.Clock that moves only when a test says so.
type Clock struct {
	mu      sync.Mutex
	changed *sync.Cond
	now     time.Time
	waiters []waiter
}

type waiter struct {
	at time.Time
	ch chan time.Time
}

// NewClock makes a clock that stands at now.
func NewClock(now time.Time) *Clock {
	c := &Clock{now: now.UTC()}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// Now implements dag.Clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// After implements dag.Clock.
func (c *Clock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan time.Time, 1)
	if d <= 0 {
		ch <- c.now
		return ch
	}
	c.waiters = append(c.waiters, waiter{at: c.now.Add(d), ch: ch})
	c.changed.Broadcast()
	return ch
}

// Advance moves the clock and wakes whoever waits for an instant passed.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(c.now.Add(d))
}

// Set puts the clock at an instant, which may be in the past: clocks jump.
func (c *Clock) Set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(at.UTC())
}

func (c *Clock) set(at time.Time) {
	c.now = at
	left := c.waiters[:0]
	for _, w := range c.waiters {
		if w.at.After(at) {
			left = append(left, w)
			continue
		}
		w.ch <- at
	}
	c.waiters = left
}

// BlockUntil returns when at least n callers wait for the clock.
func (c *Clock) BlockUntil(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.waiters) < n {
		c.changed.Wait()
	}
}

// Rand gives a fixed sequence over and over.
type Rand struct {
	mu     sync.Mutex
	Values []float64
	next   int
}

// Float64 implements dag.Rand.
func (r *Rand) Float64() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.Values[r.next%len(r.Values)]
	r.next++
	return v
}

// IDs counts: 00..01, 00..02.
type IDs struct {
	mu sync.Mutex
	n  int
}

// NewID implements dag.IDSource.
func (s *IDs) NewID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	return fmt.Sprintf("%032x", s.n)
}
