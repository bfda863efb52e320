package callbacks

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// maxParked is how many events of lanes that wait may be kept in memory; more
// are left to come back when their lease ends.
const maxParked = 1000

// maxReceivers is how many receivers are remembered that say nothing but that
// they took the last delivery.
const maxReceivers = 1000

// sweepEvery is the time between two looks through all lanes.
const sweepEvery = time.Second

// sparedStep is the time between two events that come back to a receiver that
// took no more: about what such receivers take (Slack takes one a second).
const sparedStep = time.Second

// receiver is what is known of one receiver.
type receiver struct {
	running   int
	good      bool      // it took the last delivery
	failures  int       // in a row, of the kind that says it is away
	downUntil time.Time // not tried before
	cause     string
	// throttled says that it is there and takes no more for now; spared counts
	// the events that wait for it, so that they come back one after the other.
	throttled bool
	spared    int
}

// claimed is an event that this process holds the lease of.
type claimed struct {
	event dag.Event
	at    time.Time
	lane  laneKey
	place string
	// doubtful is set while it counts in session.places.
	doubtful bool
}

// result is how a delivery ended.
type result struct {
	claimed
	// err is nil for a delivered event.
	err *Failure
	// abandoned is set when the delivery was ended by us: the event stays
	// claimed and comes back.
	abandoned bool
	// spared is set when it was not tried.
	spared bool
	next   *time.Time
}

// session is the state of one Run or Drain. Only its own goroutine touches it;
// deliveries report through results.
type session struct {
	d    *Dispatcher
	ctx  context.Context // of the deliveries: outlives the caller's by the grace time
	stop context.CancelFunc

	lanes     map[laneKey]*lane
	receivers map[string]*receiver
	order     []laneKey // lanes with something queued, in order of arrival
	known     map[int64]bool
	// again holds events that were claimed while their last delivery, which had
	// failed by then, was not noted here yet: they are due.
	again   map[int64]claimed
	queued  int // claimed and not yet running, parked ones too
	parked  int
	running int
	// sparing counts the events of receivers that are away whose failure is being
	// recorded; reach is how many events may be held, and asked and came what the
	// last claim wanted and got.
	sparing, reach, asked, came int
	// places counts the deliveries to receivers that are not known as good, by
	// where they go, see placeOf.
	places  map[string]int
	poll    <-chan time.Time // the next look into the outbox; nil until it is asked for
	renewed time.Time        // the leases, last
	swept   time.Time        // the lanes, last
	results chan result
}

func (d *Dispatcher) newSession(ctx context.Context) *session {
	s := &session{
		d: d, reach: 4 * d.o.Concurrency, lanes: map[laneKey]*lane{}, receivers: map[string]*receiver{}, known: map[int64]bool{}, again: map[int64]claimed{},
		places: map[string]int{}, results: make(chan result, d.o.Concurrency),
	}
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

// room is how many more events may be claimed. Parked events do not count: they
// hold up nobody.
func (s *session) room() int {
	return s.reach - (s.queued - s.parked) - s.running - s.sparing
}

// claim takes events from the outbox and puts them into their lanes. It returns
// how many came.
func (s *session) claim(ctx context.Context) (int, error) {
	s.asked, s.came = s.room(), 0
	events, err := s.d.o.Outbox.ClaimEvents(ctx, s.d.o.Owner, s.asked, s.d.o.Lease)
	if err != nil {
		return 0, err
	}
	s.came = len(events)
	now := s.d.o.Clock.Now()
	for _, e := range events {
		c := claimed{event: e, at: now, lane: laneKey{e.TaskInstanceKey, receiverID(e.Callback)}, place: placeOf(e.Callback)}
		if s.known[e.ID] { // its lease ended while it was here, or its delivery has failed meanwhile
			s.again[e.ID] = c
			continue
		}
		s.known[e.ID] = true
		s.enqueue(c)
	}
	return len(events), nil
}

// renew extends the leases of all events that are here, when a quarter of a
// lease has passed since the last time. What somebody else has taken meanwhile
// is dropped, unless its delivery runs already.
func (s *session) renew(ctx context.Context) {
	now := s.d.o.Clock.Now()
	if len(s.known) == 0 || now.Sub(s.renewed) < s.d.o.Lease/4 {
		return
	}
	ids := slices.Sorted(maps.Keys(s.known))
	held, err := s.d.o.Outbox.RenewEvents(ctx, s.d.o.Owner, ids, s.d.o.Lease)
	if err != nil {
		if ctx.Err() == nil {
			s.d.o.Log.WarnContext(ctx, "the leases of callback events cannot be renewed; they may be delivered twice", "error", err)
		}
		return
	}
	s.renewed = now
	mine := make(map[int64]bool, len(held))
	for _, id := range held {
		mine[id] = true
	}
	for _, l := range s.lanes {
		for i := range l.queue {
			if mine[l.queue[i].event.ID] {
				l.queue[i].at = now
			} else {
				l.queue[i].at = time.Time{} // tidy drops it
			}
		}
	}
}

// full tells whether an event's receiver has its share of the deliveries, or one
// that is not known as good has, together with the others like it where it goes.
func (s *session) full(c claimed) bool {
	r, share := s.receivers[c.lane.receiver], max(1, s.d.o.Concurrency/2)
	if r != nil && r.good {
		return r.running >= share
	}
	return s.places[c.place] >= share
}

// start begins as many deliveries as there are free places, oldest lane first,
// and spares those whose receiver is away.
func (s *session) start() {
	now := s.d.o.Clock.Now()
	defer s.tidy(now)
	s.spareAway(now)
	for _, key := range s.order {
		if s.running >= s.d.o.Concurrency || s.ctx.Err() != nil {
			return
		}
		l := s.lanes[key]
		if l.busy || len(l.queue) == 0 || s.full(l.queue[0]) || l.waits(l.queue[0], now) {
			continue
		}
		r := s.receivers[key.receiver]
		if r == nil {
			r = &receiver{}
			s.receivers[key.receiver] = r
		}
		c := s.take(l)
		s.running++
		r.running++
		if c.doubtful = !r.good; c.doubtful {
			s.places[c.place]++
		}
		go func() { s.results <- s.d.attempt(s.ctx, c) }()
	}
}

// take takes the oldest event out of a lane, which is busy until it has ended.
func (s *session) take(l *lane) claimed {
	c := l.queue[0]
	l.queue = l.queue[1:]
	l.busy = true
	s.queued--
	return c
}

// finish takes the end of a delivery into account.
func (s *session) finish(r result) {
	now := s.d.o.Clock.Now()
	delete(s.known, r.event.ID)
	again, claimed := s.again[r.event.ID]
	delete(s.again, r.event.ID)
	l, rec := s.lanes[r.lane], s.receivers[r.lane.receiver]
	l.busy = false
	if r.spared {
		s.sparing--
	} else {
		s.running--
		rec.running--
		rec.good = r.err == nil && !r.abandoned
	}
	if r.doubtful {
		if s.places[r.place]--; s.places[r.place] == 0 {
			delete(s.places, r.place)
		}
	}
	switch {
	case r.abandoned || r.spared:
	case r.err == nil:
		rec.failures, rec.downUntil, rec.cause, rec.throttled = 0, time.Time{}, "", false
	case r.err.Down && !now.Before(rec.downUntil):
		rec.failures++
		rec.downUntil = now.Add(min(downCap, max(backoff(rec.failures), r.err.RetryAfter)))
		rec.cause, rec.throttled, rec.spared = r.err.Error(), r.err.Throttled, 0
	}
	switch {
	case r.next == nil:
	case claimed && again.event.Attempts > r.event.Attempts: // after the failure was recorded
		s.known[r.event.ID] = true
		s.enqueue(again)
	default:
		// Long enough for all places to be busy with slow deliveries meanwhile.
		l.away[r.event.ID] = r.next.Add(max(s.d.o.Lease, 2*s.d.o.Timeout))
	}
}
