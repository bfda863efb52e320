package httpcall

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"
)

// MaxBody is how many bytes of an answer are read.
const MaxBody = 4 << 20

// Response is an answer, as expressions see it.
type Response struct {
	StatusCode int    `expr:"status_code"`
	Reason     string `expr:"reason"`
	// OK: the status is below 400.
	OK   bool   `expr:"ok"`
	Text string `expr:"text"`
	// JSON is the body when it is JSON, else nil. Numbers are int64 where they
	// fit, else float64.
	JSON any `expr:"json"`
	// Headers by their names in lower case; of several only the first.
	Headers map[string]string `expr:"headers"`
	// Elapsed is the time that the request took, in seconds.
	Elapsed float64 `expr:"elapsed"`
	// Truncated: the body is longer than MaxBody, and Text is its beginning.
	Truncated bool `expr:"truncated"`
}

// response reads the head and body of an answer.
func response(head *http.Response, body []byte, truncated bool) Response {
	r := Response{
		StatusCode: head.StatusCode, Reason: http.StatusText(head.StatusCode), OK: head.StatusCode < 400,
		Headers: map[string]string{}, Truncated: truncated,
	}
	for name := range head.Header {
		r.Headers[strings.ToLower(name)] = head.Header.Get(name)
	}
	r.Text = text(body, head.Header.Get("Content-Type"))
	if !truncated {
		r.JSON = parse(body)
	}
	return r
}

// text reads a body as text. One in Latin-1 that says so is read as such; any
// other is UTF-8, with U+FFFD for what is not.
func text(body []byte, contentType string) string {
	_, params, _ := mime.ParseMediaType(contentType)
	switch strings.ToLower(params["charset"]) {
	case "iso-8859-1", "latin-1", "latin1":
		runes := make([]rune, len(body))
		for i, b := range body {
			runes[i] = rune(b)
		}
		return string(runes)
	}
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	if utf8.Valid(body) {
		return string(body)
	}
	return strings.ToValidUTF8(string(body), "\uFFFD")
}

// parse reads a body as JSON whatever its content type says; nil when it is not.
func parse(body []byte) any {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil || dec.More() {
		return nil
	}
	return numbers(v)
}

// numbers makes numbers comparable in expressions.
func numbers(v any) any {
	switch x := v.(type) {
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n
		}
		f, err := x.Float64()
		if err != nil {
			return x.String()
		}
		return f
	case []any:
		for i := range x {
			x[i] = numbers(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = numbers(x[k])
		}
	}
	return v
}
