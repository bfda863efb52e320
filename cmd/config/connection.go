package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// extraKey is the query key that carries a connection's whole extra as JSON.
const extraKey = "__extra__"

// ParseConnection reads a connection from text, as Airflow does: a JSON object,
// or a URI such as mysql://user:pass@host:3306/schema?tls=true. Errors have
// dag.ErrInvalid and never show the text, which may hold a password.
func ParseConnection(id, text string) (dag.Connection, error) {
	text = strings.TrimSpace(text)
	parse := parseConnectionURI
	if strings.HasPrefix(text, "{") {
		parse = parseConnectionJSON
	}
	c, err := parse(text)
	if err != nil {
		return dag.Connection{}, &dag.Error{
			Code: dag.ErrInvalid, Op: "read connection " + id, Err: err,
			Hint: `write type://user:password@host:port/schema, with % signs for special characters, or {"conn_type": ..., "host": ...}`,
		}
	}
	c.ID = id
	c.Type = normalType(c.Type)
	return c, nil
}

// normalType is Airflow's spelling of a connection type.
func normalType(s string) string {
	s = strings.ReplaceAll(strings.ToLower(s), "-", "_")
	if s == "postgresql" {
		return "postgres"
	}
	return s
}

// parseConnectionURI takes a URI apart the lenient way Airflow does: a second
// scheme (http://https://host) becomes part of the host.
func parseConnectionURI(text string) (dag.Connection, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || scheme == "" {
		return dag.Connection{}, errors.New("it has no type (the part before ://)")
	}
	c := dag.Connection{Type: scheme}
	if strings.Contains(rest, "://") && !strings.ContainsAny(rest[:strings.Index(rest, "://")], "/?#@:") {
		var protocol string
		protocol, rest, _ = strings.Cut(rest, "://")
		c.Host = protocol + "://"
	}
	rest, _, _ = strings.Cut(rest, "#")
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	c.Schema = unescape(path)
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		login, password, _ := strings.Cut(authority[:at], ":")
		c.Login, c.Password = unescape(login), unescape(password)
		authority = authority[at+1:]
	}
	host, port, err := hostAndPort(authority)
	if err != nil {
		return c, err
	}
	c.Host += unescape(host)
	c.Port = port
	c.Extra, err = extraFromQuery(query)
	return c, err
}

// hostAndPort splits host:port, where the host may be [::1].
func hostAndPort(authority string) (string, int, error) {
	host, port := authority, ""
	if inner, rest, ok := strings.Cut(authority, "]"); ok && strings.HasPrefix(inner, "[") {
		host, port = inner[1:], strings.TrimPrefix(rest, ":")
	} else if i := strings.LastIndex(authority, ":"); i >= 0 {
		host, port = authority[:i], authority[i+1:]
	}
	if port == "" {
		return host, 0, nil
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 {
		// Not shown: it is part of the password where a / in it was not escaped.
		return "", 0, errors.New("the port is not a number from 1 to 65535 (a / in a password is written %2F, an @ %40)")
	}
	return host, n, nil
}

func extraFromQuery(query string) (map[string]any, error) {
	if query == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("the part after ? cannot be read: write special characters with % signs")
	}
	if text := values.Get(extraKey); text != "" {
		return parseExtra(text)
	}
	extra := make(map[string]any, len(values))
	for key, all := range values {
		extra[key] = all[len(all)-1]
	}
	return extra, nil
}

func parseExtra(text string) (map[string]any, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var extra map[string]any
	if err := json.Unmarshal([]byte(text), &extra); err != nil {
		return nil, errors.New("its extra is not a JSON object")
	}
	return extra, nil
}

// connectionJSON is the JSON form: Airflow's keys.
type connectionJSON struct {
	ConnectionID string          `json:"connection_id"`
	ConnID       string          `json:"conn_id"`
	Type         string          `json:"conn_type"`
	Description  string          `json:"description"`
	Host         string          `json:"host"`
	Port         json.RawMessage `json:"port"`
	Login        string          `json:"login"`
	Password     string          `json:"password"`
	Schema       string          `json:"schema"`
	Extra        json.RawMessage `json:"extra"`
}

func parseConnectionJSON(text string) (dag.Connection, error) {
	var j connectionJSON
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&j); err != nil {
		return dag.Connection{}, errors.New("it is no JSON object with the keys conn_type, description, host, port, login, password, schema, extra")
	}
	if j.Type == "" {
		return dag.Connection{}, errors.New("it has no conn_type")
	}
	c := dag.Connection{Type: j.Type, Description: j.Description, Host: j.Host, Login: j.Login, Password: j.Password, Schema: j.Schema}
	if port := strings.Trim(string(j.Port), `"`); port != "" && port != "null" {
		n, err := strconv.Atoi(port)
		if err != nil || n < 0 || n > 65535 {
			return c, errors.New("its port is not a number from 1 to 65535")
		}
		c.Port = n
	}
	extra := string(j.Extra)
	if strings.HasPrefix(extra, `"`) { // Airflow's exports hold the object as a text
		if err := json.Unmarshal(j.Extra, &extra); err != nil {
			return c, errors.New("its extra is not a JSON object")
		}
	}
	if extra == "null" {
		return c, nil
	}
	var err error
	c.Extra, err = parseExtra(extra)
	return c, err
}

// unescape undoes % signs; a text with a stray % stays as it is.
func unescape(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}

// ConnectionURI writes a connection as the URI that ParseConnection reads. It
// holds the password.
func ConnectionURI(c dag.Connection) (string, error) {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(c.Type, "_", "-") + "://")
	host := c.Host
	if protocol, rest, ok := strings.Cut(host, "://"); ok {
		b.WriteString(protocol + "://")
		host = rest
	}
	if c.Login != "" || c.Password != "" {
		b.WriteString(escape(c.Login))
		if c.Password != "" {
			b.WriteString(":" + escape(c.Password))
		}
		b.WriteString("@")
	}
	if strings.Contains(host, ":") && !strings.Contains(host, "/") {
		b.WriteString("[" + host + "]")
	} else {
		b.WriteString(escape(host))
	}
	if c.Port != 0 {
		b.WriteString(":" + strconv.Itoa(c.Port))
	}
	if c.Schema != "" {
		b.WriteString("/" + escape(c.Schema))
	}
	if len(c.Extra) > 0 {
		if err := writeExtra(&b, c); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

// writeExtra writes texts as a query, anything richer as one JSON value.
func writeExtra(b *strings.Builder, c dag.Connection) error {
	query := url.Values{}
	for key, v := range c.Extra {
		text, ok := v.(string)
		if !ok || key == extraKey {
			whole, err := json.Marshal(c.Extra)
			if err != nil {
				return fmt.Errorf("write the extra of connection %s: %w", c.ID, err)
			}
			query = url.Values{extraKey: {string(whole)}}
			break
		}
		query.Set(key, text)
	}
	b.WriteString("?" + query.Encode())
	return nil
}

// escape writes everything but letters, digits and -_.~ with % signs.
func escape(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}
