package source

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/airlock-dag/airlock/sql/merge/row"
)

// Layout is what is needed to read one row of a source again without the rest
// of it. Its JSON is kept with each letter.
type Layout struct {
	// Format is csv, jsonl, json (a list of objects), query or parquet.
	Format string `json:"format"`
	// Columns are those of a CSV file or a query in their order, Types the
	// query's.
	Columns []string `json:"columns,omitempty"`
	Types   []string `json:"types,omitempty"`
	// Encoding of a file's bytes, where it is not UTF-8.
	Encoding Encoding `json:"encoding,omitempty"`
	// Delimiter and Quote of a CSV file where they are not , and "; Quote is none
	// where the file has no quotes.
	Delimiter string `json:"delimiter,omitempty"`
	Quote     string `json:"quote,omitempty"`
	// Cut is set when the letter has the row's beginning only: its length, -1 when
	// that is not known.
	Cut int64 `json:"cut,omitempty"`
}

// noQuote is the Quote of a file without quotes.
const noQuote = "none"

// Laid is a Reader that knows the layout of the record it gave last.
type Laid interface {
	Layout() Layout
}

// LayoutText is a reader's layout as JSON, "" for one that has none.
func LayoutText(r Reader) string {
	l, ok := r.(Laid)
	if !ok {
		return ""
	}
	out, err := json.Marshal(l.Layout())
	if err != nil || string(out) == `{"format":""}` {
		return ""
	}
	return string(out)
}

// CutLayout is a layout's JSON for a row that is kept in part.
func CutLayout(text string, size int64) string {
	var l Layout
	if text != "" && json.Unmarshal([]byte(text), &l) != nil {
		return text
	}
	l.Cut = size
	out, err := json.Marshal(l)
	if err != nil {
		return text
	}
	return string(out)
}

// binaryKey marks bytes in the JSON of a row: {"$hex": "00ff"}.
const binaryKey = "$hex"

// appendValue writes a value as JSON, so that valueOf reads the same again.
func appendValue(b []byte, v row.Value) []byte {
	switch v.Kind {
	case row.Null, row.Missing:
		return append(b, "null"...)
	case row.Number, row.Bool, row.JSON:
		if json.Valid([]byte(v.Text)) {
			return append(b, v.Text...)
		}
		return append(b, jsonText(v.Text)...)
	case row.Bytes:
		return appendHex(b, v.Text)
	default:
		if !utf8.ValidString(v.Text) {
			return appendHex(b, v.Text)
		}
		return append(b, jsonText(v.Text)...)
	}
}

func appendHex(b []byte, s string) []byte {
	return fmt.Appendf(b, `{"%s":"%x"}`, binaryKey, s)
}

// fromHex gives the bytes that appendHex wrote.
func fromHex(v row.Value) (row.Value, bool) {
	if v.Kind != row.JSON {
		return v, false
	}
	var m map[string]string
	if json.Unmarshal([]byte(v.Text), &m) != nil || len(m) != 1 {
		return v, false
	}
	text, ok := m[binaryKey]
	b, err := hex.DecodeString(text)
	if !ok || err != nil {
		return v, false
	}
	return row.Value{Kind: row.Bytes, Text: string(b)}, true
}
