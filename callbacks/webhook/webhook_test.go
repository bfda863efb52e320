package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/callbacks/webhook"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const body = `{"event":"on_failure_callback","dag_id":"d","exception":"<boom> & more"}`

func delivery(args map[string]any) callbacks.Delivery {
	return callbacks.Delivery{
		Event: dag.Event{ID: 1, DedupKey: "key-1"}, Body: json.RawMessage(body), Args: args, Clock: dagtest.NewClock(noon),
		Connection: func(_ context.Context, id string) (dag.Connection, error) {
			switch id {
			case "hook":
				return dag.Connection{ID: id, Password: "hunter2"}, nil
			case "extra":
				return dag.Connection{ID: id, Extra: map[string]any{"secret": "hunter2"}}, nil
			case "empty":
				return dag.Connection{ID: id}, nil
			default:
				return dag.Connection{}, callbacks.Permanent(errors.New("the connection does not exist"))
			}
		},
	}
}

// notify makes one delivery and reads the verdict.
func notify(t *testing.T, args map[string]any) *callbacks.Failure {
	t.Helper()
	err := webhook.New().Notify(t.Context(), delivery(args))
	if err == nil {
		return nil
	}
	require.NotContains(t, err.Error(), "hunter2")
	var f *callbacks.Failure
	require.ErrorAs(t, err, &f)
	require.NotEmpty(t, f.Error())
	return f
}

// server answers as a test says and keeps the requests.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
}

func serve(t *testing.T, answer http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.requests, s.bodies = append(s.requests, r), append(s.bodies, string(raw))
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func TestPost(t *testing.T) {
	t.Parallel()
	for _, conn := range []string{"hook", "extra"} {
		s := serve(t, status(http.StatusAccepted))
		require.Nil(t, notify(t, map[string]any{
			"url": s.URL + "/failed?x=1", "secret_conn_id": conn, "headers": map[string]any{"X-Team": "media", "X-Count": 3.0},
		}))
		require.Len(t, s.requests, 1)
		r := s.requests[0]
		require.Equal(t, http.MethodPost, r.Method)
		require.Equal(t, "/failed?x=1", r.URL.String())
		require.Equal(t, body, s.bodies[0])
		require.Equal(t, "application/json", r.Header.Get("Content-Type"))
		require.Equal(t, "key-1", r.Header.Get("Idempotency-Key"))
		require.Equal(t, "media", r.Header.Get("X-Team"))
		require.Equal(t, "3", r.Header.Get("X-Count"))
		stamp := fmt.Sprint(noon.Unix())
		require.Equal(t, stamp, r.Header.Get("X-Airlock-Timestamp"))
		mac := hmac.New(sha256.New, []byte("hunter2"))
		mac.Write([]byte(stamp + "." + body))
		require.Equal(t, "sha256="+hex.EncodeToString(mac.Sum(nil)), r.Header.Get("X-Airlock-Signature"))
	}
}

func TestPostWithoutASecretIsNotSigned(t *testing.T) {
	t.Parallel()
	s := serve(t, status(http.StatusOK))
	require.Nil(t, notify(t, map[string]any{"url": s.URL, "headers": map[string]any{"X-Airlock-Signature": "sha256=forged"}}))
	require.Empty(t, s.requests[0].Header.Values("X-Airlock-Signature"))
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	cases := []struct {
		code            int
		permanent, down bool
	}{
		{200, false, false}, {201, false, false}, {204, false, false}, {299, false, false},
		{304, true, false}, {400, true, false}, {401, true, false}, {404, true, false}, {410, true, false}, {422, true, false},
		{408, false, false}, {425, false, false}, {429, false, true},
		{500, false, false}, {501, false, false}, {502, false, true}, {503, false, true}, {504, false, true}, {599, false, false},
	}
	for _, c := range cases {
		s := serve(t, status(c.code))
		f := notify(t, map[string]any{"url": s.URL + "/path?token=hunter2", "secret_conn_id": "hook"})
		require.Len(t, s.requests, 1, "one delivery is one request")
		if c.code < 300 {
			require.Nil(t, f, c.code)
			continue
		}
		require.NotNil(t, f, c.code)
		require.Equal(t, c.permanent, f.Permanent, c.code)
		require.Equal(t, c.down, f.Down, c.code)
		require.Contains(t, f.Error(), fmt.Sprint(c.code))
		require.Contains(t, f.Error(), s.URL, "says which host")
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"30": 30 * time.Second, " 5 ": 5 * time.Second, "0": 0, "": 0, "-1": 0, "soon": 0, "99999999999999999999": 0, "1.5": 0,
		noon.Add(2 * time.Minute).Format(http.TimeFormat): 2 * time.Minute,
		noon.Add(-time.Minute).Format(http.TimeFormat):    0,
	} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", value)
			w.WriteHeader(http.StatusTooManyRequests)
		})
		require.Equal(t, want, notify(t, map[string]any{"url": s.URL}).RetryAfter, value)
	}
}

func TestServerThatNeverAnswers(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	s := serve(t, func(http.ResponseWriter, *http.Request) { <-over })
	defer close(over)
	f := notify(t, map[string]any{"url": s.URL + "/hunter2", "timeout": 0.2})
	require.True(t, f.Down)
	require.False(t, f.Permanent)
	require.Contains(t, f.Error(), "no answer within 200ms")
}

func TestSlowBodyAfterAGoodAnswerIsADelivery(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-over
	})
	defer close(over)
	f := notify(t, map[string]any{"url": s.URL, "timeout": "300ms"})
	if f != nil { // a busy machine may take longer for the answer itself
		f = notify(t, map[string]any{"url": s.URL, "timeout": "10s"})
	}
	require.Nil(t, f)
}

func TestEndlessBodyIsNotRead(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write([]byte(strings.Repeat("x", 32<<10))); err != nil {
				return
			}
		}
	})
	require.Nil(t, notify(t, map[string]any{"url": s.URL}))
}

func TestServerThatHangsUp(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	})
	f := notify(t, map[string]any{"url": s.URL + "/hunter2"})
	require.True(t, f.Down)
	require.False(t, f.Permanent)
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	addr := dagtest.NobodyListens(t)
	f := notify(t, map[string]any{"url": "http://user:hunter2@" + addr + "/x?token=hunter2"})
	require.True(t, f.Down)
	require.Contains(t, f.Error(), "connection refused")
	require.Contains(t, f.Error(), addr)
}

func TestAnswerThatIsNotHTTP(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.2\r\n"))
			_ = c.Close()
		}
	}()
	f := notify(t, map[string]any{"url": "http://" + l.Addr().String()})
	require.False(t, f.Permanent)
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	other := serve(t, status(http.StatusOK))
	redirect := func(to func(*http.Request) string, code int) *server {
		return serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/end" {
				return
			}
			http.Redirect(w, r, to(r), code)
		})
	}
	toEnd := func(*http.Request) string { return "/end" }

	for _, code := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		s := redirect(toEnd, code)
		require.Nil(t, notify(t, map[string]any{"url": s.URL, "secret_conn_id": "hook"}))
		require.Len(t, s.requests, 2)
		require.Equal(t, http.MethodPost, s.requests[1].Method)
		require.Equal(t, body, s.bodies[1])
		require.NotEmpty(t, s.requests[1].Header.Get("X-Airlock-Signature"))
	}
	for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther} {
		s := redirect(toEnd, code)
		f := notify(t, map[string]any{"url": s.URL})
		require.True(t, f.Permanent, "the method would not be kept")
		require.Len(t, s.requests, 1)
	}
	f := notify(t, map[string]any{"url": redirect(func(*http.Request) string { return other.URL }, 307).URL, "secret_conn_id": "hook"})
	require.True(t, f.Permanent)
	require.Empty(t, other.requests, "another host gets nothing")

	loop := redirect(func(r *http.Request) string { return "/again" + r.URL.Path }, 308)
	require.True(t, notify(t, map[string]any{"url": loop.URL}).Permanent)
	require.Len(t, loop.requests, 4)
}

func TestArgumentsThatCannotWork(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]map[string]any{
		"no url":               {},
		"url is a number":      {"url": 5.0},
		"no host":              {"url": "http:///x"},
		"no scheme":            {"url": "127.0.0.1:9000/failed"},
		"another scheme":       {"url": "file:///etc/passwd"},
		"broken port":          {"url": "http://u:hunter2/x@host"},
		"unknown argument":     {"url": "http://127.0.0.1", "retries": 3.0},
		"timeout zero":         {"url": "http://127.0.0.1", "timeout": 0.0},
		"timeout not a time":   {"url": "http://127.0.0.1", "timeout": "soon"},
		"timeout not finite":   {"url": "http://127.0.0.1", "timeout": "NaN"},
		"timeout a list":       {"url": "http://127.0.0.1", "timeout": []any{}},
		"headers a text":       {"url": "http://127.0.0.1", "headers": "x"},
		"header a list":        {"url": "http://127.0.0.1", "headers": map[string]any{"a": []any{}}},
		"header with a break":  {"url": "http://127.0.0.1", "headers": map[string]any{"a": "b\r\nc: d"}},
		"secret not there":     {"url": "http://127.0.0.1", "secret_conn_id": "nobody"},
		"secret without value": {"url": "http://127.0.0.1", "secret_conn_id": "empty"},
		"secret a number":      {"url": "http://127.0.0.1", "secret_conn_id": 1.0},
	} {
		f := notify(t, args)
		require.NotNil(t, f, name)
		require.True(t, f.Permanent, name)
	}
}

func TestStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	require.Error(t, webhook.New().Notify(ctx, delivery(map[string]any{"url": s.URL})))
}
