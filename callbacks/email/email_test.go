package email_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/callbacks/email"
	"github.com/airlock-dag/airlock/callbacks/notifytest"
	"github.com/airlock-dag/airlock/dag"
)

func (s *smtpServer) connection() dag.Connection {
	return dag.Connection{
		Host: "127.0.0.1", Port: s.port(), Login: "me", Password: notifytest.Secret,
		Extra: map[string]any{"from_email": "airlock@example.org", "disable_tls": true},
	}
}

func send(t *testing.T, s *smtpServer, args callbacks.Args) error {
	t.Helper()
	return email.New().Notify(t.Context(), notifytest.Delivery(t, notifytest.Failed(), args, s.connection()))
}

func TestAMessageIsTaken(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	require.NoError(t, send(t, s, callbacks.Args{"to": []any{"a@example.org", "b@example.org, c@example.org"}, "bcc": "d@example.org"}))
	require.Len(t, s.got(), 1)
	m := s.got()[0]
	require.Contains(t, m, "Subject: Airlock: media.transcode[3] in r1: failed: EXIT_CODE:")
	require.Contains(t, m, "Message-ID: <key1@airlock>")
	require.Contains(t, m, "From: <airlock@example.org>")
	require.Contains(t, m, "Date: Sun, 01 Mar 2026 12:00:00 +0000")
	require.NotContains(t, m, "d@example.org", "a blind copy stays blind")
	require.NotContains(t, m, notifytest.Secret)
	require.Len(t, s.rcpts, 4)
}

func TestAnErrorsTextCannotWriteHeaders(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	require.NoError(t, send(t, s, callbacks.Args{"to": "a@example.org", "subject": "broken\r\nBcc: x@example.org\r\n\r\nhello", "html_content": "<b>x</b>", "text": "x"}))
	m := s.got()[0]
	head, _, _ := strings.Cut(m, "\r\n\r\n")
	require.NotContains(t, head, "\r\nBcc:")
	require.Len(t, s.rcpts, 1)
	require.Contains(t, m, "text/html")
	require.Contains(t, m, "text/plain")
}

// What a server may do, and what becomes of the event.
func TestServersThatMisbehave(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		answers map[string]string
		want    callbacks.Failure
	}{
		{"the login is refused", map[string]string{"AUTH": "535 no"}, callbacks.Failure{Permanent: true}},
		{"the recipient is unknown", map[string]string{"RCPT": "550 nobody here"}, callbacks.Failure{Permanent: true}},
		{"the mailbox is busy", map[string]string{"RCPT": "450 later"}, callbacks.Failure{}},
		{"greylisted", map[string]string{"MAIL": "451 try again"}, callbacks.Failure{}},
		{"no room", map[string]string{".": "452 full"}, callbacks.Failure{}},
		{"too large", map[string]string{".": "552 too much"}, callbacks.Failure{Permanent: true}},
		{"going down", map[string]string{"GREETING": "421 closing"}, callbacks.Failure{Down: true}},
		{"it hangs up at once", map[string]string{"GREETING": ""}, callbacks.Failure{Down: true}},
		{"it hangs up in the middle", map[string]string{"MAIL": ""}, callbacks.Failure{Down: true}},
		{"it hangs up after the data", map[string]string{".": ""}, callbacks.Failure{Down: true}},
		{"it says nothing", map[string]string{"GREETING": "-"}, callbacks.Failure{Down: true}},
		{"it falls silent", map[string]string{"DATA": "-"}, callbacks.Failure{Down: true}},
		{"no SMTP", map[string]string{"GREETING": "HTTP/1.1 400 Bad Request"}, callbacks.Failure{Down: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			timeout := "10s"
			if strings.Contains(c.name, "silent") || strings.Contains(c.name, "nothing") {
				timeout = "200ms"
			}
			f := notifytest.AsFailure(t, send(t, newServer(t, c.answers), callbacks.Args{"to": "a@example.org", "timeout": timeout}))
			f.Err = nil
			require.Equal(t, &c.want, f)
		})
	}
}

func TestARecipientThatIsGoneKeepsNobodyElseFromTheMessage(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string]string{"gone@example.org": "550 nobody here"})
	require.NoError(t, send(t, s, callbacks.Args{"to": "gone@example.org, a@example.org", "cc": "b@example.org"}))
	require.Len(t, s.got(), 1)
	s.mu.Lock()
	require.Equal(t, []string{"TO:<a@example.org>", "TO:<b@example.org>"}, s.rcpts[len(s.rcpts)-2:])
	s.mu.Unlock()

	// One that is refused for now is tried again, with the others, wherever it stands.
	for _, to := range []string{"busy@example.org, gone@example.org, a@example.org", "gone@example.org, busy@example.org"} {
		s = newServer(t, map[string]string{"gone@example.org": "550 nobody here", "busy@example.org": "450 later"})
		require.False(t, notifytest.AsFailure(t, send(t, s, callbacks.Args{"to": to})).Permanent, to)
		require.Empty(t, s.got())
	}
}

func TestWhatHappensAfterTheServerTookItDoesNotMatter(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string]string{"QUIT": ""})
	require.NoError(t, send(t, s, callbacks.Args{"to": "a@example.org"}))
	require.Len(t, s.got(), 1)
}

func TestEncryptionIsNotGivenUpSilently(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil) // it offers no STARTTLS
	conn := s.connection()
	delete(conn.Extra, "disable_tls")
	err := email.New().Notify(t.Context(), notifytest.Delivery(t, notifytest.Failed(), callbacks.Args{"to": "a@example.org"}, conn))
	notifytest.AsFailure(t, err)
	require.Contains(t, err.Error(), "STARTTLS")
	require.Empty(t, s.got())
}

func TestWrongArgumentsAreFinal(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	for _, args := range []callbacks.Args{
		{}, {"to": ""}, {"to": 7}, {"to": "no address"}, {"to": "a@example.org", "from_email": "nobody"}, {"to": "a@example.org", "subjekt": "x"},
	} {
		require.True(t, notifytest.AsFailure(t, send(t, s, args)).Permanent, "%v", args)
	}
	require.Empty(t, s.got())
}
