package upload

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
)

// limits holds the budgets of the targets that attempts of this process send
// to now: attempts with one target and the same limits share them.
type limits struct {
	mu   sync.Mutex
	used map[budgetKey]*budget
}

type budgetKey struct {
	target   string
	bytes    int64
	requests float64
}

// budget is what one target gets in a second; nil limiters limit nothing.
type budget struct {
	users           int
	bytes, requests *rate.Limiter
}

func newLimits() *limits { return &limits{used: map[budgetKey]*budget{}} }

// take gives the budget of a target and what ends its use.
func (l *limits) take(target string, bytes int64, requests float64) (*budget, func()) {
	key := budgetKey{target, bytes, requests}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.used[key]
	if b == nil {
		b = &budget{}
		if bytes > 0 {
			b.bytes = rate.NewLimiter(rate.Limit(bytes), int(min(max(bytes/8, 1), 1<<20)))
		}
		if requests > 0 {
			b.requests = rate.NewLimiter(rate.Limit(requests), 1)
		}
		l.used[key] = b
	}
	b.users++
	return b, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if b.users--; b.users == 0 {
			delete(l.used, key)
		}
	}
}

// meter counts what an attempt moves, keeps it within its budget and tells
// when it has stopped moving.
type meter struct {
	clock  dag.Clock
	budget *budget
	moved  atomic.Int64 // bytes and requests: any advance
	// waiting counts those who wait for the budget: that is no stall.
	waiting atomic.Int64
	onMove  func(n int)
}

// advance notes that n bytes went on.
func (m *meter) advance(n int) {
	m.moved.Add(int64(n))
	if m.onMove != nil && n > 0 {
		m.onMove(n)
	}
}

// wait takes n from a limiter, which may be nil.
func (m *meter) wait(ctx context.Context, l *rate.Limiter, n int) error {
	if l == nil || n <= 0 {
		return nil
	}
	m.waiting.Add(1)
	defer m.waiting.Add(-1)
	now := m.clock.Now()
	r := l.ReserveN(now, n)
	if d := r.DelayFrom(now); d > 0 {
		select {
		case <-ctx.Done():
			r.CancelAt(m.clock.Now())
			return context.Cause(ctx)
		case <-m.clock.After(d):
		}
	}
	m.moved.Add(1)
	return nil
}

// request waits until one more request may be sent.
func (m *meter) request(ctx context.Context) error { return m.wait(ctx, m.budget.requests, 1) }

// watch gives a context that ends with STALLED when nothing has moved for the
// limit. stop ends the watch.
func (m *meter) watch(ctx context.Context, limit time.Duration) (watched context.Context, stop func()) {
	const looks = 8
	watched, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		seen, quiet := m.moved.Load(), 0
		for {
			select {
			case <-watched.Done():
				return
			case <-m.clock.After(limit / looks):
			}
			now := m.moved.Load()
			if now != seen || m.waiting.Load() > 0 {
				seen, quiet = now, 0
				continue
			}
			if quiet++; quiet >= looks {
				e := fault.New(fault.CodeStalled, "nothing was sent or received for "+limit.String())
				cancel(e)
				return
			}
		}
	}()
	return watched, func() { cancel(nil); <-done }
}

// body reads a section for sending: within the budget, and counted.
type body struct {
	io.ReadSeeker
	ctx context.Context
	m   *meter
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if l := b.m.budget.bytes; l != nil && len(p) > l.Burst() {
		p = p[:l.Burst()]
	}
	n, err := b.ReadSeeker.Read(p)
	if n > 0 {
		if err := b.m.wait(b.ctx, b.m.budget.bytes, n); err != nil {
			return 0, err
		}
		b.m.advance(n)
	}
	return n, err
}

// metered is a transport that keeps to a budget of requests.
type metered struct {
	m    *meter
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t metered) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.m.request(r.Context()); err != nil {
		return nil, err
	}
	answer, err := t.next.RoundTrip(r)
	if err == nil {
		t.m.moved.Add(1)
	}
	return answer, err
}

// counted counts what is read.
type counted struct {
	io.ReadCloser
	m *meter
}

// Read implements io.Reader.
func (c counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.m.moved.Add(int64(n))
	return n, err
}

// rest waits; that is no stall.
func (m *meter) rest(ctx context.Context, d time.Duration) error {
	m.waiting.Add(1)
	defer m.waiting.Add(-1)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-m.clock.After(d):
		return nil
	}
}
