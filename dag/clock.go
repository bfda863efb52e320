package dag

import (
	"crypto/rand"
	"encoding/hex"
	mrand "math/rand/v2"
	"time"
)

// Clock is where time comes from. Every loop of the engine takes one, so that
// a test can move time by hand. Instants are UTC.
type Clock interface {
	// Now is the present instant, in UTC.
	Now() time.Time
	// After delivers once on the channel when d has passed.
	After(d time.Duration) <-chan time.Time
}

// SystemClock is the machine's clock.
type SystemClock struct{}

// Now implements Clock. It is cut to microseconds, the precision that the
// databases keep, so that a value read back equals the value written.
func (SystemClock) Now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// begin is where Elapsed counts from.
var begin = time.Now()

// Elapsed is how long this process has run, by a clock that nobody sets: what
// lies between two instants is known by it also when the machine's clock jumped.
func (SystemClock) Elapsed() time.Duration { return time.Since(begin) }

// After implements Clock.
func (SystemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Rand is where randomness for drawn retry delays comes from; a value in
// [0, 1). Tests give a fixed sequence.
type Rand interface {
	Float64() float64
}

// SystemRand draws from the runtime's generator and is safe for concurrent use.
type SystemRand struct{}

// Float64 implements Rand.
func (SystemRand) Float64() float64 { return mrand.Float64() }

// IDSource makes identifiers that no other process makes (worker ids, the
// random tail of a manual run id).
type IDSource interface {
	// NewID is a lower-case hexadecimal text of 32 digits.
	NewID() string
}

// SystemIDs draws ids from the operating system's random source.
type SystemIDs struct{}

// NewID implements IDSource.
func (SystemIDs) NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never fails since Go 1.24
	return hex.EncodeToString(b[:])
}
