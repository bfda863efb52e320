package sqltext

import "strings"

// Statement is one statement of a text.
type Statement struct {
	// SQL is the statement without its semicolon and without comments around it.
	SQL     string
	flavour Flavour
	// Line is where it begins, from 1.
	Line int
	// Verb is its first word in upper case: "INSERT".
	Verb string
	// Second is its second word in upper case: "TABLE" of CREATE TABLE; further
	// words (OR REPLACE, TEMPORARY, UNIQUE) are passed over.
	Second string
}

// Split cuts a text at its semicolons. A compound statement (CREATE TRIGGER or
// PROCEDURE with BEGIN .. END) stays whole. Empty statements are dropped.
func (f Flavour) Split(source string) ([]Statement, error) {
	tokens, err := f.Tokens(source)
	if err != nil {
		return nil, err
	}
	var out []Statement
	var part []Token
	depth := 0
	flush := func() {
		if s, ok := f.statement(source, part); ok {
			out = append(out, s)
		}
		part, depth = nil, 0
	}
	for _, t := range tokens {
		if t.Kind == Punct && t.Text == ";" && depth == 0 {
			flush()
			continue
		}
		part = append(part, t)
		if compound(part) {
			switch {
			case t.Is("CASE") && after(part, "END"):
				// END CASE: its END has closed it.
			case t.Is("BEGIN"), t.Is("CASE"):
				depth++
			case t.Is("END") && depth > 0:
				depth--
			case (t.Is("IF") || t.Is("LOOP") || t.Is("WHILE") || t.Is("REPEAT")) && after(part, "END"):
				// END IF ends what IF opened; neither was counted.
				depth++
			}
		}
	}
	flush()
	return out, nil
}

// after tells whether the last token follows the keyword.
func after(part []Token, keyword string) bool {
	return len(part) > 1 && part[len(part)-2].Is(keyword)
}

// compound tells whether a statement may have semicolons of its own.
func compound(tokens []Token) bool {
	words := words(tokens, 8)
	if len(words) < 2 || words[0] != "CREATE" {
		return false
	}
	for _, w := range words[1:] {
		switch w {
		case "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT":
			return true
		case "TABLE", "VIEW", "INDEX", "AS", "SELECT":
			return false
		}
	}
	return false
}

// words gives up to n leading words in upper case, comments left out.
func words(tokens []Token, n int) []string {
	var out []string
	for _, t := range tokens {
		if t.Kind == Comment {
			continue
		}
		if t.Kind == Punct && t.Text == "(" && len(out) == 0 {
			continue
		}
		if t.Kind != Word || len(out) == n {
			break
		}
		out = append(out, strings.ToUpper(t.Text))
	}
	return out
}

func (f Flavour) statement(source string, tokens []Token) (Statement, bool) {
	// MySQL's /*! .. */ is a statement, not a comment.
	plain := func(t Token) bool { return t.Kind == Comment && !strings.HasPrefix(t.Text, "/*!") }
	for len(tokens) > 0 && plain(tokens[0]) {
		tokens = tokens[1:]
	}
	for len(tokens) > 0 && plain(tokens[len(tokens)-1]) {
		tokens = tokens[:len(tokens)-1]
	}
	if len(tokens) == 0 {
		return Statement{}, false
	}
	last := tokens[len(tokens)-1]
	s := Statement{
		flavour: f,
		SQL:     source[tokens[0].Pos : last.Pos+len(last.Text)],
		Line:    strings.Count(source[:tokens[0].Pos], "\n") + 1,
	}
	w := words(tokens, 6)
	if len(w) > 0 {
		s.Verb = w[0]
	}
	for _, x := range w[min(1, len(w)):] {
		switch x {
		case "OR", "REPLACE", "TEMPORARY", "TEMP", "UNIQUE", "IF", "NOT", "EXISTS", "ONLINE", "OFFLINE", "IGNORE", "ALGORITHM", "DEFINER":
			if x == "TEMPORARY" || x == "TEMP" {
				s.Second = "TEMPORARY"
				return s, true
			}
			continue
		}
		s.Second = x
		break
	}
	return s, true
}

// ReturnsRows tells whether the statement answers with rows.
func (s Statement) ReturnsRows() bool {
	switch s.Verb {
	case "SELECT", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "VALUES", "TABLE", "PRAGMA", "CHECK", "ANALYZE", "CALL", "HELP":
		return true
	case "WITH":
		tokens, err := s.flavour.Tokens(s.SQL)
		return err != nil || withReturnsRows(tokens)
	default:
		tokens, err := s.flavour.Tokens(s.SQL)
		if err != nil {
			return false
		}
		for _, t := range tokens {
			if t.Is("RETURNING") {
				return true
			}
		}
		return false
	}
}

// withReturnsRows looks for the verb that follows WITH's queries.
func withReturnsRows(tokens []Token) bool {
	depth := 0
	for _, t := range tokens {
		switch {
		case t.Kind == Punct && t.Text == "(":
			depth++
		case t.Kind == Punct && t.Text == ")":
			depth--
		case depth == 0 && (t.Is("INSERT") || t.Is("UPDATE") || t.Is("DELETE") || t.Is("REPLACE")):
			return false
		}
	}
	return true
}

// CommitsSilently tells whether MySQL and MariaDB commit the open transaction
// before and after this statement: everything that changes the schema, and a
// few more. The word is the one to show ("CREATE TABLE").
func (s Statement) CommitsSilently() (word string, yes bool) {
	word = strings.TrimSpace(s.Verb + " " + s.Second)
	switch s.Verb {
	case "CREATE", "DROP":
		return word, s.Second != "TEMPORARY"
	case "ALTER", "RENAME", "TRUNCATE", "GRANT", "REVOKE", "ANALYZE", "OPTIMIZE", "REPAIR", "CHECK", "CACHE", "FLUSH", "INSTALL", "UNINSTALL":
		return word, true
	case "LOCK", "UNLOCK":
		return word, true
	}
	return "", false
}

// ControlsTransaction tells whether the statement begins or ends a transaction
// by itself.
func (s Statement) ControlsTransaction() bool {
	switch s.Verb {
	case "BEGIN", "COMMIT", "ROLLBACK", "END", "SAVEPOINT", "RELEASE":
		return true
	case "START":
		return s.Second == "TRANSACTION"
	case "SET":
		return s.Second == "AUTOCOMMIT"
	}
	return false
}
