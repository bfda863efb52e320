package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// actRule says from where to where an act moves a letter.
type actRule struct {
	from     []dag.LetterStatus
	to       dag.LetterStatus
	decision dag.ReplayDecision
}

func ruleOf(act dag.LetterAct) (actRule, error) {
	open := []dag.LetterStatus{dag.LetterSealed, dag.LetterQuarantined}
	switch act {
	case dag.ActQuarantine:
		return actRule{[]dag.LetterStatus{dag.LetterSealed}, dag.LetterQuarantined, dag.DecisionQuarantine}, nil
	case dag.ActRelease:
		return actRule{[]dag.LetterStatus{dag.LetterQuarantined}, dag.LetterSealed, dag.DecisionReleased}, nil
	case dag.ActResolve:
		return actRule{open, dag.LetterResolved, dag.DecisionResolved}, nil
	case dag.ActExpire:
		return actRule{open, dag.LetterExpired, dag.DecisionExpired}, nil
	default:
		return actRule{}, fmt.Errorf("act %q is not known", act)
	}
}

// ActOnLetters does one act to the letters that a filter finds, each with an
// audit row, and lists them as they are then. Letters that the act does not fit
// are passed over, but one that is named by its id and does not fit is an
// ErrConflict, and nothing is done. Expiry takes only letters whose time has
// come.
func (s *Store) ActOnLetters(ctx context.Context, f dag.LetterFilter, act dag.LetterAct, reason, actor string) ([]dag.DeadLetter, error) {
	rule, err := ruleOf(act)
	if err != nil {
		return nil, err
	}
	var out []dag.DeadLetter
	f.Limit = chunk
	for {
		var done []dag.DeadLetter
		full := false
		err := s.write(ctx, string(act)+" dead letters", func(ctx context.Context, t *tx) error {
			done, full = nil, false
			found, err := t.lettersFor(ctx, f, act, rule)
			if err != nil || len(found) == 0 {
				return err
			}
			full = len(found) == chunk
			if err := t.setLetterStatus(ctx, found, rule.to, string(rule.decision), reason, actor); err != nil {
				return err
			}
			if act == dag.ActRelease {
				ids := make([]int64, len(found))
				for i := range found {
					ids[i] = found[i].ID
					after := found[i]
					after.Status = rule.to
					t.tally.change(after, rule.to, 0)
					found[i].ReturnCount = 0
				}
				if _, err := t.exec(ctx, "UPDATE dead_letter SET return_count = 0 WHERE id IN ("+idList(ids)+")"); err != nil {
					return err
				}
			}
			for i := range found {
				found[i].Status, found[i].UpdatedAt = rule.to, t.now
			}
			done = found
			return nil
		})
		if err != nil {
			return out, err
		}
		out = append(out, done...)
		if !full {
			return out, nil
		}
		f.After = done[len(done)-1].ID
	}
}

// lettersFor locks the letters of a filter that an act fits.
func (t *tx) lettersFor(ctx context.Context, f dag.LetterFilter, act dag.LetterAct, rule actRule) ([]dag.DeadLetter, error) {
	c := letterCondition(f)
	if act == dag.ActExpire {
		c.add("expires_at <= ?", t.at)
	}
	byID := len(f.IDs) > 0
	if !byID {
		c.in("status", anys(rule.from))
	}
	var rows []letterRow
	if err := t.SelectContext(ctx, &rows, "SELECT "+letterColumns+" FROM dead_letter"+c.where()+" ORDER BY id"+limit(f.Limit, chunk)+t.s.db.ForUpdate(),
		c.args...); err != nil {
		return nil, err
	}
	out := make([]dag.DeadLetter, 0, len(rows))
	seen := map[int64]bool{}
	for i := range rows {
		l := rows[i].model()
		seen[l.ID] = true
		if !slices.Contains(rule.from, l.Status) {
			return nil, &dag.Error{
				Code: dag.ErrConflict, Op: fmt.Sprintf("%s letter %d", act, l.ID), Err: fmt.Errorf("it is %s, not %s", l.Status, statuses(rule.from)),
			}
		}
		out = append(out, l)
	}
	if byID && f.After == 0 && act != dag.ActExpire {
		for _, id := range f.IDs {
			if !seen[id] && len(rows) < chunk {
				return nil, &dag.Error{
					Code: dag.ErrNotFound, Op: fmt.Sprintf("%s letter %d", act, id), Err: errors.New("there is none"), Hint: "airlock dlq list shows those that there are",
				}
			}
		}
	}
	return out, nil
}

func statuses(list []dag.LetterStatus) string {
	words := make([]string, len(list))
	for i, s := range list {
		words[i] = string(s)
	}
	return strings.Join(words, " or ")
}

// LetterDecisions lists what was decided about a letter, oldest first.
func (s *Store) LetterDecisions(ctx context.Context, id int64) ([]dag.LetterDecision, error) {
	var rows []struct {
		Drain     *string      `db:"drain_id"`
		Decision  string       `db:"decision"`
		Reason    string       `db:"reason"`
		Actor     string       `db:"actor"`
		DecidedAt dialect.Time `db:"decided_at"`
	}
	if err := s.db.Reader().SelectContext(ctx, &rows, `SELECT drain_id, decision, reason, actor, decided_at FROM dead_letter_audit
 WHERE dead_letter_id = ? ORDER BY id`, id); err != nil {
		return nil, fmt.Errorf("decisions about letter %d: %w", id, err)
	}
	out := make([]dag.LetterDecision, len(rows))
	for i, r := range rows {
		out[i] = dag.LetterDecision{Decision: dag.ReplayDecision(r.Decision), Reason: r.Reason, Actor: r.Actor, DecidedAt: r.DecidedAt.Time}
		if r.Drain != nil {
			out[i].DrainID = *r.Drain
		}
	}
	return out, nil
}
