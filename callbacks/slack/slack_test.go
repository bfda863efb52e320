package slack_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/callbacks/notifytest"
	"github.com/airlock-dag/airlock/callbacks/slack"
	"github.com/airlock-dag/airlock/dag"
)

func TestServersThatMisbehave(t *testing.T) {
	t.Parallel()
	n := slack.New()
	for name, password := range map[string]string{"hook": "T0/B0/" + notifytest.Secret, "bot": "xoxb-" + notifytest.Secret} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			notifytest.Misbehaviours(t, func(t *testing.T, address, timeout string) error {
				return n.Notify(t.Context(), notifytest.Delivery(t, notifytest.Failed(), callbacks.Args{"timeout": timeout, "channel": "#ops"},
					dag.Connection{Host: address, Password: password}))
			})
		})
	}
}

// asked is what a server was asked.
type asked struct {
	path, authorization string
	body                map[string]any
}

func server(t *testing.T, answer string, header ...string) (*httptest.Server, *asked) {
	t.Helper()
	got := &asked{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.path, got.authorization = r.URL.Path, r.Header.Get("Authorization")
		_ = json.NewDecoder(r.Body).Decode(&got.body)
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(s.Close)
	return s, got
}

func TestAWebhookGetsTheMessage(t *testing.T) {
	t.Parallel()
	s, got := server(t, "ok")
	n := slack.New()
	require.NoError(t, n.Notify(t.Context(), notifytest.Delivery(t, notifytest.Failed(), callbacks.Args{}, dag.Connection{Host: s.URL + "/services", Password: "T0/B0/xyz"})))
	require.Equal(t, "/services/T0/B0/xyz", got.path)
	require.Empty(t, got.authorization)
	require.Equal(t, "media.transcode[3] in r1: failed: EXIT_CODE: it's &lt;broken&gt; &amp; over", got.body["text"], "an error's text calls nobody")

	require.NoError(t, n.Notify(t.Context(), notifytest.Delivery(t, notifytest.Circuit(dag.EventCircuitOpen),
		callbacks.Args{"text": "<!channel> " + strings.Repeat("x", 5000)}, dag.Connection{Password: s.URL + "/whole/address"})))
	require.Equal(t, "/whole/address", got.path)
	require.True(t, strings.HasPrefix(got.body["text"].(string), "<!channel> xx"), "what the file says may call")
	require.LessOrEqual(t, len(got.body["text"].(string)), 3000)
}

func TestABotWritesToAChannel(t *testing.T) {
	t.Parallel()
	s, got := server(t, `{"ok": true}`)
	n := slack.New()
	conn := dag.Connection{Host: s.URL + "/api", Password: "xoxb-1", Extra: map[string]any{"channel": "#usual"}}
	require.NoError(t, n.Notify(t.Context(), notifytest.Delivery(t, notifytest.Failed(), callbacks.Args{"text": "hello"}, conn)))
	require.Equal(t, "/api/chat.postMessage", got.path)
	require.Equal(t, "Bearer xoxb-1", got.authorization)
	require.Equal(t, "#usual", got.body["channel"])
	conn.Extra = nil
	err := n.Notify(t.Context(), notifytest.Delivery(t, notifytest.Failed(), callbacks.Args{"text": "hello"}, conn))
	require.True(t, notifytest.AsFailure(t, err).Permanent)
}

func TestARefusalInAGoodAnswer(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]callbacks.Failure{
		`{"ok": false, "error": "channel_not_found"}`: {Permanent: true},
		`{"ok": false, "error": "ratelimited"}`:       {Down: true, Throttled: true, RetryAfter: 7 * time.Second},
		`{"ok": false, "error": "internal_error"}`:    {},
	} {
		s, _ := server(t, answer, "Retry-After", "7")
		err := slack.New().Notify(t.Context(), notifytest.Delivery(t, notifytest.Failed(), callbacks.Args{"channel": "#x"},
			dag.Connection{Host: s.URL, Password: "xoxb-" + notifytest.Secret}))
		f := notifytest.AsFailure(t, err)
		f.Err = nil
		require.Equal(t, &want, f, answer)
	}
}

func TestWrongArgumentsAreFinal(t *testing.T) {
	t.Parallel()
	for _, args := range []callbacks.Args{{"txt": "x"}, {"text": 7}, {"blocks": "x"}, {"timeout": "never"}} {
		err := slack.New().Notify(t.Context(), notifytest.Delivery(t, notifytest.Failed(), args, dag.Connection{Password: "T0/B0/x"}))
		require.True(t, notifytest.AsFailure(t, err).Permanent, "%v", args)
	}
	err := slack.New().Notify(t.Context(), notifytest.Delivery(t, notifytest.Failed(), nil, dag.Connection{}))
	require.ErrorContains(t, err, "has no password")
}
