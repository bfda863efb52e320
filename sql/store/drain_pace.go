package store

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// pace tells how many letters a drain may replay now. It counts what is asked
// as done.
type pace struct {
	t     *tx
	d     *dag.Drain
	wait  dag.DrainWait
	until time.Time
	// laneOnly says that only the letter's own lane has to wait.
	laneOnly bool

	counted       bool
	inFlight, gpu int
	canaryLooked  bool
	replayed      int // in this step
}

// allow asks for one replay. When it is refused, wait and until say why and for
// how long, and laneOnly that letters of the other lane may still go. others
// says that there are such letters: they are left a place.
func (p *pace) allow(ctx context.Context, queue string, others bool) (bool, error) {
	refuse := func(w dag.DrainWait, until time.Time) (bool, error) {
		p.wait, p.until, p.laneOnly = w, until, false
		return false, nil
	}
	if p.d.SlowUntil != nil && p.d.SlowUntil.After(p.t.now) {
		return refuse(dag.WaitSlow, *p.d.SlowUntil)
	}
	if p.d.Canary > 0 && !p.d.CanaryPassed && p.d.Replayed+p.replayed >= p.d.Canary {
		passed, err := p.canary(ctx)
		if err != nil || !passed {
			p.wait, p.until = dag.WaitCanary, p.t.now
			return false, err
		}
	}
	gpu, most := dag.LaneOf(queue) == dag.LaneGPU, p.d.MaxInFlight
	if gpu && most == 0 || most > 0 {
		if err := p.count(ctx); err != nil {
			return false, err
		}
		mine := p.inFlight - p.gpu
		if gpu {
			mine = p.gpu
		}
		switch {
		case most > 0 && p.inFlight >= most:
			return refuse(dag.WaitInFlight, p.t.now)
		case most == 0 && mine >= 1, most > 1 && others && mine >= most-1:
			p.wait, p.until, p.laneOnly = dag.WaitInFlight, p.t.now, true
			return false, nil
		}
	}
	if p.d.Rate > 0 {
		every := time.Duration(math.Ceil(1e6/p.d.Rate)) * time.Microsecond // rounded so that the rate is never higher
		at := p.t.now
		if p.d.NextAt != nil {
			if first := p.d.NextAt.Add(-time.Duration(max(0, p.d.Burst-1)) * every); first.After(p.t.now) {
				return refuse(dag.WaitRate, first)
			}
			if p.d.NextAt.After(at) {
				at = *p.d.NextAt
			}
		}
		next := at.Add(every)
		p.d.NextAt = &next
	}
	p.replayed++
	p.inFlight++
	if gpu {
		p.gpu++
	}
	return true, nil
}

// count looks how many of the drain's letters are on their way.
func (p *pace) count(ctx context.Context) error {
	if p.counted {
		return nil
	}
	p.counted = true
	var rows []struct {
		Queue string `db:"queue"`
		N     int    `db:"n"`
	}
	if err := p.t.SelectContext(ctx, &rows, `SELECT l.queue, COUNT(*) AS n FROM dead_letter_audit a JOIN dead_letter l ON l.id = a.dead_letter_id
 WHERE a.drain_id = ? AND a.outcome = 'in_flight' GROUP BY l.queue`, p.d.ID); err != nil {
		return err
	}
	for _, r := range rows {
		p.inFlight += r.N
		if dag.LaneOf(r.Queue) == dag.LaneGPU {
			p.gpu += r.N
		}
	}
	return nil
}

// canary looks at the ends of the first letters: when all are there and good,
// the drain goes on; when one came back it is paused.
func (p *pace) canary(ctx context.Context) (bool, error) {
	if p.replayed > 0 || p.canaryLooked { // those of this step cannot have ended
		return false, nil
	}
	p.canaryLooked = true
	ends, err := drainOutcome(ctx, p.t, p.d.ID)
	if err != nil || ends.InFlight > 0 {
		return false, err
	}
	if ends.Back > 0 {
		p.d.State = dag.DrainPaused
		p.d.Reason = fmt.Sprintf("%d of %d canary letters came back: the fault does not look fixed", ends.Back, ends.Back+ends.Resolved)
		return false, nil
	}
	p.d.CanaryPassed = true
	return true, nil
}
