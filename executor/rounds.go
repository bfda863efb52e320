package executor

import (
	"context"
	"time"
)

// A scheduler goes its rounds once a minute, for the first time soon after it has
// begun: for what shows only in that nothing happens.
const (
	firstRound = 15 * time.Second
	roundEvery = time.Minute
)

// rounds are one round, if it is time for one. A test run has none.
func (s *Scheduler) rounds(ctx context.Context) {
	now := s.o.Clock.Now()
	if s.round.IsZero() {
		s.round = now.Add(firstRound)
	}
	if s.o.OnlyRun != 0 || now.Before(s.round) && s.round.Sub(now) <= roundEvery { // a clock that was set back must not stop them
		return
	}
	s.round = now.Add(roundEvery)
	s.tellUnserved(ctx)
	s.wakeAsleep(ctx)
}

// wakeAsleep has runs looked at that may go on and that nobody has woken: who should
// have may have died.
func (s *Scheduler) wakeAsleep(ctx context.Context) {
	n, err := s.o.Store.WakeAsleep(ctx, roundEvery)
	switch {
	case err != nil: // the next pass will say so, or the next round find them
		s.o.Log.Debug("no look for runs that are asleep", "error", err)
	case n > 0:
		s.o.Log.Debug("runs that nobody was to look at are looked at", "runs", n)
		s.o.Wake.Signal()
	}
}
