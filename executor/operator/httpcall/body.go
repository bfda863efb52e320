package httpcall

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// queried tells whether a method carries its data in the address.
func queried(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// put lays params, data and json onto the request: into the address or into the
// body. The returned content type is "" where the step or nobody says it.
func put(u *url.URL, method string, headers http.Header, params, data, asJSON any) (body []byte, contentType string, err error) {
	if data == nil && asJSON == nil && !queried(method) {
		data, params = params, nil
	}
	if queried(method) && asJSON == nil {
		if params != nil && data != nil {
			if err := query(u, data); err != nil {
				return nil, "", fmt.Errorf("data: %w", err)
			}
			data = nil
		}
		if params == nil {
			params, data = data, nil
		}
	}
	if err := query(u, params); err != nil {
		return nil, "", err
	}
	switch x := firstGiven(asJSON, data).(type) {
	case nil:
		return nil, "", nil
	case string:
		if asJSON != nil {
			body, err = json.Marshal(x)
			return body, "application/json", err
		}
		return []byte(x), "", nil
	case map[string]any:
		if asJSON == nil && !saysJSON(headers) {
			form, err := values(x)
			return []byte(form.Encode()), "application/x-www-form-urlencoded", err
		}
		body, err = json.Marshal(x)
		return body, "application/json", err
	default:
		body, err = json.Marshal(x)
		return body, "application/json", err
	}
}

func firstGiven(a, b any) any {
	if a != nil {
		return a
	}
	return b
}

func saysJSON(h http.Header) bool {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
}

// query adds to the query of an address: a mapping, or text as it is.
func query(u *url.URL, v any) error {
	var add string
	switch x := v.(type) {
	case nil:
		return nil
	case string:
		add = strings.TrimPrefix(x, "?")
	case map[string]any:
		form, err := values(x)
		if err != nil {
			return err
		}
		add = form.Encode()
	default:
		return fmt.Errorf("the query must be a mapping or text")
	}
	if u.RawQuery != "" && add != "" {
		add = u.RawQuery + "&" + add
	}
	if add != "" {
		u.RawQuery = add
	}
	return nil
}

// values writes a mapping as a form; a list is repeated, null left out.
func values(m map[string]any) (url.Values, error) {
	out := url.Values{}
	for key, v := range m {
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for _, item := range list {
			if item == nil {
				continue
			}
			text, ok := scalar(item)
			if !ok {
				return nil, fmt.Errorf("%q is neither text nor number: send it as json", key)
			}
			out.Add(key, text)
		}
	}
	return out, nil
}
