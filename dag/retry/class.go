package retry

import (
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// draw is the range that a class policy draws a delay from.
type draw struct{ lo, hi time.Duration }

// ceilingOf is min(BackoffMax, BackoffBase * 2^(k-1)), for any k.
func ceilingOf(c dag.ClassPolicy, k int) time.Duration {
	limit := limitOf(c)
	base := max(c.BackoffBase, 0)
	shift := max(k, 1) - 1
	if base == 0 {
		return 0
	}
	if shift >= 63 || base > limit>>shift {
		return limit
	}
	return base << shift
}

// limitOf is the policy's cap, Limit when it sets none.
func limitOf(c dag.ClassPolicy) time.Duration {
	if c.BackoffMax <= 0 {
		return Limit
	}
	return c.BackoffMax
}

// triple is min(limit, 3 * d) without overflow.
func triple(d, limit time.Duration) time.Duration {
	if d > limit/3 {
		return limit
	}
	return min(3*d, limit)
}

// rangeOf is what retry k draws from; its upper end is the ceiling. The cap
// comes before the draw, so that delays at the cap stay spread. A min_delay
// above the ceiling lifts it.
func rangeOf(c dag.ClassPolicy, k int, previous time.Duration) draw {
	r := draw{hi: ceilingOf(c, k)}
	switch c.Jitter {
	case dag.JitterNone:
		r.lo = r.hi
	case dag.JitterEqual:
		r.lo = r.hi / 2
	case dag.JitterDecorrelated:
		limit := limitOf(c)
		r.lo = min(max(c.BackoffBase, 0), limit)
		r.hi = max(r.lo, triple(max(previous, r.lo), limit))
	default: // full
	}
	r.lo = max(r.lo, c.MinDelay)
	r.hi = max(r.hi, r.lo)
	return r
}

func classDelay(c dag.ClassPolicy, a Attempt, rnd dag.Rand) Delay {
	if c.Jitter == "" {
		c.Jitter = dag.JitterFull
	}
	r := rangeOf(c, a.Failures, a.PreviousDelay)
	return Delay{
		Base: r.hi, Ceiling: r.hi, Delay: r.pick(rnd), Source: SourceClass + string(c.Jitter),
	}
}

// pick draws from the range, in whole microseconds as databases keep them.
func (r draw) pick(rnd dag.Rand) time.Duration {
	if r.lo >= r.hi || rnd == nil {
		return r.hi
	}
	f := rnd.Float64()
	if !(f >= 0) {
		f = 0
	}
	d := r.lo + time.Duration(f*float64(r.hi-r.lo))
	return min(max(d.Truncate(time.Microsecond), r.lo), r.hi)
}
