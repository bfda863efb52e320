package callbacks

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// Args are a receiver's rendered arguments. Its methods say what is wrong with
// one as a permanent failure: the DAG's file has to be mended.
type Args map[string]any

// Check refuses arguments that a notifier's spec does not have. The loader of
// the files does, too; an event may be older than that.
func (a Args) Check(spec dag.OperatorSpec) error {
	var unknown, known []string
	for i := range spec.Fields {
		known = append(known, spec.Fields[i].Name)
	}
	for k := range a {
		if !slices.Contains(known, k) && !slices.Contains(spec.Ignored, k) {
			unknown = append(unknown, k)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	return Permanent(fmt.Errorf("unknown arguments %s; there are: %s", strings.Join(unknown, ", "), strings.Join(known, ", ")))
}

// Text is a text argument, "" when it is missing.
func (a Args) Text(key string) (string, error) {
	switch v := a[key].(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	default:
		return "", Permanent(fmt.Errorf("%s is a %T, a text is needed", key, v))
	}
}

// Texts is a mapping of texts; numbers and booleans are taken as they are
// written.
func (a Args) Texts(key string) (map[string]string, error) {
	switch v := a[key].(type) {
	case nil:
		return nil, nil
	case map[string]any:
		out := make(map[string]string, len(v))
		for k, value := range v {
			switch value := value.(type) {
			case string:
				out[k] = value
			case float64, int, bool, json.Number:
				out[k] = fmt.Sprint(value)
			default:
				return nil, Permanent(fmt.Errorf("%s.%s is a %T, a text is needed", key, k, value))
			}
		}
		return out, nil
	default:
		return nil, Permanent(fmt.Errorf("%s is a %T, a mapping of texts is needed", key, v))
	}
}

// Duration is a time limit: a number of seconds, or a text like "1m30s". It
// must be above 0. The limit stands in for a missing one and for a longer one.
func (a Args) Duration(key string, limit time.Duration) (time.Duration, error) {
	var d time.Duration
	var err error
	switch v := a[key].(type) {
	case nil:
		return limit, nil
	case float64:
		d = seconds(v)
	case int:
		d = seconds(float64(v))
	case json.Number:
		var f float64
		f, err = v.Float64()
		d = seconds(f)
	case string:
		if f, bad := strconv.ParseFloat(v, 64); bad == nil {
			d = seconds(f)
		} else {
			d, err = time.ParseDuration(v)
		}
	default:
		err = fmt.Errorf("it is a %T", v)
	}
	if err != nil || d <= 0 {
		return 0, Permanent(fmt.Errorf("%s: %v is no time above 0", key, a[key]))
	}
	return min(d, limit), nil
}

// seconds turns a number of seconds into a duration; what does not fit is
// taken as none.
func seconds(f float64) time.Duration {
	if !(f > 0 && f < 1e6) {
		return 0
	}
	return time.Duration(f * float64(time.Second))
}

// splitList parts a text at its commas and leaves out what is empty.
func splitList(s string) []string {
	var out []string
	for part := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ',' || r == ';' }) {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func badType(key string, found any, needed string) error {
	return Permanent(fmt.Errorf("%s is a %T, %s is needed", key, found, needed))
}
