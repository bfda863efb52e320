package store

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// chunk is how many rows go into one INSERT, or ids into one IN list.
const chunk = 500

// idList writes numbers into SQL. They are numbers, so nothing can be injected,
// and the statement needs no parameters for them.
func idList(ids []int64) string {
	var b strings.Builder
	for i, id := range ids {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(id, 10))
	}
	return b.String()
}

// among is ids as the right side of IN, with the argument that it needs. On
// SQLite the text is the same for any ids, so that the compiled statement is
// used again; a server parses each text anyhow, and plans a plain list best.
func (s *Store) among(ids []int64) (string, []any) {
	if s.db.IsSQLite() {
		return "(SELECT value FROM json_each(?))", []any{"[" + idList(ids) + "]"}
	}
	return "(" + idList(ids) + ")", nil
}

// pieces cuts n rows into the numbers of rows that go into one INSERT each: on
// SQLite one of few numbers, for the reason that among gives.
func (s *Store) pieces(n int) []int {
	sizes := []int{chunk}
	if s.db.IsSQLite() {
		sizes = []int{64, 16, 4, 1}
	}
	var out []int
	for _, size := range sizes {
		for n >= size {
			out = append(out, size)
			n -= size
		}
	}
	if n > 0 {
		out = append(out, n)
	}
	return out
}

// insertRows inserts rows of one width; args has the values row by row. row is
// one bracketed group of the VALUES, tail what follows them.
func (t *tx) insertRows(ctx context.Context, head, row, tail string, width int, args []any) error {
	if err := t.flush(ctx); err != nil { // the caller may mind what these rows alone fail with
		return err
	}
	if err := t.insertLater(ctx, head, row, tail, width, args); err != nil {
		return err
	}
	return t.flush(ctx)
}

// insertLater is insertRows for rows that nobody waits for, see later. It keeps
// the arguments.
func (t *tx) insertLater(ctx context.Context, head, row, tail string, width int, args []any) error {
	for _, n := range t.s.pieces(len(args) / width) {
		if err := t.later(ctx, nil, head+strings.Repeat(row+",", n-1)+row+tail, args[:n*width]...); err != nil {
			return err
		}
		args = args[n*width:]
	}
	return nil
}

// anys turns texts into arguments.
func anys[T ~string](list []T) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

// condition collects the parts of a WHERE clause with their arguments.
type condition struct {
	parts []string
	args  []any
}

func (c *condition) add(part string, args ...any) {
	c.parts = append(c.parts, part)
	c.args = append(c.args, args...)
}

// eq adds "column = value" unless the value is empty.
func (c *condition) eq(column, value string) {
	if value != "" {
		c.add(column+" = ?", value)
	}
}

// in adds "column IN (..)" unless the list is empty.
func (c *condition) in(column string, values []any) {
	if len(values) > 0 {
		c.add(column+" IN ("+dialect.Marks(len(values))+")", values...)
	}
}

// where is the clause, or nothing.
func (c *condition) where() string {
	if len(c.parts) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.parts, " AND ")
}

// limit is the LIMIT of a listing: 0 means usual, less than 0 none.
func limit(n, usual int) string {
	if n < 0 {
		return ""
	}
	if n == 0 {
		n = usual
	}
	return " LIMIT " + strconv.Itoa(n)
}

// nullJSON is a document as a text argument, NULL for none.
func nullJSON(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	return jsonText(raw)
}

// jsonText is a document as a text that every dialect stores. What is not valid
// JSON is kept as a JSON string, so that a reader never fails on it.
func jsonText(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "{}"
	}
	if !json.Valid(raw) {
		b, err := json.Marshal(dag.CutText(string(raw), dag.MaxPayload))
		if err != nil {
			return "{}" // cannot happen: a string always marshals
		}
		return string(b)
	}
	return strings.ToValidUTF8(string(raw), "\uFFFD")
}

func rawOrNil(s *string) json.RawMessage {
	if s == nil || *s == "" {
		return nil
	}
	return json.RawMessage(*s)
}

// short cuts a text to what its column takes: characters, not bytes, and
// without what a server's UTF-8 refuses.
func short(s string, characters int) string {
	s = clean(s)
	if len(s) <= characters {
		return s
	}
	n := 0
	for i := range s {
		if n == characters {
			return s[:i]
		}
		n++
	}
	return s
}

// clean replaces what a server's UTF-8 refuses.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
