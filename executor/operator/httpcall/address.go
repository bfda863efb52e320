package httpcall

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
)

// defaultConnection is the one that Airflow's operators use unasked.
const defaultConnection = "http_default"

// target is where a request goes and what the connection adds.
type target struct {
	url     *url.URL
	conn    *dag.Connection // nil without one
	options options
}

// address finds the connection and joins its address and the endpoint.
func address(ctx context.Context, t *operator.Task) (target, *dag.TaskError) {
	endpoint, _ := t.Args["endpoint"].(string)
	endpoint = strings.TrimSpace(endpoint)
	id, named := connectionID(t.Args)
	var out target
	if named || !whole(endpoint) {
		c, err := t.Connection(ctx, id)
		if err != nil {
			return out, fault.Connection(err)
		}
		out.conn = &c
	}
	var base string
	if out.conn != nil {
		var err error
		if base, err = baseURL(*out.conn); err != nil {
			return out, fault.New(fault.CodeConnectionInvalid, fmt.Sprintf("connection %q: %v", id, err))
		}
	}
	u, err := join(base, endpoint)
	if err != nil {
		return out, fault.New(fault.CodeInvalidArgument, err.Error())
	}
	if out.conn != nil && whole(endpoint) && !sameHost(base, u) {
		return out, fault.New(fault.CodeInvalidArgument, fmt.Sprintf(
			"the endpoint is a whole address of another host than the connection %q: its login would go there; leave out conn_id or write a path", id))
	}
	out.url = u
	return out, nil
}

func connectionID(args map[string]any) (id string, named bool) {
	for _, key := range []string{"conn_id", "http_conn_id"} {
		if s, ok := args[key].(string); ok && strings.TrimSpace(s) != "" {
			return strings.TrimSpace(s), true
		}
	}
	return defaultConnection, false
}

func whole(endpoint string) bool {
	l := strings.ToLower(endpoint)
	return strings.HasPrefix(l, "http://") || strings.HasPrefix(l, "https://")
}

// baseURL is the address of a connection. Its schema is the protocol, as
// Airflow has it; one that is no protocol is a path.
func baseURL(c dag.Connection) (string, error) {
	host, path := strings.TrimSpace(c.Host), ""
	scheme := "http"
	if c.Type == "https" {
		scheme = "https"
	}
	switch s := strings.ToLower(c.Schema); s {
	case "":
	case "http", "https":
		scheme = s
	default:
		path = "/" + strings.TrimPrefix(c.Schema, "/")
	}
	if host == "" {
		return "", fmt.Errorf("it has no host")
	}
	if !strings.Contains(host, "://") {
		if strings.Count(host, ":") > 1 && !strings.HasPrefix(host, "[") { // an IPv6 address
			host = "[" + host + "]"
		}
		host = scheme + "://" + host
	}
	u, err := url.Parse(host)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", fmt.Errorf("its host is no http or https address") // not shown: it may hold a password
	}
	if c.Port != 0 {
		u.Host = u.Hostname()
		if strings.Contains(u.Host, ":") {
			u.Host = "[" + u.Host + "]"
		}
		u.Host += ":" + strconv.Itoa(c.Port)
	}
	u.User = nil
	return strings.TrimSuffix(u.String(), "/") + path, nil
}

func join(base, endpoint string) (*url.URL, error) {
	text := endpoint
	if !whole(endpoint) {
		text = base
		if endpoint != "" {
			text = strings.TrimSuffix(base, "/") + "/" + strings.TrimPrefix(endpoint, "/")
		}
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("connection and endpoint together are no address; check the endpoint for stray characters")
	}
	return u, nil
}

func sameHost(base string, u *url.URL) bool {
	b, err := url.Parse(base)
	return err == nil && b.Scheme == u.Scheme && strings.EqualFold(b.Host, u.Host)
}

// shown is an address without login, query and fragment.
func shown(u *url.URL) string {
	s := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return s.String()
}
