package sqltext

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Flavour is the writing that a database reads.
type Flavour uint8

// Flavours.
const (
	// MySQL is MySQL and MariaDB: a backslash escapes inside a text, # begins a
	// comment, -- does before white space only.
	MySQL Flavour = iota
	// SQLite: a backslash is an ordinary character, -- always begins a comment.
	SQLite
)

// Kind is the kind of a token.
type Kind uint8

// Kinds of tokens.
const (
	// Word is a name or keyword without quotes.
	Word Kind = iota + 1
	// Quoted is a name in backquotes or double quotes.
	Quoted
	// String is a text in single quotes (or, in a Word position that SQL does
	// not allow, as it stands).
	String
	// Number is a number.
	Number
	// Punct is an operator or a punctuation mark, as long as it can be: "<=".
	Punct
	// Param is a named parameter: ":name".
	Param
	// Comment is a comment.
	Comment
)

// Token is a piece of SQL text.
type Token struct {
	Kind Kind
	// Text is the token as it stands in the source.
	Text string
	// Pos is its first byte, from 0.
	Pos int
}

// Name is the token's text without quotes.
func (t Token) Name() string {
	switch t.Kind {
	case Quoted:
		q := t.Text[:1]
		return strings.ReplaceAll(t.Text[1:len(t.Text)-1], q+q, q)
	case Param:
		return t.Text[1:]
	default:
		return t.Text
	}
}

// Is tells whether the token is the keyword.
func (t Token) Is(keyword string) bool {
	return t.Kind == Word && strings.EqualFold(t.Text, keyword)
}

// Error is a place in SQL text that cannot be read.
type Error struct {
	// Line and Column are from 1; Column counts characters.
	Line, Column int
	Message      string
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// At makes an Error for a byte of the source.
func At(source string, pos int, format string, args ...any) *Error {
	pos = min(max(pos, 0), len(source))
	before := source[:pos]
	line := strings.Count(before, "\n") + 1
	start := strings.LastIndexByte(before, '\n') + 1
	return &Error{Line: line, Column: utf8.RuneCountInString(before[start:]) + 1, Message: fmt.Sprintf(format, args...)}
}

// Tokens cuts a source into tokens; white space is dropped. A text, quoted name
// or comment that does not end is an *Error.
func (f Flavour) Tokens(source string) ([]Token, error) {
	var out []Token
	for i := 0; i < len(source); {
		ch := source[i]
		if ch == ' ' || ch == '\t' || ch == '\n' || ch == '\r' || ch == '\f' || ch == '\v' {
			i++
			continue
		}
		kind, end, problem := f.next(source, i)
		if problem != "" {
			return nil, At(source, i, "%s", problem)
		}
		out = append(out, Token{Kind: kind, Text: source[i:end], Pos: i})
		i = end
	}
	return out, nil
}

func (f Flavour) next(s string, i int) (kind Kind, end int, problem string) {
	rest := s[i:]
	ch := s[i]
	switch {
	case f.lineComment(rest):
		if n := strings.IndexByte(rest, '\n'); n >= 0 {
			return Comment, i + n, ""
		}
		return Comment, len(s), ""
	case strings.HasPrefix(rest, "/*"):
		n := strings.Index(rest[2:], "*/")
		if n < 0 {
			return 0, 0, "a comment is opened with /* and not closed"
		}
		return Comment, i + 2 + n + 2, ""
	case ch == '\'':
		end, ok := quoted(s, i, f == MySQL)
		if !ok {
			return 0, 0, "a text is opened with ' and not closed"
		}
		return String, end, ""
	case ch == '"' || ch == '`':
		end, ok := quoted(s, i, f == MySQL && ch == '"')
		if !ok {
			return 0, 0, fmt.Sprintf("a name is opened with %c and not closed", ch)
		}
		return Quoted, end, ""
	case ch == ':' && len(rest) > 1 && wordStart(rest[1]):
		return Param, i + 1 + wordLen(rest[1:]), ""
	case isDigit(ch), ch == '.' && len(rest) > 1 && isDigit(rest[1]):
		return Number, i + numberLen(rest), ""
	case wordStart(ch):
		return Word, i + wordLen(rest), ""
	}
	for _, op := range []string{"<=>", "->>", "<=", ">=", "<>", "!=", "||", "&&", ":=", "->", "<<", ">>", "::"} {
		if strings.HasPrefix(rest, op) {
			return Punct, i + len(op), ""
		}
	}
	return Punct, i + 1, ""
}

func (f Flavour) lineComment(rest string) bool {
	if f == MySQL && rest[0] == '#' {
		return true
	}
	if !strings.HasPrefix(rest, "--") {
		return false
	}
	return f == SQLite || len(rest) == 2 || strings.IndexByte(" \t\n\r", rest[2]) >= 0
}

// quoted finds the end of what is opened at i. The quote doubled stands for
// itself; a backslash takes the next character with it where escapes is set, as
// MySQL reads it.
func quoted(s string, i int, escapes bool) (end int, ok bool) {
	q := s[i]
	for j := i + 1; j < len(s); j++ {
		switch {
		case s[j] == '\\' && escapes:
			j++
		case s[j] == q && j+1 < len(s) && s[j+1] == q:
			j++
		case s[j] == q:
			return j + 1, true
		}
	}
	return 0, false
}

func isDigit(ch byte) bool { return ch >= '0' && ch <= '9' }

func wordStart(ch byte) bool {
	return ch == '_' || ch == '@' || ch == '$' || ch >= 0x80 || (ch|0x20 >= 'a' && ch|0x20 <= 'z')
}

func wordLen(s string) int {
	n := 0
	for n < len(s) && (wordStart(s[n]) || isDigit(s[n])) {
		n++
	}
	return n
}

func numberLen(s string) int {
	n := 0
	for n < len(s) && (isDigit(s[n]) || s[n] == '.' || wordStart(s[n]) ||
		((s[n] == '+' || s[n] == '-') && n > 0 && s[n-1]|0x20 == 'e' && !strings.HasPrefix(s, "0x"))) {
		n++
	}
	return n
}
