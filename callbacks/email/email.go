package email

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"strings"
	"time"

	"github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/dag"
)

// limit is the longest that one message may take, from the dial to the server's
// last answer.
const limit = 30 * time.Second

// defaultConnection is used where the receiver names none, as in Airflow.
const defaultConnection = "smtp_default"

// maxSubject is the longest subject, in bytes.
const maxSubject = 250

// Notifier sends e-mails. Make it with New.
type Notifier struct{}

// New makes the notifier.
func New() *Notifier { return &Notifier{} }

// Name implements callbacks.Notifier.
func (*Notifier) Name() string { return "email" }

// Spec describes the arguments.
func Spec() dag.OperatorSpec {
	return dag.OperatorSpec{
		Name: "email",
		Fields: []dag.Field{
			{Name: "to", Type: dag.FieldStringList},
			{Name: "cc", Type: dag.FieldStringList},
			{Name: "bcc", Type: dag.FieldStringList},
			{Name: "subject", Type: dag.FieldString},
			{Name: "text", Type: dag.FieldString},
			{Name: "html_content", Type: dag.FieldString},
			{Name: "from_email", Type: dag.FieldString},
			{Name: "conn_id", Type: dag.FieldString},
			{Name: "smtp_conn_id", Type: dag.FieldString},
			{Name: "timeout", Type: dag.FieldDuration},
		},
		// Keys of Airflow's notifier that do nothing here.
		Ignored: []string{"files", "mime_subtype", "mime_charset", "custom_headers", "auth_type", "template"},
		Validate: func(args map[string]any) []dag.Problem {
			for _, key := range []string{"to", "cc", "bcc"} {
				if args[key] != nil {
					return nil
				}
			}
			return []dag.Problem{{Severity: dag.SeverityError, Code: "missing-key", Message: "to is missing: give one address or a list", Path: "to"}}
		},
	}
}

// Notify implements callbacks.Notifier: one message, delivered when the server
// has taken it. Its Message-ID is made from the event's key, so that a message
// that comes twice can be told.
func (n *Notifier) Notify(ctx context.Context, d callbacks.Delivery) error {
	if err := d.Args.Check(Spec()); err != nil {
		return err
	}
	timeout, err := d.Args.Duration("timeout", limit)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	id, err := connectionID(d.Args)
	if err != nil {
		return err
	}
	conn, err := d.Connection(ctx, id)
	if err != nil {
		return err
	}
	msg, err := message(d, conn)
	if err != nil {
		return err
	}
	return send(ctx, conn, msg, timeout, d.Warn)
}

func connectionID(a callbacks.Args) (string, error) {
	own, err := a.Text("conn_id")
	if err != nil {
		return "", err
	}
	theirs, err := a.Text("smtp_conn_id")
	return cmp.Or(own, theirs, defaultConnection), err
}

// message composes the e-mail.
func message(d callbacks.Delivery, conn dag.Connection) (*mail.Msg, error) {
	from, err := d.Args.Text("from_email")
	if err != nil {
		return nil, err
	}
	if from == "" {
		from, _ = conn.Extra["from_email"].(string)
	}
	if from == "" && strings.Contains(conn.Login, "@") {
		from = conn.Login
	}
	if from == "" {
		return nil, callbacks.Permanent(fmt.Errorf("there is no sender: give from_email, or put it into the extra of the connection %q", conn.ID))
	}
	m := mail.NewMsg()
	if err := m.From(from); err != nil {
		return nil, callbacks.Permanent(fmt.Errorf("from_email: %w", err))
	}
	some := false
	for _, f := range []struct {
		key string
		set func(...string) error
	}{{"to", m.To}, {"cc", m.Cc}, {"bcc", m.Bcc}} {
		list, err := d.Args.List(f.key)
		if err != nil {
			return nil, err
		}
		if len(list) == 0 {
			continue
		}
		some = true
		if err := f.set(list...); err != nil {
			return nil, callbacks.Permanent(fmt.Errorf("%s: %w", f.key, err))
		}
	}
	if !some {
		return nil, callbacks.Permanent(errors.New("to is missing: give one address or a list"))
	}
	subject, err := d.Args.Text("subject")
	if err != nil {
		return nil, err
	}
	subject = cmp.Or(strings.TrimSpace(subject), "Airlock: "+callbacks.Headline(d.Context))
	m.Subject(dag.CutText(strings.Join(strings.Fields(subject), " "), maxSubject)) // a line break would end the header
	m.SetMessageIDWithValue(d.Context.DedupKey + "@airlock")
	m.SetDateWithValue(d.Context.At)
	m.SetGenHeader("X-Airlock-Dedup-Key", d.Context.DedupKey)
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	return m, setBody(m, d)
}

func setBody(m *mail.Msg, d callbacks.Delivery) error {
	text, err := d.Args.Text("text")
	if err != nil {
		return err
	}
	html, err := d.Args.Text("html_content")
	if err != nil {
		return err
	}
	switch {
	case html != "":
		m.SetBodyString(mail.TypeTextHTML, html)
		if text != "" {
			m.AddAlternativeString(mail.TypeTextPlain, text)
		}
	case text != "":
		m.SetBodyString(mail.TypeTextPlain, text)
	default:
		m.SetBodyString(mail.TypeTextPlain, plain(d))
	}
	return nil
}

// plain is the text where the receiver gives none: the headline, and the event.
func plain(d callbacks.Delivery) string {
	var body bytes.Buffer
	if json.Indent(&body, d.Body, "", "  ") != nil {
		body.Reset()
		_, _ = body.Write(d.Body)
	}
	return callbacks.Headline(d.Context) + "\n\n" + body.String() + "\n"
}

// send hands the message over. Once the server has taken it, nothing that
// happens on the way out makes it undelivered.
func send(ctx context.Context, conn dag.Connection, m *mail.Msg, timeout time.Duration, warn func(string, ...any)) error {
	if conn.Host == "" {
		return callbacks.Permanent(fmt.Errorf("the connection %q has no host", conn.ID))
	}
	options := []mail.Option{
		mail.WithTimeout(timeout), mail.WithoutNoop(), mail.WithoutRset(), mail.WithHELO("airlock.localdomain"),
	}
	port := conn.Port
	if port == 0 {
		port = 587
	}
	login := mail.SMTPAuthAutoDiscover
	switch {
	case port == 465 && !truth(conn.Extra["disable_ssl"]), truth(conn.Extra["ssl"]):
		options = append(options, mail.WithSSL())
	case truth(conn.Extra["disable_tls"]):
		// Who says so sends the password in the clear, too.
		options, login = append(options, mail.WithTLSPolicy(mail.NoTLS)), mail.SMTPAuthPlainNoEnc
	default:
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	}
	options = append(options, mail.WithPort(port))
	if conn.Login != "" {
		options = append(options, mail.WithSMTPAuth(login), mail.WithUsername(conn.Login), mail.WithPassword(conn.Password))
	}
	client, err := mail.NewClient(conn.Host, options...)
	if err != nil {
		return callbacks.Permanent(fmt.Errorf("the connection %q: %w", conn.ID, err))
	}
	place := net.JoinHostPort(conn.Host, fmt.Sprint(port))
	open, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return verdict(ctx, "connect to "+place, err, timeout)
	}
	// A server that stops answering ends when the time is over, not later.
	stop := context.AfterFunc(ctx, func() { _ = open.Close() })
	defer stop()
	err = client.SendWithSMTPClient(open, m)
	if refused := (*mail.SendError)(nil); errors.As(err, &refused) && refused.Reason == mail.ErrSMTPRcptTo {
		err = sendToOthers(open, m, warn)
	}
	if err == nil {
		_ = client.CloseWithSMTPClient(open)
		return nil
	}
	_ = open.Close()
	return verdict(ctx, "send through "+place, err, timeout)
}

// sendToOthers hands a message over again of which the server has refused a
// recipient: an address that is gone for good keeps the message from nobody else.
// One that is refused for now keeps it from all, until the next try.
func sendToOthers(c *smtp.Client, m *mail.Msg, warn func(string, ...any)) error {
	from, err := m.GetSender(false)
	if err != nil {
		return err
	}
	recipients, err := m.GetRecipients()
	if err != nil {
		return err
	}
	if err := c.Mail(from); err != nil {
		return err
	}
	var gone []string
	for _, r := range recipients {
		answer := c.Rcpt(r)
		if answer == nil {
			continue
		}
		err = answer
		var proto *textproto.Error
		if !errors.As(answer, &proto) || proto.Code < 500 {
			return answer
		}
		gone = append(gone, r)
	}
	if len(gone) == len(recipients) {
		return err
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := m.WriteTo(w); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	warn("the e-mail was taken, but not for every recipient", "refused", strings.Join(gone, ", "))
	return nil
}

func truth(v any) bool {
	switch v := v.(type) {
	case bool:
		return v
	case string:
		return strings.EqualFold(v, "true") || v == "1"
	default:
		return false
	}
}

// verdict turns a failure into the end of the delivery: 5xx is final, 4xx is
// repeated, and no connection or 421 means that the server is away.
func verdict(ctx context.Context, what string, err error, timeout time.Duration) error {
	code := 0
	var proto *textproto.Error
	var sent *mail.SendError
	switch {
	case errors.As(err, &sent) && sent.ErrorCode() != 0:
		code = sent.ErrorCode()
	case errors.As(err, &proto):
		code = proto.Code
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("no answer within %s", timeout)
		code = 0
	}
	f := &callbacks.Failure{Err: fmt.Errorf("%s: %w", what, err)}
	switch {
	case code >= 500 && code < 600:
		f.Permanent = true
	case code == 421 || code == 0:
		f.Down = true
	}
	return f
}
