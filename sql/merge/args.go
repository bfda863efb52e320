package merge

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// args reads the keys of a step and collects what is wrong with them. Values
// that still hold a template are taken as given: they are checked when the step
// runs.
type args struct {
	problems []dag.Problem
	// templates is set when a value could not be looked at for a template in it.
	templates bool
	// unread are the names of columns that are there and could not be read.
	unread []string
}

func (a *args) problem(path, code, format string, v ...any) {
	a.problems = append(a.problems, dag.Problem{
		Path: path, Severity: dag.SeverityError, Code: code, Message: fmt.Sprintf(format, v...),
	})
}

func (a *args) hint(text string) { a.problems[len(a.problems)-1].Hint = text }

// template tells whether a value is a text with a template in it.
func (a *args) template(v any) bool {
	s, ok := v.(string)
	if ok && (strings.Contains(s, "{{") || strings.Contains(s, "{%")) {
		a.templates = true
		return true
	}
	return false
}

const badValue = "bad-value"

func (a *args) str(m map[string]any, path, key string) string {
	switch v := m[key].(type) {
	case nil:
		return ""
	case string:
		a.template(v)
		return v
	case json.Number:
		return v.String()
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		a.problem(join(path, key), badValue, "a text is needed, found %s", kindOf(v))
		return ""
	}
}

// oneOf reads a text from a list; the first is the default.
func (a *args) oneOf(m map[string]any, path, key string, allowed ...string) string {
	s := a.str(m, path, key)
	if s == "" {
		return allowed[0]
	}
	if a.template(s) {
		return allowed[0]
	}
	for _, x := range allowed {
		if s == x {
			return s
		}
	}
	a.problem(join(path, key), badValue, "found %q; allowed are %s", s, strings.Join(allowed, ", "))
	return allowed[0]
}

func (a *args) boolean(m map[string]any, path, key string, fallback bool) bool {
	switch v := m[key].(type) {
	case nil:
		return fallback
	case bool:
		return v
	case string:
		if a.template(v) {
			return fallback
		}
		switch strings.ToLower(v) {
		case "true", "yes", "on":
			return true
		case "false", "no", "off":
			return false
		}
	}
	a.problem(join(path, key), badValue, "true or false is needed, found %v", m[key])
	return fallback
}

func (a *args) number(m map[string]any, path, key string, fallback float64) float64 {
	v, ok := m[key]
	if !ok || v == nil || a.template(v) {
		return fallback
	}
	if f, ok := asNumber(v); ok {
		return f
	}
	a.problem(join(path, key), badValue, "a number is needed, found %v", v)
	return fallback
}

func (a *args) count(m map[string]any, path, key string, fallback int64) int64 {
	f := a.number(m, path, key, float64(fallback))
	if f < 0 && f != float64(fallback) || f != float64(int64(f)) {
		a.problem(join(path, key), badValue, "a whole number of 0 or more is needed, found %v", m[key])
		return fallback
	}
	return int64(f)
}

func asNumber(v any) (float64, bool) {
	switch x := v.(type) {
	case float64:
		return x, true
	case int:
		return float64(x), true
	case int64:
		return float64(x), true
	case json.Number:
		f, err := x.Float64()
		return f, err == nil
	case string:
		f, err := strconv.ParseFloat(strings.TrimSpace(x), 64)
		return f, err == nil
	}
	return 0, false
}

// list reads a list of texts, or one text.
func (a *args) list(m map[string]any, path, key string) []string {
	switch v := m[key].(type) {
	case nil:
		return nil
	case string:
		a.template(v)
		return []string{v}
	case []any:
		var out []string
		for i, x := range v {
			switch s := x.(type) {
			case string:
				a.template(s)
				out = append(out, s)
			case nil:
				out = append(out, "")
			case json.Number, float64, bool, int:
				out = append(out, fmt.Sprint(s))
			default:
				a.problem(fmt.Sprintf("%s[%d]", join(path, key), i), badValue, "a text is needed, found %s", kindOf(x))
			}
		}
		return out
	case []string:
		return v
	default:
		a.problem(join(path, key), badValue, "a list of texts is needed, found %s", kindOf(v))
		return nil
	}
}

// mapping reads a mapping and reports keys that are not allowed.
func (a *args) mapping(m map[string]any, path, key string, allowed ...string) map[string]any {
	v, ok := m[key]
	if !ok || v == nil {
		return nil
	}
	got, ok := v.(map[string]any)
	if !ok {
		if !a.template(v) {
			a.problem(join(path, key), badValue, "a mapping is needed, found %s", kindOf(v))
		}
		return nil
	}
	a.known(got, join(path, key), allowed...)
	return got
}

// known reports the keys that are not allowed, with the nearest right one.
func (a *args) known(m map[string]any, path string, allowed ...string) {
	if len(allowed) == 0 {
		return
	}
	for _, k := range sortedKeys(m) {
		found := false
		for _, x := range allowed {
			found = found || x == k
		}
		if !found {
			a.problem(join(path, k), "unknown-key", "there is no key %q here; allowed are %s", k, strings.Join(allowed, ", "))
			if near := dag.Nearest(k, allowed); near != "" {
				a.hint(fmt.Sprintf("did you mean %q?", near))
			}
		}
	}
}

var isoDuration = regexp.MustCompile(`^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$`)

// duration reads seconds, "10m", "1d" or ISO 8601.
func (a *args) duration(m map[string]any, path, key string) time.Duration {
	v, ok := m[key]
	if !ok || v == nil || a.template(v) {
		return 0
	}
	d, ok := parseDuration(v)
	if !ok || d < 0 {
		a.problem(join(path, key), badValue, "a duration is needed (seconds, \"90s\", \"10m\", \"2h30m\"), found %v", v)
		return 0
	}
	return d
}

func parseDuration(v any) (time.Duration, bool) {
	if f, ok := asNumber(v); ok {
		return time.Duration(f * float64(time.Second)), true
	}
	s, ok := v.(string)
	if !ok {
		return 0, false
	}
	s = strings.TrimSpace(s)
	if m := isoDuration.FindStringSubmatch(s); m != nil && s != "P" {
		var total float64
		for i, unit := range []float64{86400, 3600, 60, 1} {
			n, _ := strconv.ParseFloat(m[i+1], 64)
			total += n * unit
		}
		return time.Duration(total * float64(time.Second)), true
	}
	if days, rest, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil {
			return 0, false
		}
		d := time.Duration(n) * 24 * time.Hour
		if rest == "" {
			return d, true
		}
		more, err := time.ParseDuration(rest)
		return d + more, err == nil
	}
	d, err := time.ParseDuration(s)
	return d, err == nil
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "nothing"
	case string:
		return "a text"
	case bool:
		return "true or false"
	case float64, int, int64, json.Number:
		return "a number"
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	default:
		return fmt.Sprintf("%T", v)
	}
}
