package replay

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/airlock-dag/airlock/dag"
)

// judge decides about pages of letters. It remembers which effects it has let
// through: of two letters with one key only the first is replayed. Begun anew
// for each page of a drain (the state database knows what the pages before it
// came to), it remembers all that it sees in a dry run.
type judge struct {
	gates  []Gate
	probes Probes
	where  *Where
	sent   map[string]int64 // key -> the letter that is replayed for it
	// unsure counts letters about which Where could not be asked.
	unsure    int
	whyUnsure string
}

func newJudge(maxReturns int, where *Where, probes Probes) *judge {
	return &judge{gates: Gates(maxReturns), probes: probes, where: where, sent: map[string]int64{}}
}

// page gives the verdicts on the letters of a page that Where selects.
func (j *judge) page(ctx context.Context, page []dag.ReplayCase) ([]dag.ReplayVerdict, error) {
	selected := page[:0]
	for i := range page {
		c := &page[i]
		if j.where != nil {
			if json.Unmarshal(c.Letter.Payload, &c.Payload) != nil {
				c.Payload = nil
			}
			match, err := j.where.Match(c)
			if err != nil {
				if j.unsure++; j.whyUnsure == "" {
					j.whyUnsure = fmt.Sprintf("letter %d: %v", c.Letter.ID, err)
				}
				continue
			}
			if !match {
				continue
			}
		}
		selected = append(selected, *c)
	}
	done := map[int64]string{}
	if j.probes.Effects != nil && len(selected) > 0 {
		var err error
		if done, err = j.probes.Effects.Done(ctx, selected); err != nil {
			return nil, err
		}
	}
	out := make([]dag.ReplayVerdict, len(selected))
	for i := range selected {
		v, err := j.one(&selected[i], facts{ctx: ctx, c: &selected[i], done: done[selected[i].Letter.ID], probes: j.probes})
		if err != nil {
			return nil, fmt.Errorf("letter %d: %w", selected[i].Letter.ID, err)
		}
		out[i] = dag.ReplayVerdict{Case: selected[i], Decision: v.Decision, Reason: v.Reason}
	}
	return out, nil
}

// one takes a letter through the gates. A second letter of an effect that is on
// its way waits for another drain, whatever the gates would say of it: what they
// see may come from the first one.
func (j *judge) one(c *dag.ReplayCase, f Facts) (Verdict, error) {
	for _, g := range j.gates {
		if g.Name == "duplicate" {
			if other := j.onItsWay(c); other != 0 {
				return *verdict(dag.DecisionDeferred, "deferred: letter %d of the same effect is being replayed", other), nil
			}
		}
		v, err := g.Decide(c, f)
		if err != nil {
			return Verdict{}, fmt.Errorf("gate %s: %w", g.Name, err)
		}
		if v != nil {
			return *v, nil
		}
	}
	j.sent[c.Letter.IdempotencyKey] = c.Letter.ID
	return Verdict{Decision: dag.DecisionReplayed}, nil
}

// forget lets go of the effects of earlier pages, but of those that are still to
// be carried out.
func (j *judge) forget(pending ...[]dag.ReplayVerdict) {
	clear(j.sent)
	for _, list := range pending {
		for i := range list {
			if list[i].Decision == dag.DecisionReplayed {
				l := &list[i].Case.Letter
				j.sent[l.IdempotencyKey] = l.ID
			}
		}
	}
}

func (j *judge) onItsWay(c *dag.ReplayCase) int64 {
	if other := j.sent[c.Letter.IdempotencyKey]; other != 0 && other != c.Letter.ID {
		return other
	}
	return c.SameEffect
}
