package sensor

import (
	"math"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/retry"
)

// longestBackoff is as far as a computed wait goes, in seconds: what Python's
// timedelta can hold, less one.
const longestBackoff = 86_399_999_999_999 - 1

// Look says where a sensor stands when it asks how long to wait.
type Look struct {
	DagID, TaskID string
	// Start is that of the attempt, Elapsed the time since.
	Start   time.Time
	Elapsed time.Duration
	// Count of looks so far, this one included. In reschedule mode it is
	// computed from Elapsed instead.
	Count int
}

// Wait is the time until the next look. Without exponential_backoff it is
// poke_interval. With it, look n waits
//
//	m = max(int(poke_interval * 2^(n-2)), 1) seconds, and
//	m + SHA1("dag#task#start#n") mod m
//
// of it, but not past the timeout and not longer than max_wait.
func (s Settings) Wait(l Look) time.Duration {
	if !s.Exponential {
		return max(s.PokeInterval, shortestWait)
	}
	count := max(l.Count, 1)
	if s.Reschedule {
		count = s.countAt(l)
	}
	left := s.Timeout.Seconds() - math.Trunc(l.Elapsed.Seconds())
	wait := min(left, s.backoff(l, count))
	if s.MaxWait > 0 {
		wait = min(wait, s.MaxWait.Seconds())
	}
	return max(time.Duration(min(wait, longest)*float64(time.Second)), shortestWait)
}

// countAt is the number of the look after Elapsed, when each wait had its full
// length.
func (s Settings) countAt(l Look) int {
	elapsed := l.Elapsed.Seconds()
	if s.PokeInterval <= 0 { // every wait is one second
		return int(max(elapsed, 0)) + 1
	}
	total, count := 0.0, 0
	for total <= elapsed {
		count++
		total += s.backoff(l, count)
	}
	return max(count, 1)
}

// backoff is the wait after a look, in seconds.
func (s Settings) backoff(l Look, count int) float64 {
	least := math.Trunc(math.Ldexp(s.PokeInterval.Seconds(), count-2))
	if least >= longestBackoff {
		return longestBackoff
	}
	base := max(int64(least), 1)
	if base == 1 {
		return 1
	}
	extra := retry.HashSeconds(l.DagID, l.TaskID, dag.PythonTime(l.Start, " "), count, base)
	return min(float64(base+extra), longestBackoff)
}
