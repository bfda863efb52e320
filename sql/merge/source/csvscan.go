package source

import (
	"bytes"
	"io"

	"github.com/airlock-dag/airlock/sql/merge/row"
)

// scan takes one row off the window and leaves its fields in c.spans. An empty
// raw text with no fault is an empty line.
func (c *CSV) scan() (raw string, broken *row.Fault, err error) {
	c.spans = c.spans[:0]
	c.lastUnended = false
	if len(c.w.bytes()) == 0 && !c.w.more() {
		if c.w.err != nil {
			return "", nil, c.w.err
		}
		return "", nil, io.EOF
	}
	end, tooLong := c.w.lineEnd(0, c.opt.MaxRow)
	if c.w.err != nil {
		return "", nil, c.w.err
	}
	if tooLong {
		return c.scanTooLong()
	}
	consumed := end + 1
	if end < 0 {
		end = len(c.w.bytes())
		consumed = end
		c.lastUnended = true
	}
	line := dropCR(c.w.bytes()[:end])
	if c.opt.NoQuote || bytes.IndexByte(line, c.opt.Quote) < 0 {
		raw = string(line)
		c.split(raw)
		if c.lastUnended {
			c.w.take(consumed)
		} else {
			c.w.takeLine(consumed)
		}
		return raw, nil, nil
	}
	return c.scanQuoted(len(line), consumed)
}

func dropCR(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\r' {
		return b[:n-1]
	}
	return b
}

// scanTooLong takes a line beyond the limit and keeps its beginning.
func (c *CSV) scanTooLong() (string, *row.Fault, error) {
	raw, size := c.w.tooLong(rawKept)
	if c.w.err != nil {
		return "", nil, c.w.err
	}
	return raw, fault(row.LineTooLong, "", "the line has %d bytes, the limit is %d; the first %d are kept", size, c.opt.MaxRow, len(raw)), nil
}

// split cuts a line without quotes.
func (c *CSV) split(line string) {
	from := 0
	for i := range len(line) {
		if line[i] == c.opt.Delimiter {
			c.spans = append(c.spans, span{from: from, to: i})
			from = i + 1
		}
	}
	c.spans = append(c.spans, span{from: from, to: len(line)})
}

// scanQuoted takes a row that has a quote in its first physical line, which is
// lineLen bytes long and takes lineTaken bytes with its end.
func (c *CSV) scanQuoted(lineLen, lineTaken int) (string, *row.Fault, error) {
	for {
		b := c.w.bytes()
		end, taken, state := c.quoted(b, c.w.eof)
		switch state {
		case rowDone:
			raw := string(b[:end])
			c.lastUnended = taken == end && c.w.eof && taken == len(b) && (end == 0 || b[end-1] != '\n')
			c.w.take(taken)
			return raw, nil, nil
		case rowNeedsMore:
			if len(b) > c.opt.MaxRow {
				return c.giveUpLine(lineLen, lineTaken, fault(row.BadQuote, "", "a quote is opened in this line and not closed within %d bytes", c.opt.MaxRow))
			}
			// Load until the window has doubled, so that a long field is looked
			// at a bounded number of times.
			for target := 2 * len(b); len(c.w.bytes()) < target && c.w.more(); {
			}
			if c.w.err != nil {
				return "", nil, c.w.err
			}
		case rowOpenAtEnd:
			f := fault(row.BadQuote, "", "a quote is opened in this line and never closed")
			if lineTaken == len(b) && lineTaken == lineLen {
				f = fault(row.UnfinishedRow, "", "the file ends inside a field with quotes")
			}
			return c.giveUpLine(lineLen, lineTaken, f)
		case rowBadQuote:
			return c.giveUpLine(lineLen, lineTaken, fault(row.BadQuote, "", "a closing quote is followed by something else than a delimiter or the end of the line"))
		}
	}
}

// giveUpLine takes only the row's first physical line, so that a broken quote
// costs one line and not what follows.
func (c *CSV) giveUpLine(lineLen, lineTaken int, f *row.Fault) (string, *row.Fault, error) {
	raw := string(c.w.bytes()[:lineLen])
	c.w.take(lineTaken)
	c.spans = c.spans[:0]
	return raw, f, nil
}

type rowState uint8

const (
	rowDone rowState = iota
	rowNeedsMore
	rowOpenAtEnd // the stream ends inside quotes
	rowBadQuote
)

// quoted finds the fields of the row at the front of b. end is the row's length
// without its line end, taken with it.
func (c *CSV) quoted(b []byte, atEOF bool) (end, taken int, state rowState) {
	c.spans = c.spans[:0]
	i := 0
	for {
		var s span
		if i < len(b) && b[i] == c.opt.Quote {
			s = span{from: i + 1, quoted: true}
			i++
			for {
				at := bytes.IndexByte(b[i:], c.opt.Quote)
				if at < 0 {
					if atEOF {
						return 0, 0, rowOpenAtEnd
					}
					return 0, 0, rowNeedsMore
				}
				i += at + 1
				if i == len(b) && !atEOF {
					return 0, 0, rowNeedsMore
				}
				if i < len(b) && b[i] == c.opt.Quote {
					s.doubled = true
					i++
					continue
				}
				s.to = i - 1
				break
			}
		} else {
			s = span{from: i}
			for i < len(b) && b[i] != c.opt.Delimiter && b[i] != '\n' {
				i++
			}
			s.to = i
			if i == len(b) && !atEOF {
				return 0, 0, rowNeedsMore
			}
			if i == len(b) || b[i] == '\n' {
				s.to = s.from + len(dropCR(b[s.from:i]))
			}
		}
		// Here i stands at a delimiter, a line end, the end, or rubbish.
		rest := b[i:]
		switch {
		case len(rest) == 0:
			c.spans = append(c.spans, s)
			return i, i, rowDone
		case rest[0] == c.opt.Delimiter:
			c.spans = append(c.spans, s)
			i++
		case rest[0] == '\n':
			c.spans = append(c.spans, s)
			return len(dropCR(b[:i])), i + 1, rowDone
		case rest[0] == '\r' && len(rest) == 1 && !atEOF:
			return 0, 0, rowNeedsMore
		case rest[0] == '\r' && (len(rest) == 1 || rest[1] == '\n'):
			c.spans = append(c.spans, s)
			return i, min(i+2, len(b)), rowDone
		default:
			return 0, 0, rowBadQuote
		}
	}
}
