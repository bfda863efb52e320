package callbacks

import (
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// The delays between deliveries of one event: 2 s, doubled each time, at most
// ten minutes. Twelve deliveries take about three quarters of an hour.
const (
	backoffBase = 2 * time.Second
	backoffCap  = 10 * time.Minute
	// retryAfterCap limits what a receiver may ask for.
	retryAfterCap = time.Hour
	// downCap is the longest time for which a receiver that is away is not tried
	// at all.
	downCap = 30 * time.Second
)

// backoff is the delay after the n-th failure, n from 1.
func backoff(n int) time.Duration {
	d := backoffBase
	for range n - 1 {
		if d >= backoffCap/2 {
			return backoffCap
		}
		d *= 2
	}
	return d
}

// nextDelay is the delay before an event is tried again: its backoff with a
// spread, or what the receiver asks for when that is more.
func nextDelay(attempt int, retryAfter time.Duration, r dag.Rand) time.Duration {
	d := backoff(attempt)
	if r != nil {
		d += time.Duration(float64(d) / 10 * r.Float64())
	}
	return max(d, min(retryAfter, retryAfterCap))
}
