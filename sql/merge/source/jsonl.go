package source

import (
	"bytes"
	"context"
	"io"

	"github.com/airlock-dag/airlock/sql/merge/row"
)

// JSONLOptions say how a file of JSON lines is read.
type JSONLOptions struct {
	// Encoding of the bytes.
	Encoding Encoding
	// FinalNewline: a last line without a line end is not finished, even when
	// it is a whole object.
	FinalNewline bool
	// MaxRow is the greatest length of a line in bytes; DefaultMaxRow when 0.
	MaxRow int
}

// JSONL reads one JSON object a line. Numbers keep every digit. What is not
// exactly one object, has a key twice, has bytes that are not UTF-8, or ends
// with the file before the object does, is a fault of that line.
type JSONL struct {
	w    *window
	name string
	opt  JSONLOptions
	obj  objectReader
	rec  row.Record
}

// NewJSONL begins to read.
func NewJSONL(r io.Reader, name string, opt JSONLOptions, want Wanted) (*JSONL, error) {
	if opt.MaxRow <= 0 {
		opt.MaxRow = DefaultMaxRow
	}
	j := &JSONL{w: newWindow(r), name: name, opt: opt, obj: newObjectReader(want)}
	var err error
	j.opt.Encoding, err = j.w.start(name, opt.Encoding)
	return j, err
}

// Layout implements Laid.
func (j *JSONL) Layout() Layout {
	l := Layout{Format: "jsonl"}
	if j.opt.Encoding != UTF8 {
		l.Encoding = j.opt.Encoding
	}
	return l
}

// Close implements Reader; the stream belongs to the caller.
func (j *JSONL) Close() error { return nil }

// Next implements Reader.
func (j *JSONL) Next(ctx context.Context) (*row.Record, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if len(j.w.bytes()) == 0 && !j.w.more() {
			if j.w.err != nil {
				return nil, j.w.err
			}
			return nil, io.EOF
		}
		j.rec = row.Record{Source: j.name, Line: j.w.line, Offset: j.w.off}
		end, tooLong := j.w.lineEnd(0, j.opt.MaxRow)
		if j.w.err != nil {
			return nil, j.w.err
		}
		if tooLong {
			raw, size := j.w.tooLong(rawKept)
			j.rec.Raw = j.w.original(raw)
			if j.w.err != nil {
				return nil, j.w.err
			}
			j.rec.Fault = fault(row.LineTooLong, "", "the line has %d bytes, the limit is %d; the first %d are kept", size, j.opt.MaxRow, len(j.rec.Raw))
			return &j.rec, nil
		}
		ended := end >= 0
		if !ended {
			end = len(j.w.bytes())
		}
		raw := string(dropCR(j.w.bytes()[:end]))
		if ended {
			j.w.takeLine(end + 1)
		} else {
			j.w.take(end)
		}
		if len(bytes.TrimSpace([]byte(raw))) == 0 {
			continue
		}
		j.rec.Raw = j.w.original(raw)
		if !ended && j.opt.FinalNewline {
			j.rec.Fault = fault(row.UnfinishedRow, "", "the last line has no line end")
			return &j.rec, nil
		}
		if j.opt.Encoding.oneByte() {
			var ok bool
			if raw, ok = j.opt.Encoding.toUTF8(raw); !ok {
				j.rec.Fault = fault(row.InvalidUTF8, "", "the line has bytes that are no characters of %s", j.opt.Encoding)
				return &j.rec, nil
			}
		}
		j.rec.Values, j.rec.Fault = j.obj.read(raw)
		if f := j.rec.Fault; f != nil && f.Code == row.BadJSON && !ended {
			j.rec.Fault = fault(row.UnfinishedRow, "", "the file ends inside this line: %s", f.Message)
		}
		return &j.rec, nil
	}
}
