package merge

import (
	"context"
	"fmt"
	"time"

	"github.com/airlock-dag/airlock/sql/merge/source"
)

// letterSource gives the rows of letters.
type letterSource struct {
	spec    *Spec
	letters []RowLetter
}

// Describe implements Source.
func (s *letterSource) Describe() string { return fmt.Sprintf("%d row letters", len(s.letters)) }

// Open implements Source.
func (s *letterSource) Open(_ context.Context, want source.Wanted, _ Bounds) (source.Reader, error) {
	in := make([]source.Letter, len(s.letters))
	for i := range s.letters {
		l := &s.letters[i]
		offset := int64(-1)
		if l.ByteOffset != nil {
			offset = *l.ByteOffset
		}
		in[i] = source.Letter{Source: l.Source, Line: l.SourceLine, Offset: offset, Raw: l.Raw, Layout: layoutOf(l)}
	}
	format := s.spec.Source.Format
	switch {
	case s.spec.Source.Query != "":
		format = "query"
	case s.spec.Source.XCom != "":
		format = "json"
	}
	want.RejectUnknown = s.spec.Source.RejectUnknown
	return source.NewLetters(in, source.LetterOptions{Format: format, CSV: s.spec.Source.csv(), JSONL: s.spec.Source.jsonl()}, want), nil
}

// Read implements Source.
func (s *letterSource) Read() []Part { return []Part{{Name: "letters"}} }

// Now implements Source.
func (s *letterSource) Now(context.Context) ([]Part, error) { return s.Read(), nil }

// versionText is a version for a person.
func versionText(v any) string {
	if t, ok := v.(time.Time); ok {
		return t.UTC().Format("2006-01-02 15:04:05.999999")
	}
	return storedText(v)
}
