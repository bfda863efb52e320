package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/airlock-dag/airlock/dag"
)

// Bounds of what Joined looks at and tells.
const (
	joinedGroups  = 20
	joinedLetters = 20_000
)

// Joined lists the groups of letters that were sealed since a drain began and
// that it would have selected: the fault goes on. With a condition it looks at
// the first twenty thousand of them.
func (c *Controller) Joined(ctx context.Context, d dag.Drain) ([]dag.LetterGroup, error) {
	if d.MaxID == 0 {
		return nil, nil
	}
	f := d.Filter
	f.After, f.Status, f.Limit = d.MaxID, dag.LetterSealed, joinedGroups
	w, err := where(d.Where)
	if err != nil {
		return nil, err
	}
	if w == nil {
		return c.o.Store.LetterStats(ctx, f)
	}
	groups := map[string]*dag.LetterGroup{}
	f.Limit = pageSize
	for looked := 0; looked < joinedLetters; {
		page, err := c.o.Store.ReplayPage(ctx, f, "")
		if err != nil {
			return nil, err
		}
		for i := range page {
			if json.Unmarshal(page[i].Letter.Payload, &page[i].Payload) != nil {
				page[i].Payload = nil
			}
			if match, err := w.Match(&page[i]); err == nil && match {
				join(groups, &page[i].Letter)
			}
		}
		if looked += len(page); len(page) < f.Limit {
			break
		}
		f.After = page[len(page)-1].Letter.ID
	}
	out := make([]dag.LetterGroup, 0, len(groups))
	for _, g := range groups {
		g.BackShare = float64(g.Back) / float64(g.Count)
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b dag.LetterGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.LastID, a.LastID))
	})
	return out[:min(len(out), joinedGroups)], nil
}

// join counts a letter in its group. Letters come in the order of their ids.
func join(groups map[string]*dag.LetterGroup, l *dag.DeadLetter) {
	g := groups[l.Fingerprint]
	if g == nil {
		g = &dag.LetterGroup{Fingerprint: l.Fingerprint, First: l.EnqueuedAt, Statuses: map[dag.LetterStatus]int{}}
		groups[l.Fingerprint] = g
	}
	g.Count++
	g.Statuses[l.Status]++
	if l.ReturnCount > 0 {
		g.Back++
	}
	if l.EnqueuedAt.Before(g.First) {
		g.First = l.EnqueuedAt
	}
	if !l.EnqueuedAt.Before(g.Last) {
		g.Last, g.LastID = l.EnqueuedAt, l.ID
		g.ErrorClass, g.ErrorCode, g.DagID, g.TaskID, g.Queue, g.Message = l.ErrorClass, l.ErrorCode, l.DagID, l.TaskID, l.Queue, l.ErrorMessage
	}
}
