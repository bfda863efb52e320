package notifytest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
)

// Noon is the clock of every delivery.
var Noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Secret is the password of every connection: no failure may show it.
const Secret = "hunter2-s3cret"

// Failed is a task's failure.
func Failed() dag.EventContext {
	return dag.EventContext{
		Event: dag.EventFailure, DedupKey: "key1", DagID: "media", RunID: "r1", TaskID: "transcode", MapIndex: 3, TryNumber: 4, MaxTries: 3,
		State: "failed", Exception: "EXIT_CODE: it's <broken> & over", ErrorClass: dag.ClassExhausted, ErrorCode: "EXIT_CODE",
		ErrorMessage: "it's <broken> & over", AlertKey: "f1ngerpr1nt", At: Noon,
	}
}

// Circuit is the opening or closing of a breaker.
func Circuit(kind dag.EventKind) dag.EventContext {
	state := "open"
	if kind == dag.EventCircuitClose {
		state = "closed"
	}
	return dag.EventContext{
		Event: kind, DedupKey: "key-" + state, MapIndex: -1, State: state, Reason: "12 of 20 calls failed within 1m0s", Circuit: "packager",
		Opening: 2, AlertKey: dag.CircuitAlertKey("packager"), At: Noon,
	}
}

// Delivery is one event on its way, with one connection for every id.
func Delivery(tb testing.TB, c dag.EventContext, args callbacks.Args, conn dag.Connection) callbacks.Delivery {
	tb.Helper()
	body, err := json.Marshal(c)
	require.NoError(tb, err)
	return callbacks.Delivery{
		Event: dag.Event{DedupKey: c.DedupKey, Kind: c.Event, Context: body}, Context: c, Body: body, Args: args, Clock: dagtest.NewClock(Noon),
		Warn: func(message string, attrs ...any) { tb.Log(append([]any{message}, attrs...)...) },
		Connection: func(_ context.Context, id string) (dag.Connection, error) {
			conn.ID = id
			return conn, nil
		},
	}
}

// AsFailure is a failure as the dispatcher reads it.
func AsFailure(tb testing.TB, err error) *callbacks.Failure {
	tb.Helper()
	var f *callbacks.Failure
	require.ErrorAs(tb, err, &f)
	require.NotContains(tb, err.Error(), Secret)
	return f
}

// Misbehaviours sends a delivery to servers that misbehave and looks at how it
// ends. send makes one delivery to the server at an address, with a time limit.
func Misbehaviours(t *testing.T, send func(t *testing.T, address, timeout string) error) {
	t.Helper()
	answers := func(status int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(Secret))
		}
	}
	hang := func(_ http.ResponseWriter, r *http.Request) { untilGone(r) }
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		want    callbacks.Failure
	}{
		{"429 with seconds", answers(429, "Retry-After", "90"), callbacks.Failure{Down: true, Throttled: true, RetryAfter: 90 * time.Second}},
		{"429 with a date", answers(429, "Retry-After", Noon.Add(time.Minute).Format(http.TimeFormat)),
			callbacks.Failure{Down: true, Throttled: true, RetryAfter: time.Minute}},
		{"429 with nonsense", answers(429, "Retry-After", "soon"), callbacks.Failure{Down: true, Throttled: true}},
		{"500", answers(500), callbacks.Failure{}},
		{"503 with seconds", answers(503, "Retry-After", "5"), callbacks.Failure{Down: true, RetryAfter: 5 * time.Second}},
		{"400", answers(400), callbacks.Failure{Permanent: true}},
		{"401", answers(401), callbacks.Failure{Permanent: true}},
		{"404", answers(404), callbacks.Failure{Permanent: true}},
		{"a redirect elsewhere", answers(302, "Location", "http://127.0.0.1:1/"), callbacks.Failure{Permanent: true}},
		{"no answer", hang, callbacks.Failure{Down: true}},
		{"a closed connection", func(w http.ResponseWriter, _ *http.Request) { reset(w) }, callbacks.Failure{Down: true}},
		{"half of a head", func(w http.ResponseWriter, _ *http.Request) { reset(w, "HTTP/1.1 200 OK\r\nContent-Le") }, callbacks.Failure{Down: true}},
		{"no HTTP", func(w http.ResponseWriter, _ *http.Request) { reset(w, "220 smtp.example ready\r\n") }, callbacks.Failure{Down: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(c.handler)
			t.Cleanup(s.Close)
			timeout := "1m"
			if c.name == "no answer" {
				timeout = "50ms"
			}
			f := AsFailure(t, send(t, s.URL, timeout))
			f.Err = nil
			require.Equal(t, &c.want, f)
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		require.True(t, AsFailure(t, send(t, "http://"+dagtest.NobodyListens(t), "1m")).Down)
	})
	t.Run("a body that does not end", func(t *testing.T) {
		t.Parallel()
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte(strings.Repeat(" ", 100)))
			_ = http.NewResponseController(w).Flush()
			untilGone(r)
		}))
		t.Cleanup(s.Close)
		err := send(t, s.URL, "100ms")
		if err != nil { // a busy machine may take longer for the head itself
			err = send(t, s.URL, "10s")
		}
		require.NoError(t, err, "the head has decided")
	})
}

// untilGone waits until the client is gone; a server notices that only once the
// request is read.
func untilGone(r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// reset writes raw bytes and closes the connection.
func reset(w http.ResponseWriter, raw ...string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(fmt.Sprint("no connection to close: ", err))
	}
	_, _ = conn.Write([]byte(strings.Join(raw, "")))
	_ = conn.Close()
}
