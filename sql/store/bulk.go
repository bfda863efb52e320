package store

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
)

// bulk is one UPDATE of many rows by id, in which each row may get values of
// its own. Columns that are set to one value in all rows cost one parameter.
// The caller holds locks on the rows, or does not mind a repeat.
type bulk struct {
	table   string
	ids     []int64
	columns []string
	values  map[string][]any
	given   map[string][]bool
	guard   *rowGuard
}

// rowGuard is what must still be so of the rows of a bulk: only is a condition
// of all, and column has in each the value that it was seen with. Who then finds
// fewer rows written than there are takes all of it back.
type rowGuard struct {
	only   string
	column string
	seen   []any // texts or integers, one a row
}

// same tells whether all rows were seen with one value.
func (g *rowGuard) same() bool {
	for _, v := range g.seen {
		if v != g.seen[0] {
			return false
		}
	}
	return true
}

func newBulk(table string, ids []int64) *bulk {
	return &bulk{table: table, ids: ids, values: map[string][]any{}, given: map[string][]bool{}}
}

// set gives a column of the i-th row a value.
func (b *bulk) set(i int, column string, value any) {
	if b.values[column] == nil {
		b.columns = append(b.columns, column)
		b.values[column] = make([]any, len(b.ids))
		b.given[column] = make([]bool, len(b.ids))
	}
	b.values[column][i], b.given[column][i] = value, true
}

// setAll gives a column the same value in every row.
func (b *bulk) setAll(column string, value any) {
	for i := range b.ids {
		b.set(i, column, value)
	}
}

// uniform tells whether a column gets one value in every row.
func (b *bulk) uniform(column string) bool {
	for i, given := range b.given[column] {
		if !given || b.values[column][i] != b.values[column][0] {
			return false
		}
	}
	return true
}

// must writes it: all of its rows, or it fails with an error. On a server the
// statement waits for the next, see tx.later.
func (b *bulk) must(ctx context.Context, t *tx, otherwise error) error {
	if len(b.ids) == 0 || len(b.columns) == 0 {
		return nil
	}
	if !t.s.db.IsSQLite() {
		query, args := b.once(t.s)
		return t.laterMatching(ctx, len(b.ids), otherwise, query, args...)
	}
	n, err := b.run(ctx, t)
	if err == nil && n != int64(len(b.ids)) {
		err = otherwise
	}
	return err
}

// run writes it and gives the number of rows. On a server that is one statement
// whatever the values; on SQLite, where a statement costs no round trip, rows
// with values of their own get one each, of a text that comes again.
func (b *bulk) run(ctx context.Context, t *tx) (int64, error) {
	if len(b.ids) == 0 || len(b.columns) == 0 {
		return 0, nil
	}
	same := b.guard == nil || b.guard.same()
	switch column := b.onlyVaries(); {
	case !t.s.db.IsSQLite() || same && b.plain():
		query, args := b.once(t.s)
		return t.exec(ctx, query, args...)
	case b.plain():
		return b.runVarying(ctx, t, "")
	case same && column != "":
		return b.runVarying(ctx, t, column)
	}
	var total int64
	for i, id := range b.ids {
		var q strings.Builder
		var args []any
		for _, column := range b.columns {
			if !b.given[column][i] {
				continue
			}
			if len(args) > 0 {
				q.WriteString(", ")
			}
			q.WriteString(column + " = ?")
			args = append(args, b.values[column][i])
		}
		if len(args) == 0 { // nothing is asked of this row
			total++
			continue
		}
		q.WriteString(" WHERE id = ?")
		args = append(args, id)
		if b.guard != nil {
			q.WriteString(" AND " + b.guard.column + " = ? AND " + b.guard.only)
			args = append(args, b.guard.seen[i])
		}
		n, err := t.exec(ctx, b.update(t.s)+q.String(), args...)
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

// update begins the statement. It must find its rows by their ids, whatever else
// the guard says of them.
func (b *bulk) update(s *Store) string { return "UPDATE " + b.table + s.force("PRIMARY") + " SET " }

// onlyVaries is the one column that gets a text of its own in every row, where
// all others get one value; empty when it is not so.
func (b *bulk) onlyVaries() string {
	column := ""
	for _, c := range b.columns {
		if b.uniform(c) {
			continue
		}
		if column != "" {
			return ""
		}
		column = c
	}
	for i, given := range b.given[column] {
		if _, text := b.values[column][i].(string); !given || !text {
			return ""
		}
	}
	return column
}

// runVarying writes all rows with one statement on SQLite, whose text is the
// same for any rows. One thing differs between them: the column varying, or for
// "" what the guard's column was seen with.
func (b *bulk) runVarying(ctx context.Context, t *tx, varying string) (int64, error) {
	query, args, err := b.varying(t.s, varying)
	if err != nil {
		return 0, err
	}
	return t.exec(ctx, query, args...)
}

func (b *bulk) varying(s *Store, varying string) (string, []any, error) {
	var set []string
	var args []any
	for _, column := range b.columns {
		if column == varying {
			set = append(set, column+" = j.value")
			continue
		}
		set = append(set, column+" = ?")
		args = append(args, b.values[column][0])
	}
	which, each := " FROM json_each(?) j WHERE "+b.table+".id = CAST(j.key AS INTEGER)", b.values[varying]
	if varying == "" {
		which += " AND " + b.table + "." + b.guard.column + " = j.value"
		each = b.guard.seen
	}
	values := make(map[string]any, len(b.ids))
	for i, id := range b.ids {
		values[strconv.FormatInt(id, 10)] = each[i]
	}
	object, err := json.Marshal(values)
	if err != nil {
		return "", nil, err
	}
	args = append(args, string(object))
	if b.guard != nil {
		if varying != "" {
			which += " AND " + b.table + "." + b.guard.column + " = ?"
			args = append(args, b.guard.seen[0])
		}
		which += " AND " + b.guard.only
	}
	return b.update(s) + strings.Join(set, ", ") + which, args, nil
}

// plain tells whether every row gets the same values.
func (b *bulk) plain() bool {
	for _, column := range b.columns {
		if !b.uniform(column) {
			return false
		}
	}
	return true
}

// once is one statement that writes all rows.
func (b *bulk) once(s *Store) (string, []any) {
	var q strings.Builder
	var args []any
	q.WriteString(b.update(s))
	for n, column := range b.columns {
		if n > 0 {
			q.WriteString(", ")
		}
		q.WriteString(column + " = ")
		if b.uniform(column) {
			q.WriteString("?")
			args = append(args, b.values[column][0])
			continue
		}
		q.WriteString("CASE id")
		for i, id := range b.ids {
			if b.given[column][i] {
				q.WriteString(" WHEN " + strconv.FormatInt(id, 10) + " THEN ?")
				args = append(args, b.values[column][i])
			}
		}
		q.WriteString(" ELSE " + column + " END")
	}
	in, ids := s.among(b.ids)
	q.WriteString(" WHERE id IN " + in)
	args = append(args, ids...)
	switch {
	case b.guard == nil:
	case b.guard.same():
		q.WriteString(" AND " + b.guard.column + " = ? AND " + b.guard.only)
		args = append(args, b.guard.seen[0])
	default:
		q.WriteString(" AND " + b.guard.only + " AND (")
		for i, id := range b.ids {
			if i > 0 {
				q.WriteString(" OR ")
			}
			q.WriteString("id = " + strconv.FormatInt(id, 10) + " AND " + b.guard.column + " = ?")
			args = append(args, b.guard.seen[i])
		}
		q.WriteString(")")
	}
	return q.String(), args
}
