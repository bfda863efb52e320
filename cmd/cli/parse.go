package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/plainfile"
)

// wrong is an error of use: what was found and what to write instead.
func wrong(op, hint, format string, args ...any) error {
	return &dag.Error{Code: dag.ErrInvalid, Op: op, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// notFound is an error for a name that nothing has, with the nearest name.
func notFound(kind, name string, known []string, hint string) error {
	if near := dag.Nearest(name, known); near != "" && near != name {
		hint = "did you mean " + near + "?"
	}
	return &dag.Error{Code: dag.ErrNotFound, Op: kind + " " + name, Err: fmt.Errorf("there is none of this name"), Hint: hint}
}

// parseDate reads a date or an instant; one without a zone is in zone.
func parseDate(text, zone string) (time.Time, error) {
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return time.Time{}, fmt.Errorf("time zone %s: %w", zone, err)
	}
	for _, layout := range []string{
		time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02 15:04:05Z07:00",
		"2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05.999999", "2006-01-02 15:04", "2006-01-02 15:04:05.999999",
	} {
		if at, err := time.ParseInLocation(layout, text, loc); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, wrong("read the date", "write 2026-01-31, 2026-01-31T02:00 or 2026-01-31T02:00:00+01:00", "%q is no date", text)
}

// date is parseDate in the zone of the settings; nil for an empty text.
func (s *session) date(text string) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	cfg, err := s.config()
	if err != nil {
		return nil, err
	}
	at, err := parseDate(text, cfg.DefaultTimezone)
	return &at, err
}

// since is a date, or a length of time before now ("24h"); nil for an empty text.
func (s *session) since(text string) (*time.Time, error) {
	return s.before(s.env.Clock.Now(), text)
}

// before is a date, or a length of time before an instant; nil for an empty text.
func (s *session) before(now time.Time, text string) (*time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil {
		at := now.Add(-ago)
		return &at, nil
	}
	if days, found := strings.CutSuffix(text, "d"); found {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 {
			at := now.AddDate(0, 0, -n)
			return &at, nil
		}
	}
	return s.date(text)
}

// parseObject reads a JSON object, or nothing.
func parseObject(what, text string) (json.RawMessage, error) {
	if text == "" {
		return nil, nil
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
		return nil, wrong("read the "+what, `write a JSON object: '{"episode": 7}'`, "%q is no JSON object", shorten(text, 80))
	}
	return json.RawMessage(text), nil
}

// path makes a path that the user gave absolute.
func (s *session) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.env.WorkDir, name)
}

// readFile reads a file that the user names; - is stdin.
func (s *session) readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(s.env.Stdin)
	}
	file, err := s.openFile(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file)
}

// openFile opens a file that may be too large to be held as a whole.
func (s *session) openFile(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(s.env.Stdin), nil
	}
	open := plainfile.Open
	if isOpen(name) {
		open = os.Open
	}
	file, err := open(s.path(name))
	if err != nil {
		return nil, wrong("read "+name, "give a file that is there, or - for the standard input", "%w", err)
	}
	return file, nil
}

// isOpen tells whether a name stands for what the shell has opened already, as
// <(command) does: that may be a pipe, and its writer is there.
func isOpen(name string) bool {
	return name == "/dev/stdin" || strings.HasPrefix(name, "/dev/fd/") || strings.HasPrefix(name, "/proc/self/fd/")
}

// writeFile writes a file that the user names, readable by its owner alone: it
// may hold secrets; - is stdout.
func (s *session) writeFile(name string, content []byte) error {
	if name == "-" {
		_, err := s.env.Stdout.Write(content)
		return err
	}
	return os.WriteFile(s.path(name), content, 0o600)
}

// fileFormat is a file's format by its flag or its ending: json, yaml or env.
func fileFormat(flag, name string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json", "":
		return "json", nil
	case ".yaml", ".yml":
		return "yaml", nil
	case ".env":
		return "env", nil
	default:
		return "", wrong("choose a format for "+name, "give --file-format json, yaml or env", "the ending %s is not known", filepath.Ext(name))
	}
}

// confirm asks a person; without one it asks for --yes.
func (s *session) confirm(question string) error {
	if !s.env.Terminal {
		return wrong("confirm", "add --yes", "%s (nobody is there to answer)", question)
	}
	fmt.Fprintf(s.env.Stdout, "%s [y/N] ", question)
	answer := make([]byte, 1)
	n, _ := s.env.Stdin.Read(answer)
	if n == 1 && (answer[0] == 'y' || answer[0] == 'Y') {
		return nil
	}
	fmt.Fprintln(s.env.Stdout, "nothing was done")
	return errReported
}
