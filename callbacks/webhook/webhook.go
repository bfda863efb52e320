package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/callbacks/post"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/render"
)

// Headers of a request.
const (
	HeaderSignature      = "X-Airlock-Signature" // "sha256=" + hex HMAC of timestamp + "." + body
	HeaderTimestamp      = "X-Airlock-Timestamp" // Unix time in seconds
	HeaderIdempotencyKey = "Idempotency-Key"     // the event's key, the same in each delivery
)

// Notifier posts events. Make it with New.
type Notifier struct {
	client *post.Client
}

// New makes the notifier.
func New() *Notifier { return &Notifier{client: post.NewClient()} }

// Name implements callbacks.Notifier.
func (*Notifier) Name() string { return "webhook" }

// Spec describes the arguments.
func Spec() dag.OperatorSpec {
	return dag.OperatorSpec{
		Name: "webhook",
		Fields: []dag.Field{
			{Name: "url", Type: dag.FieldString, Required: true},
			{Name: "secret_conn_id", Type: dag.FieldString},
			{Name: "headers", Type: dag.FieldMap},
			{Name: "timeout", Type: dag.FieldDuration},
		},
		Validate: func(args map[string]any) []dag.Problem {
			text, _ := args["url"].(string)
			if _, err := post.URL(text, "url"); err == nil || render.IsTemplate(text) {
				return nil
			}
			return []dag.Problem{{Severity: dag.SeverityError, Code: "bad-value", Message: "url is not an http:// or https:// URL with a host", Path: "url"}}
		},
	}
}

// Notify implements callbacks.Notifier. Any 2xx answer is a delivery; 408, 425,
// 429, 5xx and trouble on the way are repeated, other answers are final.
func (n *Notifier) Notify(ctx context.Context, d callbacks.Delivery) error {
	timeout, err := d.Args.Duration("timeout", post.Limit)
	if err != nil {
		return err
	}
	req, err := request(ctx, d)
	if err != nil {
		return err
	}
	if err := sign(ctx, req, d); err != nil {
		return err
	}
	_, err = n.client.Send(req, timeout, d.Clock)
	return err
}

// request builds the POST without its signature.
func request(ctx context.Context, d callbacks.Delivery) (*http.Request, error) {
	if err := d.Args.Check(Spec()); err != nil {
		return nil, err
	}
	text, err := d.Args.Text("url")
	if err != nil {
		return nil, err
	}
	u, err := post.URL(text, "url")
	if err != nil {
		return nil, err
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
