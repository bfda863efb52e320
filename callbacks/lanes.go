package callbacks

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

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
