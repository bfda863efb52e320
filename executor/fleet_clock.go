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
func (c *fleetClock) Elapsed() time.Duration {
	if steady, ok := c.Clock.(interface{ Elapsed() time.Duration }); ok {
		return steady.Elapsed()
	}
	return time.Duration(c.Clock.Now().UnixNano())
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
