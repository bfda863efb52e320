package httpcall

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// options of a request: those of the connection's extra, then those of the
// step's extra_options.
type options struct {
	limit     time.Duration
	insecure  bool
	authority string // file with the certificates to trust
	redirects bool
	check     bool
	headers   http.Header
	// unused are options of Airflow that are not acted on.
	unused []string
}

func defaultOptions() options {
	return options{limit: DefaultLimit, redirects: true, check: true, headers: http.Header{}}
}

// read lays one mapping over the options. What of a connection's extra is no
// option is a header, as in Airflow.
func (o *options) read(m map[string]any, ofConnection bool) error {
	for key, v := range m {
		switch key {
		case "timeout":
			if d, ok := limitOf(v); ok {
				o.limit = d
			}
		case "verify":
			o.insecure, o.authority = false, ""
			if b, ok := boolean(v); ok {
				o.insecure = !b
			} else if s, ok := v.(string); ok {
				o.authority = s
			}
		case "allow_redirects":
			if b, ok := boolean(v); ok {
				o.redirects = b
			}
		case "check_response":
			if b, ok := boolean(v); ok {
				o.check = b
			}
		case "headers":
			if err := o.header(v); err != nil {
				return err
			}
		case "auth_type", "auth_kwargs", "trust_env", "stream", "max_redirects", "proxies", "proxy", "cert", "adapter":
			o.unused = append(o.unused, key)
		case "circuit": // of the connection: the worker's, see executor.Worker
		default:
			if !ofConnection {
				o.unused = append(o.unused, key)
				continue
			}
			if err := o.header(map[string]any{key: v}); err != nil {
				return err
			}
		}
	}
	return nil
}

// lay puts the options' headers onto a request.
func (o *options) lay(req *http.Request) {
	for name, values := range o.headers {
		req.Header[name] = values
		if strings.EqualFold(name, "Host") {
			req.Host = values[0]
		}
	}
}

// header adds a mapping of headers; null leaves one out.
func (o *options) header(v any) error {
	if v == nil {
		return nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("headers must be a mapping")
	}
	for name, value := range m {
		if value == nil {
			o.headers.Del(name)
			continue
		}
		text, ok := scalar(value)
		if !ok {
			return fmt.Errorf("the header %q is neither text nor number", name)
		}
		if !validHeader(name, text) {
			return fmt.Errorf("the header %q has characters that a header cannot hold", name)
		}
		o.headers.Set(name, text)
	}
	return nil
}

func validHeader(name, value string) bool {
	if name == "" {
		return false
	}
	for _, r := range name {
		if r <= ' ' || r >= 0x7f || strings.ContainsRune("()<>@,;:\\\"/[]?={}", r) {
			return false
		}
	}
	return !strings.ContainsFunc(value, func(r rune) bool { return (r < ' ' && r != '\t') || r == 0x7f })
}

func limitOf(v any) (time.Duration, bool) {
	if list, ok := v.([]any); ok { // [connect, read]
		var total time.Duration
		for _, item := range list {
			d, ok := limitOf(item)
			if !ok {
				return 0, false
			}
			total += d
		}
		return total, total > 0
	}
	text, ok := scalar(v)
	if !ok {
		return 0, false
	}
	s, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(s) || s <= 0 || s > 1e6 {
		return 0, false
	}
	return time.Duration(s * float64(time.Second)), true
}

func boolean(v any) (value, ok bool) {
	switch x := v.(type) {
	case bool:
		return x, true
	case string:
		switch strings.ToLower(strings.TrimSpace(x)) {
		case "true", "1", "yes":
			return true, true
		case "false", "0", "no":
			return false, true
		}
	}
	return false, false
}

// scalar writes a value as a form, a query or a header has it; booleans as
// Python does.
func scalar(v any) (string, bool) {
	switch x := v.(type) {
	case string:
		return x, true
	case bool:
		if x {
			return "True", true
		}
		return "False", true
	case int:
		return strconv.Itoa(x), true
	case int64:
		return strconv.FormatInt(x, 10), true
	case uint64:
		return strconv.FormatUint(x, 10), true
	case json.Number:
		return x.String(), true
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64), true
	default:
		return "", false
	}
}
