package dag

import (
	"fmt"
	"strings"
)

// Severity of a Problem.
type Severity string

// Severities. A file with an error gives no DAG; a warning is only told.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Problem is one mistake in a file, with its place and what to do.
type Problem struct {
	File     string   `json:"file"`
	Line     int      `json:"line"`           // from 1; 0 when the file as a whole is meant
	Column   int      `json:"column"`         // from 1, in characters
	Path     string   `json:"path,omitempty"` // of the key: "media_ingest.tasks.probe.retries"
	Severity Severity `json:"severity"`
	Code     string   `json:"code"`    // unknown-key, bad-cron, ...: a closed list in docs/
	Message  string   `json:"message"` // what was found and what is allowed
	Hint     string   `json:"hint,omitempty"`
}

// String is file:line:column: severity: path: message (hint).
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	fmt.Fprintf(&b, ": %s: ", p.Severity)
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString("; " + p.Hint)
	}
	return b.String()
}
