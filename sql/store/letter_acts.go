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

// maxNamed is the greatest number of letters that one act may name by their ids:
// all of them are changed in one transaction.
const maxNamed = 10_000

// ActOnLetters does one act to the letters that a filter finds, each with an
// audit row, and tells how many. each, when not nil, is given the letters as they
// are then, some hundred at a time, after they were committed.
//
// Letters that are named by their ids are changed in one transaction: one that
// does not fit is an ErrConflict, and nothing is done. Those that another filter
// finds are changed in transactions of some hundred, and what the act does not
// fit is passed over. Expiry takes only letters whose time has come.
func (s *Store) ActOnLetters(
	ctx context.Context, f dag.LetterFilter, act dag.LetterAct, reason, actor string, each func([]dag.DeadLetter),
) (int, error) {
	rule, err := ruleOf(act)
	if err != nil {
		return 0, err
	}
	if each == nil {
		each = func([]dag.DeadLetter) {}
	}
	if len(f.IDs) > 0 {
		return s.actOnNamed(ctx, f, act, rule, reason, actor, each)
	}
	total, wanted := 0, f.Status
	for _, status := range rule.from {
		if wanted != "" && wanted != status {
			continue
		}
		f.Status, f.After = status, 0
		for {
			var done []dag.DeadLetter
			err := s.write(ctx, string(act)+" dead letters", func(ctx context.Context, t *tx) (err error) {
				if done, err = t.lettersFor(ctx, f, act, rule); err != nil || len(done) == 0 {
					return err
				}
				return t.act(ctx, done, act, rule, reason, actor)
			})
			if err != nil {
				return total, err
			}
			if total += len(done); len(done) > 0 {
				each(done)
			}
			if len(done) < chunk {
				break
			}
			if act != dag.ActExpire { // those that expired are found no more
				f.After = done[len(done)-1].ID
			}
		}
	}
	return total, nil
}

// actOnNamed does an act to letters by their ids, to all of them or to none.
func (s *Store) actOnNamed(
	ctx context.Context, f dag.LetterFilter, act dag.LetterAct, rule actRule, reason, actor string, each func([]dag.DeadLetter),
) (int, error) {
	ids := slices.Compact(slices.Sorted(slices.Values(f.IDs)))
	if len(ids) > maxNamed {
		return 0, &dag.Error{
			Code: dag.ErrInvalid, Op: string(act) + " letters", Err: fmt.Errorf("%d ids are given, %d are the most", len(ids), maxNamed),
			Hint: "say which letters by a filter, or in several commands",
		}
	}
	var done []dag.DeadLetter
	err := s.write(ctx, string(act)+" dead letters", func(ctx context.Context, t *tx) error {
		done = nil
		for part := range slices.Chunk(ids, chunk) {
			f.IDs = part
			found, err := t.lettersFor(ctx, f, act, rule)
			if err != nil {
				return err
			}
			if err := t.act(ctx, found, act, rule, reason, actor); err != nil {
				return err
			}
			done = append(done, found...)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for part := range slices.Chunk(done, chunk) {
		each(part)
	}
	return len(done), nil
}

// act changes letters that fit, and sets in them what changed.
func (t *tx) act(ctx context.Context, found []dag.DeadLetter, act dag.LetterAct, rule actRule, reason, actor string) error {
	if len(found) == 0 {
		return nil
	}
	if err := t.setLetterStatus(ctx, found, rule.to, string(rule.decision), reason, actor); err != nil {
		return err
	}
	ids := make([]int64, len(found))
	for i := range found {
		ids[i] = found[i].ID
		found[i].Status, found[i].UpdatedAt = rule.to, t.now
	}
	if act != dag.ActRelease {
		return nil
	}
	for i := range found {
		t.tally.change(found[i], rule.to, 0)
		found[i].ReturnCount = 0
	}
	_, err := t.exec(ctx, "UPDATE dead_letter SET return_count = 0 WHERE id IN ("+idList(ids)+")")
	return err
}

// lettersFor locks the next letters of a filter that an act fits, in the order of
// their ids, or of their expiry when that is the act.
func (t *tx) lettersFor(ctx context.Context, f dag.LetterFilter, act dag.LetterAct, rule actRule) ([]dag.DeadLetter, error) {
	c := letterCondition(f)
	index, order := t.s.inOrder(f), " ORDER BY id"
	if act == dag.ActExpire {
		c.add("expires_at <= ?", t.at)
		if len(f.IDs) == 0 {
			index, order = t.s.byExpiry(), " ORDER BY expires_at"
		}
	}
	var rows []letterRow
	if err := t.SelectContext(ctx, &rows, "SELECT "+letterColumns+" FROM dead_letter"+index+c.where()+order+limit(chunk, chunk)+
		t.s.db.ForUpdate(), c.args...); err != nil {
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
	if act == dag.ActExpire {
		return out, nil
	}
	for _, id := range f.IDs {
		if !seen[id] {
			return nil, &dag.Error{
				Code: dag.ErrNotFound, Op: fmt.Sprintf("%s letter %d", act, id), Err: errors.New("there is none"), Hint: "airlock dlq list shows those that there are",
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
