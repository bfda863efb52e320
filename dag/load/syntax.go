package load

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v4"

	"github.com/airlock-dag/airlock/dag"
)

var (
	unquotedStar = regexp.MustCompile(`^(\s*(?:-\s+)*(?:[^\s:#]+\s*:\s+)?)\*`)
	unquotedSign = regexp.MustCompile(`^\s*(?:-\s+)*(?:[^\s:#]+\s*:\s+)?([@%` + "`" + `])`)
	colonInText  = regexp.MustCompile(`:\s`)
	inQuotes     = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^']*'`)
)

// syntaxProblem tells of a file that is not YAML, with the usual causes.
func syntaxProblem(err error, data []byte) dag.Problem {
	p := dag.Problem{Severity: dag.SeverityError, Code: codeSyntax, Message: "not YAML: " + err.Error()}
	var le *yaml.LoadError
	if !errors.As(err, &le) {
		return p
	}
	p.Message = "not YAML: " + le.Message
	if le.ContextMsg != "" {
		p.Message += " " + le.ContextMsg
	}
	p.Line, p.Column = le.Mark.Line, le.Mark.Column
	if p.Line == 0 {
		return p
	}
	line := lineOf(data, p.Line)
	if m := unquotedStar.FindStringSubmatch(line); m != nil {
		p.Code, p.Column = codeUnquotedStar, utf8.RuneCountInString(m[1])+1
		p.Message = "a value that begins with * is read as an alias"
		p.Hint = `put it in quotes, as in schedule: "*/15 * * * *"`
		return p
	}
	indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	if i := strings.IndexByte(indent, '\t'); i >= 0 {
		p.Code, p.Column = codeTab, i+1
		p.Message, p.Hint = "a tab stands in the indentation", "YAML indents with spaces only"
		return p
	}
	switch {
	case strings.Contains(le.Message, "mapping values are not allowed"):
		if len(colonInText.FindAllString(line, 2)) > 1 {
			p.Hint = "a text with a colon and a blank in it needs quotes"
		} else {
			p.Hint = "look at the indentation of this line and the one above"
		}
	case strings.Contains(le.Message, "cannot start any token"):
		if m := unquotedSign.FindStringSubmatch(line); m != nil {
			p.Message = "not YAML: a value cannot begin with " + m[1]
			p.Hint = "put it in quotes"
		}
	case strings.Contains(le.Message, "did not find expected ',' or"):
		p.Hint = "a comma or a closing bracket is missing, or a text with one of , { } [ ] in it has no quotes"
		if strings.Contains(inQuotes.ReplaceAllString(line, ""), "{{") {
			p.Code, p.Hint = codeUnquotedTmpl, `between { and } a text with a template needs quotes, as in bash_command: "echo {{ ds }}"`
		}
	case strings.Contains(le.Message, "unknown anchor"):
		p.Hint = "an anchor (&name) must stand above its alias (*name) in the same file"
	case strings.Contains(le.Message, "end of stream"):
		p.Hint = "a quote or bracket is not closed"
	case strings.Contains(le.Message, "did not find expected key"), strings.Contains(le.Message, "did not find expected '-'"):
		p.Hint = "look at the indentation of this line and the ones above"
	}
	return p
}

// lineOf is one line of a file, counted from 1.
func lineOf(data []byte, n int) string {
	for ; n > 1; n-- {
		i := bytes.IndexByte(data, '\n')
		if i < 0 {
			return ""
		}
		data = data[i+1:]
	}
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		data = data[:i]
	}
	return strings.TrimSuffix(string(data), "\r")
}
