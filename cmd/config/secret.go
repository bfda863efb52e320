package config

import (
	"log/slog"
	"strings"
)

// hidden stands where a secret would.
const hidden = "***"

// Secret is a text that never shows itself: printed, logged or marshalled it is
// three stars. Reveal gives the text to the one place that needs it.
type Secret string

// Reveal is the text itself.
func (s Secret) Reveal() string { return string(s) }

// String implements fmt.Stringer: three stars, or nothing for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString implements fmt.GoStringer.
func (s Secret) GoString() string { return s.String() }

// MarshalText implements encoding.TextMarshaler, for JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// DSN says where a database is: sqlite:///path or mysql://user:pass@host/db.
// Printed, logged or marshalled it shows everything but the password.
type DSN string

// Reveal is the whole text, with its password.
func (d DSN) Reveal() string { return string(d) }

// String implements fmt.Stringer: the text with three stars for the password.
func (d DSN) String() string {
	scheme, rest, found := strings.Cut(string(d), "://")
	if !found {
		return string(d)
	}
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	at := strings.LastIndex(authority, "@")
	if at < 0 {
		return string(d)
	}
	user, _, hasPassword := strings.Cut(authority[:at], ":")
	if !hasPassword {
		return string(d)
	}
	return scheme + "://" + user + ":" + hidden + rest[at:]
}

// GoString implements fmt.GoStringer.
func (d DSN) GoString() string { return d.String() }

// MarshalText implements encoding.TextMarshaler, for JSON and YAML.
func (d DSN) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// LogValue implements slog.LogValuer.
func (d DSN) LogValue() slog.Value { return slog.StringValue(d.String()) }
