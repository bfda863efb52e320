package executor

import (
	"log/slog"
	"sync"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// toldSkew is how far a machine's clock may be off before the log says so.
const toldSkew = time.Second

// fleetClock is a machine's clock corrected by the state database's, which is
// the one that all machines of a fleet share: when an attempt ended and when its
// retry is due must not depend on who ran it.
type fleetClock struct {
	dag.Clock
	log *slog.Logger

	mu   sync.Mutex
	skew time.Duration // what the database's clock is ahead
	told time.Duration
}

// Now implements dag.Clock.
func (c *fleetClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Clock.Now().Add(c.skew)
}

// Elapsed is the time that has passed since some moment. Unlike Now it cannot be
// set, where the clock below tells.
func (c *fleetClock) Elapsed() time.Duration { return elapsed(c.Clock) }

func elapsed(c dag.Clock) time.Duration {
	if steady, ok := c.(interface{ Elapsed() time.Duration }); ok {
		return steady.Elapsed()
	}
	return time.Duration(c.Now().UnixNano())
}

// toldJump is how far a machine's clock may jump before the log says so.
const toldJump = 5 * time.Second

// jumps notices that a machine's clock was set.
type jumps struct {
	clock   dag.Clock
	now     time.Time
	elapsed time.Duration
}

// look tells how far the clock was set since the last look; 0 for what is no
// more than keeping time.
func (j *jumps) look() time.Duration {
	now, passed := j.clock.Now(), elapsed(j.clock)
	by := now.Sub(j.now) - (passed - j.elapsed)
	first := j.now.IsZero()
	j.now, j.elapsed = now, passed
	if first || by < toldJump && by > -toldJump {
		return 0
	}
	return by
}

// learn takes an instant of the database that lay between two of this clock:
// the correction is changed no more than they ask for.
func (c *fleetClock) learn(database, asked, answered time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	least, most := database.Sub(answered), database.Sub(asked) // beyond the present correction
	switch {
	case answered.Before(asked): // the clock was set meanwhile
		return
	case least > 0:
		c.skew += least
	case most < 0:
		c.skew += most
	}
	if d := c.skew - c.told; d > toldSkew || d < -toldSkew {
		c.told = c.skew
		c.log.Warn("this machine's clock differs from the state database's, which is the one that counts",
			"database_ahead_by", c.skew.Round(time.Millisecond).String())
	}
}
