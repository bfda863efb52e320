package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
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

// Headers of a request.
const (
	HeaderSignature      = "X-Airlock-Signature" // "sha256=" + hex HMAC of timestamp + "." + body
	HeaderTimestamp      = "X-Airlock-Timestamp" // Unix time in seconds
	HeaderIdempotencyKey = "Idempotency-Key"     // the event's key, the same in each delivery
)

// limit is the longest that one request may take, the answer's head included.
const limit = 10 * time.Second

// maxRedirects is how many redirects to the same host are followed.
const maxRedirects = 3

// Notifier posts events. Make it with New.
type Notifier struct {
	client *http.Client
}

// New makes the notifier.
func New() *Notifier {
	var transport http.RoundTripper = &http.Transport{}
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		own := t.Clone() // with the environment's proxy
		own.MaxIdleConnsPerHost = 8
		own.MaxResponseHeaderBytes = 64 << 10
		transport = own
	}
	return &Notifier{client: &http.Client{Transport: transport, CheckRedirect: sameHost}}
}

// Name implements callbacks.Notifier.
func (*Notifier) Name() string { return "webhook" }

// Notify implements callbacks.Notifier. Any 2xx answer is a delivery; 408, 425,
// 429, 5xx and trouble on the way are repeated, other answers are final.
func (n *Notifier) Notify(ctx context.Context, d callbacks.Delivery) error {
	timeout, err := d.Args.Duration("timeout", limit)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := request(ctx, d)
	if err != nil {
		return err
	}
	if err := sign(ctx, req, d); err != nil {
		return err
	}
	resp, err := n.client.Do(req)
	if err != nil {
		return transportError(ctx, req, err, timeout)
	}
	defer func() { _ = resp.Body.Close() }()
	// A short answer is read so that the connection can be used again. What it
	// says, and whether it ever ends, does not matter: the head has decided.
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	return verdict(req, resp, d.Clock)
}

// request builds the POST without its signature.
func request(ctx context.Context, d callbacks.Delivery) (*http.Request, error) {
	if err := d.Args.Check("url", "secret_conn_id", "headers", "timeout"); err != nil {
		return nil, err
	}
	text, err := d.Args.Text("url")
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		// The text itself is not shown: a URL may hold a password or a token.
		return nil, callbacks.Permanent(errors.New("url is not an http:// or https:// URL with a host"))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(d.Body))
	if err != nil {
		return nil, callbacks.Permanent(errors.New("url cannot be requested"))
	}
	headers, err := d.Args.Texts("headers")
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "airlock")
	for k, v := range headers {
		if strings.ContainsAny(k+v, "\r\n\x00") {
			return nil, callbacks.Permanent(fmt.Errorf("the header %q has a line break in it", k))
		}
		req.Header.Set(k, v)
	}
	req.Header.Set(HeaderIdempotencyKey, d.Event.DedupKey)
	return req, nil
}

// sign adds the timestamp, and the signature when there is a secret.
func sign(ctx context.Context, req *http.Request, d callbacks.Delivery) error {
	stamp := strconv.FormatInt(d.Clock.Now().Unix(), 10)
	req.Header.Set(HeaderTimestamp, stamp)
	req.Header.Del(HeaderSignature)
	id, err := d.Args.Text("secret_conn_id")
	if err != nil || id == "" {
		return err
	}
	conn, err := d.Connection(ctx, id)
	if err != nil {
		return fmt.Errorf("secret_conn_id: %w", err)
	}
	secret := conn.Password
	if secret == "" {
		secret, _ = conn.Extra["secret"].(string)
	}
	if secret == "" {
		return callbacks.Permanent(fmt.Errorf("the connection %q has neither a password nor a secret in its extra", id))
	}
	req.Header.Set(HeaderSignature, Signature(secret, stamp, d.Body))
	return nil
}

// Signature is the value of HeaderSignature for a body sent at a timestamp.
func Signature(secret, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
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

// transportError says what went wrong on the way, without the URL's path,
// query and user, which may be secret.
func transportError(ctx context.Context, req *http.Request, err error, timeout time.Duration) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	var slow net.Error
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || (errors.As(err, &slow) && slow.Timeout()) {
		err = fmt.Errorf("no answer within %s", timeout)
	}
	return &callbacks.Failure{Err: fmt.Errorf("POST to %s: %w", place(req.URL), err), Down: true}
}

func place(u *url.URL) string { return u.Scheme + "://" + u.Host }

// verdict turns the answer's status into the end of the delivery.
func verdict(req *http.Request, resp *http.Response, clock dag.Clock) error {
	code := resp.StatusCode
	if code >= 200 && code < 300 {
		return nil
	}
	f := &callbacks.Failure{Err: fmt.Errorf("POST to %s: answered %d %s", place(req.URL), code, http.StatusText(code))}
	switch {
	case code >= 300 && code < 400:
		f.Permanent = true
		f.Err = fmt.Errorf("%w: only redirects 307 and 308 to the same host are followed", f.Err)
	case code == http.StatusTooManyRequests, code == http.StatusBadGateway,
		code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		f.Down = true
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code >= 500:
	default:
		f.Permanent = true
	}
	if !f.Permanent {
		f.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), clock.Now())
	}
	return f
}

// retryAfter reads the header's two forms, seconds and a date; 0 for none, for
// the past and for what cannot be read.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if n, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
