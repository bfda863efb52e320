package store

import (
	"context"

	"github.com/airlock-dag/airlock/dag"
)

// lane is one lane of a step: what is left of its verdicts, and how far it got.
type lane struct {
	stretch dag.DrainStretch
	cursor  *int64
	full    bool // no more of it may be replayed now
}

// head is the next verdict of a lane, nil when there is none to be had now.
func (l *lane) head() *dag.ReplayVerdict {
	for len(l.stretch.Verdicts) > 0 && l.stretch.Verdicts[0].Case.Letter.ID <= *l.cursor {
		l.stretch.Verdicts = l.stretch.Verdicts[1:]
	}
	if l.full || len(l.stretch.Verdicts) == 0 {
		return nil
	}
	return &l.stretch.Verdicts[0]
}

// waits tells whether a lane has letters left, here or further on.
func (l *lane) waits() bool { return len(l.stretch.Verdicts) > 0 || !l.stretch.Last }

func (l *lane) over() bool { return !l.waits() }

// moveCursor goes to what was looked at last when all of it is decided.
func (l *lane) moveCursor() {
	if len(l.stretch.Verdicts) == 0 {
		*l.cursor = max(*l.cursor, l.stretch.UpTo)
	}
}

// choose takes from both lanes, in the order of the letters' ids, what the pace
// allows. A lane that is full does not hold the other one up.
func (t *tx) choose(ctx context.Context, d *dag.Drain, lanes []*lane) ([]dag.ReplayVerdict, *pace, error) {
	p := &pace{t: t, d: d}
	var chosen []dag.ReplayVerdict
	for {
		var next, other *lane
		for i, l := range lanes {
			if h := l.head(); h != nil && (next == nil || h.Case.Letter.ID < next.head().Case.Letter.ID) {
				next, other = l, lanes[1-i]
			}
		}
		if next == nil || d.Limit > 0 && d.Sum()+len(chosen) >= d.Limit {
			break
		}
		v := next.head()
		if v.Decision == dag.DecisionReplayed {
			allowed, err := p.allow(ctx, v.Case.Letter.Queue, other.waits())
			if err != nil {
				return nil, p, err
			}
			if !allowed && p.laneOnly {
				next.full = true
				continue
			}
			if !allowed {
				return chosen, p, nil
			}
		}
		chosen = append(chosen, *v)
		*next.cursor = v.Case.Letter.ID
	}
	// One lane is full: the wait is over as soon as the other one has been read on.
	for _, l := range lanes {
		if l.head() == nil && !l.full && !l.stretch.Last {
			p.wait, p.until = dag.WaitNone, t.now
		}
	}
	return chosen, p, nil
}
