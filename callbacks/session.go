package callbacks

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// maxParked is how many events of lanes that wait may be kept in memory; more
// are left to come back when their lease ends.
const maxParked = 1000

// maxReceivers is how many receivers are remembered that say nothing but that
// they took the last delivery.
const maxReceivers = 1000

// maxReach is how many events may be held while all that comes is for receivers
// that are away: it costs two commits to let so many fail.
const maxReach = 256

// sweepEvery is the time between two looks through all lanes.
const sweepEvery = time.Second

// sparedStep is the time between two events that come back to a receiver that
// took no more: about what such receivers take (Slack takes one a second).
const sparedStep = time.Second

// laneKey names what is kept in order: one task instance (or run) and one
// receiver.
type laneKey struct {
	instance dag.TaskInstanceKey
	receiver string
}

// lane holds the events of one task instance for one receiver, oldest first.
type lane struct {
	queue []claimed
	// listed is set while the lane stands in session.order.
	listed bool
	busy   bool
	// away holds the events that are to come back from the outbox: what came
	// after one of them waits, until the instant at which it must have come back
	// or another dispatcher has it.
	away map[int64]time.Time
}

// waits tells whether an event must wait for an older one that is away.
func (l *lane) waits(c claimed, now time.Time) bool {
	for id, until := range l.away {
		if id < c.event.ID && now.Before(until) {
			return true
		}
	}
	return false
}

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

// receiverID names a receiver: its notifier and arguments as the DAG has them.
func receiverID(c dag.Callback) string {
	raw, err := json.Marshal(c) // sorts the keys of mappings
	if err != nil {
		return c.Name
	}
	return string(raw)
}

// placeOf names where a receiver's deliveries go, as far as the DAG's file tells:
// the host of an address, or a connection. Receivers that differ in a path or a
// text alone hang together: by themselves each would take its share of the
// deliveries, and all of them every one.
func placeOf(c dag.Callback) string {
	for _, key := range slices.Sorted(maps.Keys(c.Args)) {
		text, _ := c.Args[key].(string)
		switch {
		case text == "" || key == "secret_conn_id":
		case key == "url":
			if u, err := url.Parse(text); err == nil && u.Host != "" {
				text = u.Host
			}
			return c.Name + " " + text
		case strings.HasSuffix(key, "conn_id"):
			return c.Name + " " + text
		}
	}
	return c.Name
}

// enqueue puts an event into its lane, by id: a lane may hold younger events
// that were claimed while this one waited for its retry.
func (s *session) enqueue(c claimed) {
	l := s.lanes[c.lane]
	if l == nil {
		l = &lane{away: map[int64]time.Time{}}
		s.lanes[c.lane] = l
	}
	if !l.listed {
		l.listed = true
		s.order = append(s.order, c.lane)
	}
	at := len(l.queue)
	for at > 0 && l.queue[at-1].event.ID > c.event.ID {
		at--
	}
	l.queue = append(l.queue, claimed{})
	copy(l.queue[at+1:], l.queue[at:])
	l.queue[at] = c
	s.queued++
	delete(l.away, c.event.ID)
}

// tidy counts the parked events (those that wait for an older one, or for a
// receiver that has its share of the places), and drops those whose lease is
// running out.
func (s *session) tidy(now time.Time) {
	s.parked = 0
	order := s.order[:0]
	for _, key := range s.order {
		l := s.lanes[key]
		kept := l.queue[:0]
		var dropped []claimed
		for i, c := range l.queue {
			held := l.busy || i > 0 || l.waits(c, now) || s.full(c)
			if now.Sub(c.at) > s.d.o.Lease/2 || (held && s.parked >= maxParked) {
				dropped = append(dropped, c)
				continue
			}
			if held {
				s.parked++
			}
			kept = append(kept, c)
		}
		for _, c := range dropped {
			delete(s.known, c.event.ID)
			s.queued--
			l.away[c.event.ID] = c.at.Add(2 * s.d.o.Lease)
		}
		l.queue = kept
		if l.listed = len(kept) > 0; l.listed {
			order = append(order, key)
		}
	}
	s.order = order
	if since := now.Sub(s.swept); since < 0 || since >= sweepEvery {
		s.sweep(now)
	}
}

// sweep forgets lanes and receivers that say nothing any more. While a receiver
// is away there may be very many lanes: they are not gone through at each step.
func (s *session) sweep(now time.Time) {
	s.swept = now
	for key, l := range s.lanes {
		for id, until := range l.away {
			if !now.Before(until) {
				delete(l.away, id)
			}
		}
		if !l.listed && !l.busy && len(l.away) == 0 {
			delete(s.lanes, key)
		}
	}
	for id, r := range s.receivers {
		if r.running == 0 && now.After(r.downUntil.Add(backoffCap)) && (!r.good || len(s.receivers) > maxReceivers) {
			delete(s.receivers, id)
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
