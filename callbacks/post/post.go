package post

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/dag"
)

// Limit is the longest that one request may take, the answer's head included.
const Limit = 10 * time.Second

// maxAnswer is how much of an answer's body is read, in bytes: enough for a
// short one, and for the connection to be used again.
const maxAnswer = 4 << 10

// maxRedirects is how many redirects to the same host are followed.
const maxRedirects = 3

// Client makes requests. Make it with NewClient.
type Client struct {
	http *http.Client
}

// NewClient makes a client with connections of its own, and the environment's
// proxy. Redirects are followed to the same host alone.
func NewClient() *Client {
	var transport http.RoundTripper = &http.Transport{}
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		own := t.Clone()
		own.MaxIdleConnsPerHost = 8
		own.MaxResponseHeaderBytes = 64 << 10
		transport = own
	}
	return &Client{http: &http.Client{Transport: transport, CheckRedirect: sameHost}}
}

// Answer is a 2xx answer, or one that Judge is asked about.
type Answer struct {
	Status int
	Header http.Header
	// Body is the beginning of the body, as far as it came within the limit.
	Body []byte
}

// URL reads an address. Its text is not in the error: it may hold a password or
// a token.
func URL(text, what string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, callbacks.Permanent(fmt.Errorf("%s is not an http:// or https:// URL with a host", what))
	}
	return u, nil
}

// Base is the address that a connection names by its host, with or without a
// scheme and a port, else the usual one; without a slash at its end.
func Base(conn dag.Connection, usual string) (string, error) {
	if conn.Host == "" {
		return usual, nil
	}
	host := conn.Host
	if !strings.Contains(host, "://") {
		host = cmp.Or(conn.Schema, "https") + "://" + host
	}
	u, err := URL(host, "the connection's host")
	if err != nil {
		return "", err
	}
	if conn.Port != 0 && u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), strconv.Itoa(conn.Port))
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// Send makes a request within a limit. The answer is returned when its status is
// 2xx; any other is a failure: 408, 425, 429, 5xx and trouble on the way are
// repeated, the rest is final. What the answer's body says does not matter here,
// nor whether it ever ends: the head has decided.
func (c *Client) Send(req *http.Request, timeout time.Duration, clock dag.Clock) (Answer, error) {
	ctx, cancel := context.WithTimeout(req.Context(), timeout)
	defer cancel()
	resp, err := c.http.Do(req.WithContext(ctx))
	if err != nil {
		return Answer{}, onTheWay(ctx, req, err, timeout)
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // what came before the limit
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: body}, verdict(req, resp, clock)
}

// sameHost follows only redirects that keep method, body and host; the answer
// to any other is the redirect itself.
func sameHost(req *http.Request, via []*http.Request) error {
	first := via[0]
	code := req.Response.StatusCode
	kept := code == http.StatusTemporaryRedirect || code == http.StatusPermanentRedirect
	if !kept || len(via) > maxRedirects || req.URL.Host != first.URL.Host || req.URL.Scheme != first.URL.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// onTheWay says what went wrong before an answer came.
func onTheWay(ctx context.Context, req *http.Request, err error, timeout time.Duration) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	var slow net.Error
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || (errors.As(err, &slow) && slow.Timeout()) {
		err = fmt.Errorf("no answer within %s", timeout)
	}
	return &callbacks.Failure{Err: fmt.Errorf("%s to %s: %w", req.Method, place(req.URL), err), Down: true}
}

func place(u *url.URL) string { return u.Scheme + "://" + u.Host }

// verdict turns the answer's status into the end of the delivery.
func verdict(req *http.Request, resp *http.Response, clock dag.Clock) error {
	code := resp.StatusCode
	if code >= 200 && code < 300 {
		return nil
	}
	f := &callbacks.Failure{Err: fmt.Errorf("%s to %s: answered %d %s", req.Method, place(req.URL), code, http.StatusText(code))}
	switch {
	case code >= 300 && code < 400:
		f.Permanent = true
		f.Err = fmt.Errorf("%w: only redirects 307 and 308 to the same host are followed", f.Err)
	case code == http.StatusTooManyRequests:
		f.Down, f.Throttled = true, true
	case code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		f.Down = true
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code >= 500:
	default:
		f.Permanent = true
	}
	if !f.Permanent {
		f.RetryAfter = RetryAfter(resp.Header.Get("Retry-After"), clock.Now())
	}
	return f
}

// RetryAfter reads the header's two forms, seconds and a date; 0 for none, for
// the past and for what cannot be read.
func RetryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if n, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
