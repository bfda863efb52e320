package httpcall

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
)

// Endpoint is an address with the login and the headers of its connection, for
// a step that sends several requests, or bodies too large for memory.
type Endpoint struct {
	dest   target
	client *http.Client
	done   func()
}

// Endpoint finds the connection (connID may be "") and joins its address and
// the given one, which may be empty or whole. headers are added to every
// request, as the key `headers` of the http step. Close it at the end.
func (c *Caller) Endpoint(ctx context.Context, t *operator.Task, connID, path string, headers any) (*Endpoint, *dag.TaskError) {
	own := *t
	own.Args = map[string]any{"conn_id": connID, "endpoint": path}
	dest, te := address(ctx, &own)
	if te != nil {
		return nil, te
	}
	o := defaultOptions()
	if dest.conn != nil {
		if err := o.read(dest.conn.Extra, true); err != nil {
			return nil, fault.New(fault.CodeConnectionInvalid, fmt.Sprintf("connection %q: %v", dest.conn.ID, err))
		}
	}
	if err := o.header(headers); err != nil {
		return nil, fault.New(fault.CodeInvalidArgument, err.Error())
	}
	if len(o.unused) > 0 {
		slices.Sort(o.unused)
		fmt.Fprintf(t.Log, "airlock: these options are not acted on: %s\n", strings.Join(o.unused, ", "))
	}
	dest.options = o
	transport, done, te := c.transport(t, o)
	if te != nil {
		return nil, te
	}
	return &Endpoint{dest: dest, client: &http.Client{Transport: transport, CheckRedirect: redirect(o.redirects)}, done: done}, nil
}

// Close lets go of connections that nobody else uses.
func (e *Endpoint) Close() { e.done() }

// at is the address of a path below the endpoint.
func (e *Endpoint) at(path string) *url.URL {
	u := *e.dest.url
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/")+"/"+path, ""
	return &u
}

// Shown is the address of a path without login and query.
func (e *Endpoint) Shown(path string) string { return shown(e.at(path)) }

// Send sends one request to a path below the endpoint; the caller closes the
// answer's body. header wins over the endpoint's own; body may be nil. Only
// the context bounds the time that it takes.
func (e *Endpoint) Send(ctx context.Context, method, path string, header http.Header, body io.Reader, size int64) (*http.Response, *dag.TaskError) {
	u := e.at(path)
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, fault.New(fault.CodeInvalidArgument, fmt.Sprintf("%s and the address make no request", method))
	}
	req.URL.User = nil
	if body != nil {
		req.ContentLength = size
		if size == 0 {
			req.Body = http.NoBody
		}
	}
	req.Header.Set("User-Agent", "airlock")
	login(req, e.dest.conn)
	e.dest.options.lay(req)
	for name, values := range header {
		req.Header[name] = values
	}
	head, err := e.client.Do(req)
	if err != nil {
		return nil, sendError(ctx, req, err, 0)
	}
	return head, nil
}

// Transport is one that checks certificates as verify says: false, or a file
// with the certificates to trust (a relative path starts at dir), or nothing.
// done lets go of it.
func (c *Caller) Transport(verify any, dir string) (transport *http.Transport, done func(), te *dag.TaskError) {
	o := defaultOptions()
	_ = o.read(map[string]any{"verify": verify}, false) // reads headers with errors, and there are none
	return c.transport(&operator.Task{Dir: dir}, o)
}
