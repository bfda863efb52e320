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

// run writes it and gives the number of rows. On a server that is one statement
// whatever the values; on SQLite, where a statement costs no round trip, rows
// with values of their own get one each, of a text that comes again.
func (b *bulk) run(ctx context.Context, t *tx) (int64, error) {
	if len(b.ids) == 0 || len(b.columns) == 0 {
		return 0, nil
	}
	if !t.s.db.IsSQLite() || b.plain() {
		return b.runOnce(ctx, t)
	}
	if column := b.onlyVaries(); column != "" {
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
		n, err := t.exec(ctx, "UPDATE "+b.table+" SET "+q.String()+" WHERE id = ?", append(args, id)...)
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

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
// same for any rows.
func (b *bulk) runVarying(ctx context.Context, t *tx, varying string) (int64, error) {
	var q strings.Builder
	var args []any
	q.WriteString("UPDATE " + b.table + " SET " + varying + " = j.value")
	for _, column := range b.columns {
		if column != varying {
			q.WriteString(", " + column + " = ?")
			args = append(args, b.values[column][0])
		}
	}
	values := make(map[string]string, len(b.ids))
	for i, id := range b.ids {
		values[strconv.FormatInt(id, 10)] = b.values[varying][i].(string)
	}
	object, err := json.Marshal(values)
	if err != nil {
		return 0, err
	}
	return t.exec(ctx, q.String()+" FROM json_each(?) j WHERE "+b.table+".id = CAST(j.key AS INTEGER)", append(args, string(object))...)
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

// runOnce writes all rows with one statement.
func (b *bulk) runOnce(ctx context.Context, t *tx) (int64, error) {
	var q strings.Builder
	var args []any
	q.WriteString("UPDATE " + b.table + " SET ")
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
	in, ids := t.s.among(b.ids)
	return t.exec(ctx, q.String()+" WHERE id IN "+in, append(args, ids...)...)
}
