package store

import (
	"context"
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

// run writes it and gives the number of rows.
func (b *bulk) run(ctx context.Context, t *tx) (int64, error) {
	if len(b.ids) == 0 || len(b.columns) == 0 {
		return 0, nil
	}
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
	q.WriteString(" WHERE id IN (" + idList(b.ids) + ")")
	return t.exec(ctx, q.String(), args...)
}
