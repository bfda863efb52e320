package source

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/airlock-dag/airlock/sql/merge/row"
)

// List reads the rows of a JSON list of objects, such as an upstream task's
// return value; one object alone is a list of one.
type List struct {
	name string
	dec  *json.Decoder
	one  bool // a single object, not a list
	obj  objectReader
	n    int64
	done bool
	rec  row.Record
}

// NewList begins to read. Null and an empty text have no rows.
func NewList(data []byte, name string, want Wanted) (*List, error) {
	l := &List{name: name, obj: newObjectReader(want)}
	trimmed := bytes.TrimSpace(data)
	if len(trimmed) == 0 || string(trimmed) == "null" {
		l.done = true
		return l, nil
	}
	if !json.Valid(trimmed) {
		return nil, fmt.Errorf("%s: not valid JSON: %w", name, ErrHeader)
	}
	l.dec = json.NewDecoder(bytes.NewReader(trimmed))
	switch trimmed[0] {
	case '[':
		if _, err := l.dec.Token(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	case '{':
		l.one = true
	default:
		return nil, fmt.Errorf("%s: a list of objects is needed, it is %.40q: %w", name, trimmed, ErrHeader)
	}
	return l, nil
}

// Layout implements Laid.
func (l *List) Layout() Layout { return Layout{Format: "json"} }

// Close implements Reader.
func (l *List) Close() error { return nil }

// Next implements Reader.
func (l *List) Next(ctx context.Context) (*row.Record, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if l.done || !l.dec.More() {
		return nil, io.EOF
	}
	l.done = l.one
	var raw json.RawMessage
	if err := l.dec.Decode(&raw); err != nil {
		return nil, fmt.Errorf("%s: %w", l.name, err)
	}
	l.n++
	l.rec = row.Record{Source: l.name, Line: l.n, Offset: -1, Raw: string(raw)}
	l.rec.Values, l.rec.Fault = l.obj.read(l.rec.Raw)
	return &l.rec, nil
}
