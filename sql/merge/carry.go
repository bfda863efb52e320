package merge

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge/mergesql"
	"github.com/airlock-dag/airlock/sql/merge/row"
)

// statementRows bounds the rows that one statement changes: when the database
// refuses one of them, that much is undone.
const statementRows = 10000

// errContended: another writer changed rows between sorting and writing. The
// transaction is undone and begun anew.
var errContended = errors.New("another writer changed rows of the target meanwhile")

// carryOut carries one rule out, which was found to take the expected number of
// rows, and gives the number of rows that it changed in the target.
func (b *batch) carryOut(ctx context.Context, q runner, r rule, expected, lo, hi int64) (int64, error) {
	if expected == 0 {
		return 0, nil
	}
	before := b.bad.n
	n, err := b.inRanges(ctx, q, b.p.applySQL(r), lo, hi, &r)
	if err != nil {
		return 0, err
	}
	if rejected := b.bad.n - before; n != expected-rejected {
		if r.action == mergesql.Insert || b.contended || b.e.DB.IsSQLite() {
			return 0, problem(codeRowsIgnored, "the table %s took %d of %d rows without an error; does a trigger ignore rows?", b.p.spec.Target, n, expected-rejected)
		}
		return 0, errContended
	}
	return n, nil
}

// inRanges runs a statement over ranges of the stage. Where the database
// refuses a row, the range is halved until the row stands alone; it goes to the
// bad rows and the others are done.
func (b *batch) inRanges(ctx context.Context, q runner, statement string, lo, hi int64, of *rule) (int64, error) {
	var total int64
	for from := lo; from < hi; from += statementRows {
		n, err := b.inRange(ctx, q, statement, from, min(from+statementRows, hi), of)
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

func (b *batch) inRange(ctx context.Context, q runner, statement string, lo, hi int64, of *rule) (int64, error) {
	r, err := q.ExecContext(ctx, statement, lo, hi)
	if err == nil {
		return r.RowsAffected()
	}
	if !isRowFault(err) {
		return 0, fmt.Errorf("merge into %s: %w", b.p.spec.Target, err)
	}
	if hi-lo > 1 {
		mid := lo + (hi-lo)/2
		left, err := b.inRange(ctx, q, statement, lo, mid, of)
		if err != nil {
			return 0, err
		}
		right, err := b.inRange(ctx, q, statement, mid, hi, of)
		return left + right, err
	}
	return 0, b.reject(ctx, q, lo, of, err)
}

// reject sends one staged row, which the target refuses, to the bad rows. of is
// the rule that was carried out, nil when a value was computed.
func (b *batch) reject(ctx context.Context, q runner, seq int64, of *rule, cause error) error {
	r := badRow{seq: seq, late: true, offset: -1, fault: row.Fault{Code: lateCode(cause), Message: cause.Error()}}
	if dialect.ClassOf(cause) == dialect.ClassDuplicate {
		clash, err := b.clash(ctx, q, seq)
		if err != nil {
			return err
		}
		r.fault.Column, r.fault.Message = clash.column, clash.message
		if clash.message == "" {
			r.fault.Message = cause.Error()
		}
	}
	var src int64
	var offset *int64
	cells := []any{&src, &r.line, &offset}
	var raw []byte
	cells = append(cells, &raw)
	keys := make([]any, len(b.p.keys))
	for i := range keys {
		cells = append(cells, &keys[i])
	}
	err := q.QueryRowxContext(ctx, "SELECT airlock_src, airlock_line, airlock_off, airlock_raw, "+b.p.stageKeys("")+" FROM "+b.p.stage()+" WHERE airlock_seq = ?", seq).Scan(cells...)
	if err != nil {
		return fmt.Errorf("look at a refused row: %w", err)
	}
	if offset != nil {
		r.offset = *offset
	}
	r.source, r.raw = b.load.sources[src], string(raw)
	r.layout = b.load.layouts[r.source]
	parts := make([]string, len(keys))
	for i, v := range keys {
		parts[i] = storedText(v)
		if len(keys) > 1 {
			parts[i] = b.p.keys[i].target + "=" + parts[i]
		}
	}
	r.key = keyText(strings.Join(parts, ", "))
	if err := b.setAct(ctx, q, seq, actRejected); err != nil {
		return err
	}
	if class := dialect.ClassOf(cause); of != nil && len(b.again) < maxAgain && (class == dialect.ClassDuplicate || class == dialect.ClassForeignKey) {
		b.again = append(b.again, lateRow{seq: seq, rule: *of})
		b.bad.spared++
	}
	return b.bad.add(ctx, r)
}

// lateRow is a row that was refused for what another row holds.
type lateRow struct {
	seq  int64
	rule rule
}

// maxAgain bounds the rows that are tried again.
const maxAgain = 10000

// tryAgain tries the rows again that ran into another row's unique key or
// lacked a parent: a later row of the batch may have freed the key or brought
// the parent. It goes on as long as that helps, so that the outcome does not
// hang on the order of the rows.
func (b *batch) tryAgain(ctx context.Context, q runner, c *counts) error {
	for progress := true; progress && len(b.again) > 0; {
		progress = false
		rest := b.again[:0]
		for _, l := range b.again {
			if err := b.setAct(ctx, q, l.seq, l.rule.act); err != nil {
				return err
			}
			r, err := q.ExecContext(ctx, b.p.applySQL(l.rule), l.seq, l.seq+1)
			if isRowFault(err) {
				rest = append(rest, l)
				if err := b.setAct(ctx, q, l.seq, actRejected); err != nil {
					return err
				}
				continue
			}
			if err != nil {
				return fmt.Errorf("merge into %s: %w", b.p.spec.Target, err)
			}
			n, err := r.RowsAffected()
			if err != nil {
				return err
			}
			if n != 1 {
				return errContended
			}
			progress = true
			if err := b.bad.remove(ctx, l.seq); err != nil {
				return err
			}
			switch l.rule.action {
			case mergesql.Delete:
				c.deleted++
			case mergesql.Update:
				c.updated++
			default:
				c.inserted++
			}
		}
		b.again = rest
	}
	b.again, b.bad.spared = nil, 0
	return nil
}

func (b *batch) setAct(ctx context.Context, q runner, seq int64, act int) error {
	_, err := q.ExecContext(ctx, "UPDATE "+b.p.stage()+" SET airlock_act = ? WHERE airlock_seq = ?", act, seq)
	return err
}

// conflict is a unique key of the target that a row runs into.
type conflict struct{ column, message string }

// clash finds the unique key that refuses a row: the declared one means that
// another writer inserted the row meanwhile; any other belongs to a stranger,
// who is left alone.
func (b *batch) clash(ctx context.Context, q runner, seq int64) (conflict, error) {
	for i := range b.p.target.unique {
		u := &b.p.target.unique[i]
		on := make([]string, 0, len(u.columns))
		for j, c := range u.columns {
			at := b.p.find(c)
			if !u.usable || at < 0 || b.p.cols[at].target == nil || !strings.EqualFold(b.p.cols[at].target.name, c) {
				on = nil
				break
			}
			cond := targetCol(c) + " = " + stageCol(b.p.cols[at].Name)
			if u.collations[j] != "" {
				cond += " COLLATE " + u.collations[j]
			}
			on = append(on, cond)
		}
		if len(on) == 0 {
			continue
		}
		var n int
		err := q.QueryRowxContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM %s AS %s JOIN %s AS %s ON %s WHERE %s.airlock_seq = ? AND NOT (%s)",
			b.p.stage(), stageAlias, b.p.table(), targetAlias, strings.Join(on, " AND "), stageAlias, b.p.join()), seq).Scan(&n)
		if err != nil {
			return conflict{}, fmt.Errorf("look for the clashing key: %w", err)
		}
		if n > 0 {
			names := strings.Join(u.columns, ", ")
			return conflict{column: u.columns[0], message: fmt.Sprintf("another row of %s has the same %s (unique key %s); it is left alone", b.p.spec.Target, names, u.name)}, nil
		}
	}
	// No stranger: is the declared key there now?
	var n int
	err := q.QueryRowxContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM %s AS %s JOIN %s AS %s ON %s WHERE %s.airlock_seq = ? AND %s.airlock_act > 0",
		b.p.stage(), stageAlias, b.p.table(), targetAlias, b.p.join(), stageAlias, stageAlias), seq).Scan(&n)
	if err != nil {
		return conflict{}, fmt.Errorf("look for the clashing key: %w", err)
	}
	if n > 0 && b.actOf(ctx, q, seq) == mergesql.Insert {
		return conflict{}, errContended
	}
	return conflict{}, nil
}

func (b *batch) actOf(ctx context.Context, q runner, seq int64) mergesql.Action {
	var act int
	if err := q.QueryRowxContext(ctx, "SELECT airlock_act FROM "+b.p.stage()+" WHERE airlock_seq = ?", seq).Scan(&act); err != nil {
		return 0
	}
	for _, r := range b.p.unmatched {
		if r.act == act {
			return r.action
		}
	}
	return 0
}
