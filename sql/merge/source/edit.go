package source

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/sql/merge/row"
)

// SetFields gives a row with other values in some of its fields, written as its
// source writes rows. A row that cannot be read must be replaced as a whole.
func SetFields(ctx context.Context, l Layout, raw string, set map[string]string) (string, error) {
	plain := l
	plain.Encoding = AnyEncoding
	text, err := l.Decode(raw), error(nil)
	switch l.Format {
	case "csv":
		text, err = setCSV(ctx, plain, text, set)
	case "jsonl", "json", "query", "parquet":
		text, err = setJSON(text, set)
	default:
		err = fmt.Errorf("it is not known how the row's source is written; replace it as a whole")
	}
	if err != nil {
		return "", err
	}
	return l.Encode(text)
}

// csv is how the file of the layout is written.
func (l *Layout) csv() CSVOptions {
	opt := CSVOptions{Delimiter: ',', Quote: '"', NoQuote: l.Quote == noQuote}
	if l.Delimiter != "" {
		opt.Delimiter = l.Delimiter[0]
	}
	if l.Quote != "" && l.Quote != noQuote {
		opt.Quote = l.Quote[0]
	}
	return opt
}

func setCSV(ctx context.Context, l Layout, raw string, set map[string]string) (string, error) {
	opt := l.csv()
	letter := Letter{Source: "the row", Raw: raw, Layout: l}
	values, f := letter.readCSV(ctx, opt, Wanted{All: true})
	if f != nil {
		return "", fmt.Errorf("the row cannot be read field by field (%s); replace it as a whole", f.Message)
	}
	fields := make([]string, len(values))
	for i, v := range values {
		fields[i] = v.Text
	}
	for name, text := range set {
		at := slices.Index(l.Columns, name)
		if at < 0 {
			return "", fmt.Errorf("the row has no column %q; it has %s", name, quoteList(l.Columns))
		}
		fields[at] = text
	}
	return csvLine(fields, opt)
}

// HeaderLine is the header of a CSV file as a text, without its line end; empty
// for another format.
func HeaderLine(l Layout) string {
	if l.Format != "csv" {
		return ""
	}
	line, err := csvLine(l.Columns, l.csv())
	if err != nil {
		return ""
	}
	return line
}

func csvLine(fields []string, opt CSVOptions) (string, error) {
	var b strings.Builder
	for i, text := range fields {
		if i > 0 {
			b.WriteByte(opt.Delimiter)
		}
		if err := writeField(&b, text, opt); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

func writeField(b *strings.Builder, text string, opt CSVOptions) error {
	if !strings.ContainsAny(text, string([]byte{opt.Delimiter, '\n', '\r'})) && (opt.NoQuote || !strings.HasPrefix(text, string(opt.Quote))) {
		b.WriteString(text)
		return nil
	}
	if opt.NoQuote {
		return fmt.Errorf("%q cannot be written in a file without quotes", text)
	}
	q := string(opt.Quote)
	b.WriteString(q + strings.ReplaceAll(text, q, q+q) + q)
	return nil
}

// setJSON sets members of an object; the values of the others keep their text. A
// value that is JSON itself is taken as such, any other as a text.
func setJSON(raw string, set map[string]string) (string, error) {
	o := newObjectReader(Wanted{})
	if _, f := o.read(raw); f != nil {
		return "", fmt.Errorf("the row cannot be read (%s); replace it as a whole", f.Message)
	}
	var members []struct {
		key  string
		text string
	}
	s := scanner{text: raw, at: strings.IndexByte(raw, '{') + 1}
	for {
		s.space()
		if s.text[s.at] == '}' {
			break
		}
		if s.text[s.at] == ',' {
			s.at++
			s.space()
		}
		key, _ := s.str()
		s.space()
		s.at++ // the colon
		s.space()
		from := s.at
		s.skip()
		members = append(members, struct{ key, text string }{key, raw[from:s.at]})
	}
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		text := set[name]
		if !json.Valid([]byte(text)) {
			text = string(appendValue(nil, row.Value{Kind: row.Text, Text: text}))
		}
		found := false
		for i := range members {
			if members[i].key == name {
				members[i].text, found = text, true
			}
		}
		if !found {
			members = append(members, struct{ key, text string }{name, text})
		}
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(jsonText(m.key))
		b.WriteByte(':')
		b.WriteString(m.text)
	}
	b.WriteByte('}')
	return b.String(), nil
}
