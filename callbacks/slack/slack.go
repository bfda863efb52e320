package slack

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/callbacks/post"
	"github.com/airlock-dag/airlock/dag"
)

// Addresses of Slack, where the connection gives no other.
const (
	apiAddress  = "https://slack.com/api"
	hookAddress = "https://hooks.slack.com/services"
)

// defaultConnection is used where the receiver names none.
const defaultConnection = "slack_default"

// maxText is the longest text that Slack takes, in characters; what is longer
// is cut.
const maxText = 3000

// Notifier writes to Slack. Make it with New.
type Notifier struct {
	client *post.Client
}

// New makes the notifier.
func New() *Notifier { return &Notifier{client: post.NewClient()} }

// Name implements callbacks.Notifier.
func (*Notifier) Name() string { return "slack" }

// Spec describes the arguments.
func Spec() dag.OperatorSpec {
	return dag.OperatorSpec{
		Name: "slack",
		Fields: []dag.Field{
			{Name: "conn_id", Type: dag.FieldString},
			{Name: "slack_webhook_conn_id", Type: dag.FieldString},
			{Name: "slack_conn_id", Type: dag.FieldString},
			{Name: "text", Type: dag.FieldString},
			{Name: "channel", Type: dag.FieldString},
			{Name: "blocks", Type: dag.FieldAny},
			{Name: "timeout", Type: dag.FieldDuration},
		},
		// Keys of Airflow's notifier that do nothing here.
		Ignored: []string{"username", "icon_url", "icon_emoji", "attachments", "retry_handlers", "base_url", "proxy", "thread_ts", "unfurl_links", "unfurl_media"},
	}
}

// Notify implements callbacks.Notifier. The connection's password decides the
// way: a token (xoxb-...) calls chat.postMessage as a bot, anything else is the
// secret part of an incoming webhook's address, or the whole of it.
func (n *Notifier) Notify(ctx context.Context, d callbacks.Delivery) error {
	if err := d.Args.Check(Spec()); err != nil {
		return err
	}
	timeout, err := d.Args.Duration("timeout", post.Limit)
	if err != nil {
		return err
	}
	conn, err := connection(ctx, d)
	if err != nil {
		return err
	}
	body, err := message(d)
	if err != nil {
		return err
	}
	secret := conn.Password
	switch {
	case secret == "":
		return callbacks.Permanent(fmt.Errorf("the connection %q has no password: it holds the webhook's address or the bot's token", conn.ID))
	case strings.HasPrefix(secret, "xox"):
		return n.asBot(ctx, d, conn, body, timeout)
	default:
		return n.byHook(ctx, d, conn, body, timeout)
	}
}

func connection(ctx context.Context, d callbacks.Delivery) (dag.Connection, error) {
	id := defaultConnection
	for _, key := range []string{"slack_conn_id", "slack_webhook_conn_id", "conn_id"} {
		given, err := d.Args.Text(key)
		if err != nil {
			return dag.Connection{}, err
		}
		id = cmp.Or(given, id)
	}
	return d.Connection(ctx, id)
}

// message is the JSON that both ways take.
func message(d callbacks.Delivery) (map[string]any, error) {
	text, err := d.Args.Text("text")
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(text) == "" {
		text = escape(callbacks.Headline(d.Context))
	}
	channel, err := d.Args.Text("channel")
	if err != nil {
		return nil, err
	}
	body := map[string]any{"text": dag.CutText(text, maxText)}
	if channel != "" {
		body["channel"] = channel
	}
	switch blocks := d.Args["blocks"].(type) {
	case nil:
	case []any:
		body["blocks"] = blocks
	default:
		return nil, callbacks.Permanent(fmt.Errorf("blocks is a %T, a list is needed", blocks))
	}
	return body, nil
}

// escape writes the characters that Slack takes for marks of its own: an error's
// text must call nobody.
func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

func (n *Notifier) byHook(ctx context.Context, d callbacks.Delivery, conn dag.Connection, body map[string]any, timeout time.Duration) error {
	address := conn.Password
	if !strings.Contains(address, "://") {
		base, err := post.Base(conn, hookAddress)
		if err != nil {
			return err
		}
		address = base + "/" + strings.TrimLeft(address, "/")
	}
	u, err := post.URL(address, "the webhook's address")
	if err != nil {
		return err
	}
	_, err = n.send(ctx, d, u, "", body, timeout)
	return err
}

// asBot calls chat.postMessage, which answers 200 also when it refuses.
func (n *Notifier) asBot(ctx context.Context, d callbacks.Delivery, conn dag.Connection, body map[string]any, timeout time.Duration) error {
	if body["channel"] == nil {
		channel, _ := conn.Extra["channel"].(string)
		if channel == "" {
			return callbacks.Permanent(errors.New("channel is missing: a bot must be told where to write"))
		}
		body["channel"] = channel
	}
	base, err := post.Base(conn, apiAddress)
	if err != nil {
		return err
	}
	u, err := post.URL(base+"/chat.postMessage", "the connection's host")
	if err != nil {
		return err
	}
	answer, err := n.send(ctx, d, u, conn.Password, body, timeout)
	if err != nil {
		return err
	}
	var said struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
	}
	// The beginning of the answer is enough; one that is cut or late was taken.
	if err := json.Unmarshal(answer.Body, &said); err != nil || said.OK {
		return nil //nolint:nilerr // see above
	}
	f := &callbacks.Failure{Err: fmt.Errorf("slack answered %q", dag.CutText(said.Error, 80))}
	switch said.Error {
	case "ratelimited", "rate_limited":
		f.Down, f.Throttled = true, true
		f.RetryAfter = post.RetryAfter(answer.Header.Get("Retry-After"), d.Clock.Now())
	case "internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org":
	default:
		f.Permanent = true
	}
	return f
}

func (n *Notifier) send(
	ctx context.Context, d callbacks.Delivery, u *url.URL, token string, body map[string]any, timeout time.Duration,
) (post.Answer, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return post.Answer{}, callbacks.Permanent(fmt.Errorf("the message cannot be written as JSON: %w", err))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(raw))
	if err != nil {
		return post.Answer{}, callbacks.Permanent(errors.New("the address cannot be requested"))
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("User-Agent", "airlock")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return n.client.Send(req, timeout, d.Clock)
}
