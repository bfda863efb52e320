package pagerduty

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/callbacks/post"
	"github.com/airlock-dag/airlock/dag"
)

// address is PagerDuty's, where the connection gives no other.
const address = "https://events.pagerduty.com"

// defaultConnection is used where the receiver names none.
const defaultConnection = "pagerduty_default"

// Limits of the Events API.
const (
	maxSummary = 1024
	maxKey     = 255
	maxBody    = 512_000 // bytes; beyond it the details are left out
)

// Notifier sends events. Make it with New.
type Notifier struct {
	client *post.Client
}

// New makes the notifier.
func New() *Notifier { return &Notifier{client: post.NewClient()} }

// Name implements callbacks.Notifier.
func (*Notifier) Name() string { return "pagerduty" }

// event is the body of a request.
type event struct {
	RoutingKey string   `json:"routing_key"`
	Action     string   `json:"event_action"`
	DedupKey   string   `json:"dedup_key"`
	Payload    *payload `json:"payload,omitempty"`
	Client     string   `json:"client,omitempty"`
}

type payload struct {
	Summary   string          `json:"summary"`
	Source    string          `json:"source"`
	Severity  string          `json:"severity"`
	Timestamp string          `json:"timestamp,omitempty"`
	Component string          `json:"component,omitempty"`
	Group     string          `json:"group,omitempty"`
	Class     string          `json:"class,omitempty"`
	Details   json.RawMessage `json:"custom_details,omitempty"`
}

// Spec describes the arguments.
func Spec() dag.OperatorSpec {
	return dag.OperatorSpec{
		Name: "pagerduty",
		Fields: []dag.Field{
			{Name: "conn_id", Type: dag.FieldString},
			{Name: "pagerduty_events_conn_id", Type: dag.FieldString},
			{Name: "action", Type: dag.FieldString, Enum: []string{"trigger", "acknowledge", "resolve"}},
			{Name: "severity", Type: dag.FieldString, Enum: []string{"critical", "error", "warning", "info"}},
			{Name: "summary", Type: dag.FieldString},
			{Name: "source", Type: dag.FieldString},
			{Name: "dedup_key", Type: dag.FieldString},
			{Name: "component", Type: dag.FieldString},
			{Name: "group", Type: dag.FieldString},
			{Name: "class", Type: dag.FieldString},
			{Name: "custom_details", Type: dag.FieldAny},
			{Name: "timeout", Type: dag.FieldDuration},
		},
		// Keys of Airflow's notifier that do nothing here.
		Ignored: []string{"integration_key", "class_type", "images", "links"},
	}
}

// Notify implements callbacks.Notifier. The connection's password is the
// integration (routing) key.
func (n *Notifier) Notify(ctx context.Context, d callbacks.Delivery) error {
	if err := d.Args.Check(Spec()); err != nil {
		return err
	}
	timeout, err := d.Args.Duration("timeout", post.Limit)
	if err != nil {
		return err
	}
	args, err := texts(d.Args)
	if err != nil {
		return err
	}
	conn, err := d.Connection(ctx, cmp.Or(args["conn_id"], args["pagerduty_events_conn_id"], defaultConnection))
	if err != nil {
		return err
	}
	if conn.Password == "" {
		return callbacks.Permanent(fmt.Errorf("the connection %q has no password: it holds the integration key", conn.ID))
	}
	e, err := compose(d, args)
	if err != nil {
		return err
	}
	e.RoutingKey = conn.Password
	return n.send(ctx, d, conn, e, timeout)
}

// texts are the arguments that are texts.
func texts(a callbacks.Args) (map[string]string, error) {
	out := map[string]string{}
	for _, key := range []string{
		"conn_id", "pagerduty_events_conn_id", "action", "severity", "summary", "source", "dedup_key", "component", "group", "class",
	} {
		v, err := a.Text(key)
		if err != nil {
			return nil, err
		}
		out[key] = v
	}
	return out, nil
}

// compose makes the event without its routing key.
func compose(d callbacks.Delivery, args map[string]string) (event, error) {
	c := d.Context
	action := args["action"]
	switch action {
	case "trigger", "acknowledge", "resolve":
	case "":
		action = "trigger"
		if callbacks.Good(c.Event) {
			action = "resolve"
		}
	default:
		return event{}, callbacks.Permanent(fmt.Errorf("action is %q; there are: trigger, acknowledge, resolve", action))
	}
	key := cmp.Or(args["dedup_key"], c.AlertKey)
	if key == "" {
		if action != "trigger" {
			// Which of the incidents is meant only the file can say.
			return event{}, callbacks.Permanent(fmt.Errorf("dedup_key is missing: an event of kind %s does not tell which incident is over; "+
				"give the callbacks that trigger and resolve the same dedup_key", c.Event))
		}
		key = "airlock/" + c.DagID + "/" + c.TaskID
	}
	e := event{Action: action, DedupKey: shortKey(key), Client: "Airlock"}
	if action != "trigger" {
		return e, nil
	}
	severity, err := severityOf(args["severity"], c.Event)
	if err != nil {
		return event{}, err
	}
	e.Payload = &payload{
		Summary:  dag.CutText(cmp.Or(strings.TrimSpace(args["summary"]), callbacks.Headline(c)), maxSummary),
		Source:   cmp.Or(args["source"], c.DagID, "airlock"),
		Severity: severity, Timestamp: c.At.UTC().Format(time.RFC3339Nano),
		Component: cmp.Or(args["component"], c.TaskID, c.Circuit), Group: cmp.Or(args["group"], c.DagID),
		Class: cmp.Or(args["class"], c.ErrorCode), Details: d.Body,
	}
	if own := d.Args["custom_details"]; own != nil {
		raw, err := json.Marshal(own)
		if err != nil {
			return event{}, callbacks.Permanent(fmt.Errorf("custom_details cannot be written as JSON: %w", err))
		}
		e.Payload.Details = raw
	}
	return e, nil
}

func severityOf(given string, kind dag.EventKind) (string, error) {
	switch given {
	case "critical", "error", "warning", "info":
		return given, nil
	case "":
	default:
		return "", callbacks.Permanent(fmt.Errorf("severity is %q; there are: critical, error, warning, info", given))
	}
	switch kind {
	case dag.EventCircuitOpen:
		return "critical", nil
	case dag.EventFailure:
		return "error", nil
	case dag.EventRetry:
		return "warning", nil
	default:
		return "info", nil
	}
}

// shortKey keeps a key within the API's limit, the same for the same key.
func shortKey(key string) string {
	if len(key) <= maxKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (n *Notifier) send(ctx context.Context, d callbacks.Delivery, conn dag.Connection, e event, timeout time.Duration) error {
	raw, err := json.Marshal(e)
	if err == nil && len(raw) > maxBody && e.Payload != nil {
		e.Payload.Details = nil
		raw, err = json.Marshal(e)
	}
	if err != nil {
		return callbacks.Permanent(errors.New("the event cannot be written as JSON"))
	}
	base, err := post.Base(conn, address)
	if err != nil {
		return err
	}
	u, err := post.URL(base+"/v2/enqueue", "the connection's host")
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(raw))
	if err != nil {
		return callbacks.Permanent(errors.New("the address cannot be requested"))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "airlock")
	_, err = n.client.Send(req, timeout, d.Clock)
	return err
}
