package httpcall

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/crashpoint"
	"github.com/airlock-dag/airlock/dag/plainfile"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
)

const (
	maxRedirects = 10
	maxHeaders   = 256 << 10
	// shownBody is how much of an error's answer is kept beside the error.
	shownBody = 4 << 10
)

// Caller makes requests. One serves all attempts, concurrently, and keeps
// connections open between them.
type Caller struct{ plain, insecure *http.Transport }

// New makes a Caller.
func New() *Caller {
	plain := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		plain = t.Clone()
	}
	plain.MaxResponseHeaderBytes = maxHeaders
	insecure := plain.Clone()
	insecure.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // only where verify: false asks for it
	return &Caller{plain: plain, insecure: insecure}
}

// Request is what a step says beyond its connection.
type Request struct {
	// Method when the step's key says none.
	Method string
	// Limit of this request; 0 for that of the options.
	Limit time.Duration
	// IdempotencyKey is sent with methods that change something; "" for none.
	IdempotencyKey string
}

// Call makes the request that the task's arguments describe. An answer with a
// status of 400 or above is an error, unless check_response is false; the
// answer is then returned beside the error.
func (c *Caller) Call(ctx context.Context, t *operator.Task, r Request) (*Response, *dag.TaskError) {
	dest, te := address(ctx, t)
	if te != nil {
		return nil, te
	}
	o := defaultOptions()
	if dest.conn != nil {
		if err := o.read(dest.conn.Extra, true); err != nil {
			return nil, fault.New(fault.CodeConnectionInvalid, fmt.Sprintf("connection %q: %v", dest.conn.ID, err))
		}
	}
	extra, _ := t.Args["extra_options"].(map[string]any)
	err := o.read(extra, false)
	if err == nil {
		err = o.header(t.Args["headers"])
	}
	if err != nil {
		return nil, fault.New(fault.CodeInvalidArgument, err.Error())
	}
	if len(o.unused) > 0 {
		slices.Sort(o.unused)
		fmt.Fprintf(t.Log, "airlock: these options are not acted on: %s\n", strings.Join(o.unused, ", "))
	}
	dest.options = o
	if r.Limit > 0 {
		dest.options.limit = r.Limit
	}
	req, te := build(t, dest, r)
	if te != nil {
		return nil, te
	}
	crashpoint.Point("http step: before it asks for the lease")
	if !safe(req.Method) && t.StillMine != nil {
		if err := t.StillMine(ctx); err != nil {
			if errors.Is(err, operator.ErrLeaseLost) {
				return nil, fault.Stopped(err)
			}
			return nil, fault.New(fault.CodeStateDatabase, err.Error())
		}
	}
	return c.send(ctx, t, dest, req)
}

func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// build puts the request together.
func build(t *operator.Task, dest target, r Request) (*http.Request, *dag.TaskError) {
	method, _ := t.Args["method"].(string)
	if method = strings.ToUpper(strings.TrimSpace(method)); method == "" {
		method = r.Method
	}
	body, contentType, err := put(dest.url, method, dest.options.headers, t.Args["request_params"], t.Args["data"], t.Args["json"])
	if err != nil {
		return nil, fault.New(fault.CodeInvalidArgument, err.Error())
	}
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequest(method, dest.url.String(), reader) //nolint:noctx // the context comes with the sending
	if err != nil {
		return nil, fault.New(fault.CodeInvalidArgument, fmt.Sprintf("method %q and the address make no request", method))
	}
	req.URL.User = nil
	req.Header.Set("User-Agent", "airlock")
	req.Header.Set("Accept", "*/*")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	login(req, dest.conn)
	if r.IdempotencyKey != "" && !safe(method) {
		req.Header.Set("Idempotency-Key", headerKey(r.IdempotencyKey))
	}
	dest.options.lay(req)
	return req, nil
}

// login adds that of the connection, which may be nil.
func login(req *http.Request, c *dag.Connection) {
	switch {
	case c == nil:
	case c.Login != "":
		req.SetBasicAuth(c.Login, c.Password)
	case c.Password != "":
		req.Header.Set("Authorization", "Bearer "+c.Password)
	}
}

// headerKey is an idempotency key as a header can hold it: a key with other
// characters, or a very long one, is sent as its hash.
func headerKey(key string) string {
	if len(key) > 255 || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
		return dag.PayloadHash([]byte(key))
	}
	return key
}

// send sends the request and reads the answer within the limits.
func (c *Caller) send(ctx context.Context, t *operator.Task, dest target, req *http.Request) (*Response, *dag.TaskError) {
	transport, done, te := c.transport(t, dest.options)
	if te != nil {
		return nil, te
	}
	defer done()
	client := &http.Client{Transport: transport, CheckRedirect: redirect(dest.options.redirects)}
	limited, stop := context.WithTimeout(ctx, dest.options.limit)
	defer stop()
	begin := t.Clock.Now()
	head, err := client.Do(req.WithContext(limited))
	var body []byte
	if err == nil {
		defer func() { _ = head.Body.Close() }()
		body, err = io.ReadAll(io.LimitReader(head.Body, MaxBody+1))
	}
	crashpoint.Point("http step: answered")
	if err != nil {
		return nil, sendError(ctx, req, err, dest.options.limit)
	}
	r := response(head, body[:min(len(body), MaxBody)], len(body) > MaxBody)
	r.Elapsed = t.Clock.Now().Sub(begin).Seconds()
	fmt.Fprintf(t.Log, "airlock: %s %s: %d %s, %d bytes in %.3f s\n", req.Method, shown(dest.url), r.StatusCode, r.Reason, len(body), r.Elapsed)
	if r.OK || !dest.options.check {
		return &r, nil
	}
	e := fault.HTTP(r.StatusCode, head.Header.Get("Retry-After"), t.Clock.Now())
	e.Message = fmt.Sprintf("%s %s: %s", req.Method, shown(dest.url), e.Message)
	e.Stack = dag.CutText(r.Text, shownBody)
	return &r, e
}

// sendError classifies an error of the way. The error's own text would hold the
// whole address with its query.
func sendError(ctx context.Context, req *http.Request, err error, limit time.Duration) *dag.TaskError {
	if te := fault.Context(ctx); te != nil {
		return te
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	if errors.Is(err, errTooManyRedirects) {
		return fault.New(fault.CodeResponseInvalid, fmt.Sprintf("%s %s: more than %d redirects", req.Method, shown(req.URL), maxRedirects))
	}
	e := fault.Network(err)
	e.Message = fmt.Sprintf("%s %s: %v", req.Method, shown(req.URL), err)
	if errors.Is(err, context.DeadlineExceeded) {
		e.Message = fmt.Sprintf("%s %s: no whole answer within %s", req.Method, shown(req.URL), limit)
	}
	return e
}

var errTooManyRedirects = errors.New("too many redirects") //nolint:gochecknoglobals // a constant

// redirect follows redirects within a host with everything, and to another host
// without what the step and the connection added: logins and keys stay where
// they belong.
func redirect(follow bool) func(*http.Request, []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		if !follow {
			return http.ErrUseLastResponse
		}
		if len(via) > maxRedirects {
			return errTooManyRedirects
		}
		if first := via[0].URL; req.URL.Host != first.Host || (first.Scheme == "https" && req.URL.Scheme != "https") {
			for name := range req.Header {
				if !slices.Contains([]string{"User-Agent", "Accept", "Content-Type", "Content-Length"}, name) {
					req.Header.Del(name)
				}
			}
		}
		return nil
	}
}

// transport is the one that checks certificates as the options say.
func (c *Caller) transport(t *operator.Task, o options) (*http.Transport, func(), *dag.TaskError) {
	nothing := func() {}
	switch {
	case o.insecure:
		return c.insecure, nothing, nil
	case o.authority == "":
		return c.plain, nothing, nil
	}
	path := o.authority
	if !filepath.IsAbs(path) {
		path = filepath.Join(t.Dir, path)
	}
	pem, err := plainfile.Read(path, 0)
	if errors.Is(err, plainfile.ErrNotPlain) {
		return nil, nil, fault.New(fault.CodeConnectionInvalid, "verify: "+err.Error())
	}
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(pem) {
		return nil, nil, fault.New(fault.CodeConnectionInvalid, fmt.Sprintf("verify: %s is no file with certificates", path))
	}
	own := c.plain.Clone()
	own.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return own, own.CloseIdleConnections, nil
}
