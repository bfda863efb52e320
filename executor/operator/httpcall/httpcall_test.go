package httpcall_test

import (
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/operator/httpcall"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
)

// got is a request as a server saw it.
type got struct {
	method, path, query, body string
	header                    http.Header
}

// recorder answers 200 and keeps what was asked.
func recorder(t *testing.T, g *got) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		*g = got{r.Method, r.URL.Path, r.URL.RawQuery, string(b), r.Header.Clone()}
		_, _ = io.WriteString(w, `{"n": 9007199254740993, "f": 1.5, "list": [1, {"a": null}]}`)
	}))
	t.Cleanup(s.Close)
	return s
}

// connection is that of a test server.
func connection(t *testing.T, s *httptest.Server) dag.Connection {
	t.Helper()
	u, err := url.Parse(s.URL)
	require.NoError(t, err)
	port, err := strconv.Atoi(u.Port())
	require.NoError(t, err)
	return dag.Connection{Type: "http", Host: u.Hostname(), Port: port, Schema: u.Scheme}
}

func call(t *testing.T, f *operatortest.Fixture, r httpcall.Request) (*httpcall.Response, *dag.TaskError) {
	t.Helper()
	return httpcall.New().Call(t.Context(), f.Task, r)
}

func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	const form, js = "application/x-www-form-urlencoded", "application/json"
	m := func(kv ...any) map[string]any {
		out := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			out[kv[i].(string)] = kv[i+1]
		}
		return out
	}
	for name, c := range map[string]struct {
		args                     map[string]any
		method, path, query      string
		body, contentType, extra string
	}{
		"a GET":               {m("method", "get", "endpoint", "/a/b"), "GET", "/a/b", "", "", "", ""},
		"data of a GET":       {m("method", "GET", "endpoint", "a?x=1", "data", m("b", 2.0, "c", []any{"d e", true}, "n", nil)), "GET", "/a", "x=1&b=2&c=d+e&c=True", "", "", ""},
		"text of a GET":       {m("method", "GET", "data", "?q=1"), "GET", "/", "q=1", "", "", ""},
		"a form":              {m("data", m("a", "ü", "b", 1)), "POST", "/", "", "a=%C3%BC&b=1", form, ""},
		"text":                {m("data", "as it is"), "POST", "/", "", "as it is", "", ""},
		"data that says JSON": {m("data", m("a", 1), "headers", m("content-type", "application/json; charset=utf-8")), "POST", "/", "", `{"a":1}`, "application/json; charset=utf-8", ""},
		"json":                {m("json", m("a", []any{"<"})), "POST", "/", "", `{"a":["\u003c"]}`, js, ""},
		"json text":           {m("json", "x"), "POST", "/", "", `"x"`, js, ""},
		"json of a GET":       {m("method", "GET", "json", m("a", 1), "data", nil), "GET", "/", "", `{"a":1}`, js, ""},
		"a list":              {m("data", []any{1.0}), "POST", "/", "", `[1]`, js, ""},
		"params of a GET":     {m("method", "GET", "request_params", m("a", "1")), "GET", "/", "a=1", "", "", ""},
		"params of a POST":    {m("request_params", m("a", "1")), "POST", "/", "", "a=1", form, ""},
		"params and data":     {m("request_params", m("a", "1"), "data", "b"), "POST", "/", "a=1", "b", "", ""},
		"both of a GET":       {m("method", "GET", "request_params", m("a", "1"), "data", m("b", "2")), "GET", "/", "b=2&a=1", "", "", ""},
		"a header":            {m("headers", m("X-A", 1.5, "X-None", nil)), "POST", "/", "", "", "", "1.5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var g got
			s := recorder(t, &g)
			f := operatortest.New(t, c.args)
			f.Connections["http_default"] = connection(t, s)
			r, te := call(t, f, httpcall.Request{Method: "POST"})
			require.Nil(t, te)
			require.Equal(t, 200, r.StatusCode)
			require.Equal(t, []string{c.method, c.path, c.query, c.body, c.contentType, c.extra},
				[]string{g.method, g.path, g.query, g.body, g.header.Get("Content-Type"), g.header.Get("X-A")})
			require.Equal(t, map[string]any{"n": int64(9007199254740993), "f": 1.5, "list": []any{int64(1), map[string]any{"a": nil}}}, r.JSON)
		})
	}
}

func TestLoginHeadersAndKey(t *testing.T) {
	t.Parallel()
	var g got
	s := recorder(t, &g)
	f := operatortest.New(t, map[string]any{"http_conn_id": "feed", "endpoint": "x?token=inquery", "headers": map[string]any{"X-Own": "2"}})
	c := connection(t, s)
	c.Login, c.Password = "me", "s3cret"
	c.Extra = map[string]any{"X-Own": "1", "X-Key": "key0", "headers": map[string]any{"X-More": "3"}, "verify": "true", "cert": "x", "timeout": "10"}
	f.Connections["feed"] = c
	_, te := call(t, f, httpcall.Request{Method: "POST", IdempotencyKey: "a/b c"})
	require.Nil(t, te)
	require.Equal(t, "Basic "+base64.StdEncoding.EncodeToString([]byte("me:s3cret")), g.header.Get("Authorization"))
	require.Equal(t, []string{"2", "key0", "3", "a/b c"},
		[]string{g.header.Get("X-Own"), g.header.Get("X-Key"), g.header.Get("X-More"), g.header.Get("Idempotency-Key")})
	require.Contains(t, f.Output.String(), "not acted on: cert")
	for _, secret := range []string{"s3cret", "key0", "inquery", "me:"} {
		require.NotContains(t, f.Output.String(), secret)
	}

	f.Args["method"] = "GET"
	_, te = call(t, f, httpcall.Request{IdempotencyKey: "k"})
	require.Nil(t, te)
	require.Empty(t, g.header.Get("Idempotency-Key"), "a GET changes nothing")

	c.Login, c.Extra = "", nil
	f.Connections["feed"] = c
	f.Args["method"] = "PUT"
	_, te = call(t, f, httpcall.Request{IdempotencyKey: "ü\n"})
	require.Nil(t, te)
	require.Equal(t, "Bearer s3cret", g.header.Get("Authorization"))
	require.Equal(t, dag.PayloadHash([]byte("ü\n")), g.header.Get("Idempotency-Key"))
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	var g got
	s := recorder(t, &g)
	plain := connection(t, s)
	for name, c := range map[string]struct {
		conn     func(dag.Connection) dag.Connection
		endpoint string
		path     string // "" when it is refused
		code     string
	}{
		"no endpoint":          {func(c dag.Connection) dag.Connection { return c }, "", "/", ""},
		"protocol in the host": {func(c dag.Connection) dag.Connection { c.Host, c.Port = s.URL+"/base/", 0; return c }, "/x", "/base/x", ""},
		"a path as schema":     {func(c dag.Connection) dag.Connection { c.Schema = "api/v1"; return c }, "x", "/api/v1/x", ""},
		"a whole address":      {func(c dag.Connection) dag.Connection { return c }, s.URL + "/whole", "/whole", ""},
		"of another host":      {func(c dag.Connection) dag.Connection { return c }, "http://other.invalid/x", "", "INVALID_ARGUMENT"},
		"no host":              {func(c dag.Connection) dag.Connection { c.Host = ""; return c }, "x", "", "CONNECTION_INVALID"},
		"another protocol":     {func(c dag.Connection) dag.Connection { c.Host = "ftp://h"; return c }, "x", "", "CONNECTION_INVALID"},
		"stray characters":     {func(c dag.Connection) dag.Connection { return c }, "a\x00b", "", "INVALID_ARGUMENT"},
	} {
		f := operatortest.New(t, map[string]any{"conn_id": "c", "endpoint": c.endpoint, "method": "GET"})
		f.Connections["c"] = c.conn(plain)
		_, te := call(t, f, httpcall.Request{})
		if c.path == "" {
			require.Equal(t, c.code, te.Code, name)
			continue
		}
		require.Nil(t, te, name)
		require.Equal(t, c.path, g.path, name)
	}
	f := operatortest.New(t, map[string]any{"endpoint": s.URL + "/alone", "method": "GET"})
	_, te := call(t, f, httpcall.Request{})
	require.Nil(t, te)
	require.Equal(t, "/alone", g.path)
	f = operatortest.New(t, map[string]any{"endpoint": "alone"})
	_, te = call(t, f, httpcall.Request{})
	require.Equal(t, "CONNECTION_MISSING", te.Code)
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "why")
	}))
	t.Cleanup(s.Close)
	for _, c := range []struct {
		status int
		class  dag.ErrorClass
		budget dag.Budget
		after  time.Duration
	}{
		{404, dag.ClassPermanent, "", 0}, {401, dag.ClassConfiguration, "", 0}, {500, dag.ClassTransient, "", 7 * time.Second},
		{429, dag.ClassTransient, dag.BudgetThrottling, 7 * time.Second}, {503, dag.ClassTransient, dag.BudgetThrottling, 7 * time.Second},
	} {
		f := operatortest.New(t, map[string]any{"endpoint": s.URL + "/" + strconv.Itoa(c.status) + "?key=abc", "method": "GET"})
		r, te := call(t, f, httpcall.Request{})
		require.Equal(t, c.status, r.StatusCode)
		require.Equal(t, "HTTP_"+strconv.Itoa(c.status), te.Code)
		require.Equal(t, c.class, te.Class)
		require.Equal(t, c.budget, te.Budget)
		require.Equal(t, c.after, te.RetryAfter)
		require.Equal(t, "why", te.Stack)
		require.NotContains(t, te.Message, "abc")
		f.Args["extra_options"] = map[string]any{"check_response": false}
		r, te = call(t, f, httpcall.Request{})
		require.Nil(t, te)
		require.False(t, r.OK)
	}
}

// TestRedirectsKeepLoginsAtHome: to another host go neither login nor headers
// nor the address that was redirected.
func TestRedirectsKeepLoginsAtHome(t *testing.T) {
	t.Parallel()
	var g got
	away := recorder(t, &g)
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, away.URL+"/there", http.StatusTemporaryRedirect)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/near":
			http.Redirect(w, r, "/end", http.StatusFound)
		default:
			_, _ = io.WriteString(w, r.Header.Get("Authorization")+r.Header.Get("X-Key"))
		}
	}))
	t.Cleanup(home.Close)
	conn := connection(t, home)
	conn.Login, conn.Password, conn.Extra = "me", "pw", map[string]any{"X-Key": "key0"}
	f := operatortest.New(t, map[string]any{"conn_id": "c", "endpoint": "/away?token=t", "headers": map[string]any{"X-Task": "1"}, "json": map[string]any{"a": 1}})
	f.Connections["c"] = conn
	_, te := call(t, f, httpcall.Request{Method: "POST", IdempotencyKey: "k"})
	require.Nil(t, te)
	require.Equal(t, "/there", g.path)
	require.JSONEq(t, `{"a":1}`, g.body)
	for _, name := range []string{"Authorization", "X-Key", "X-Task", "Idempotency-Key", "Referer"} {
		require.Empty(t, g.header.Get(name), name)
	}

	f.Args["endpoint"] = "/near"
	r, te := call(t, f, httpcall.Request{Method: "POST"})
	require.Nil(t, te)
	require.Equal(t, "Basic "+base64.StdEncoding.EncodeToString([]byte("me:pw"))+"key0", r.Text)

	f.Args["endpoint"] = "/loop"
	_, te = call(t, f, httpcall.Request{Method: "GET"})
	require.Equal(t, "RESPONSE_INVALID", te.Code)

	f.Args["extra_options"] = map[string]any{"allow_redirects": false}
	r, te = call(t, f, httpcall.Request{Method: "GET"})
	require.Nil(t, te)
	require.Equal(t, 302, r.StatusCode)
}

func TestTroubleOnTheWay(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hang":
			<-hang
		case "/half":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half")
		case "/slow":
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-hang
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(hang) })
	closed := "http://" + dagtest.NobodyListens(t)
	const short, long = 300 * time.Millisecond, time.Minute
	for name, c := range map[string]struct {
		endpoint, code string
		limit          time.Duration
	}{
		"refused":     {closed + "/x", "CONNECTION_REFUSED", long},
		"no answer":   {s.URL + "/hang", "NETWORK_TIMEOUT", short},
		"no body":     {s.URL + "/slow", "NETWORK_TIMEOUT", short},
		"half a body": {s.URL + "/half", "CONNECTION_RESET", long},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := operatortest.New(t, map[string]any{"endpoint": c.endpoint + "?token=abc", "method": "GET"})
			_, te := call(t, f, httpcall.Request{Limit: c.limit})
			require.Equal(t, c.code, te.Code, te.Message)
			require.NotContains(t, te.Message, "abc")
		})
	}
	t.Run("the attempt ends", func(t *testing.T) {
		t.Parallel()
		ctx, stop := context.WithCancelCause(t.Context())
		stop(operator.ErrTimeout)
		f := operatortest.New(t, map[string]any{"endpoint": s.URL + "/hang", "method": "GET"})
		_, te := httpcall.New().Call(ctx, f.Task, httpcall.Request{})
		require.Equal(t, "TIMEOUT", te.Code)
	})
	t.Run("the lease is lost", func(t *testing.T) {
		t.Parallel()
		f := operatortest.New(t, map[string]any{"endpoint": s.URL + "/hang"})
		f.Lost = true
		_, te := call(t, f, httpcall.Request{Method: "POST"})
		require.Equal(t, "LEASE_LOST", te.Code, "nothing is sent")
	})
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // the refused handshake is the test
	s.StartTLS()
	t.Cleanup(s.Close)
	f := operatortest.New(t, map[string]any{"endpoint": s.URL, "method": "GET"})
	_, te := call(t, f, httpcall.Request{})
	require.Equal(t, "TLS_ERROR", te.Code)
	for _, verify := range []any{false, "false", "ca.pem"} {
		f.Args["extra_options"] = map[string]any{"verify": verify}
		cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
		require.NoError(t, os.WriteFile(filepath.Join(f.Dir, "ca.pem"), cert, 0o600))
		r, te := call(t, f, httpcall.Request{})
		require.Nil(t, te, "%v", verify)
		require.Equal(t, "ok", r.Text)
	}
	for file, want := range map[string]string{
		"missing.pem": "verify: " + filepath.Join(f.Dir, "missing.pem") + " is no file with certificates",
		"/dev/zero":   "verify: open /dev/zero: not a regular file but a device", // which has no end
	} {
		f.Args["extra_options"] = map[string]any{"verify": file}
		_, te = call(t, f, httpcall.Request{})
		require.Equal(t, "CONNECTION_INVALID", te.Code)
		require.Equal(t, want, te.Message)
	}
}

// TestBodiesAreBounded: an answer without an end, or packed small, takes no
// more memory than the limit.
func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		block := []byte(strings.Repeat("x", 1<<20))
		out := io.Writer(w)
		if r.URL.Path == "/packed" {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer func() { _ = z.Close() }()
			out = z
		}
		for range 64 {
			if _, err := out.Write(block); err != nil {
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	for _, path := range []string{"/plain", "/packed"} {
		f := operatortest.New(t, map[string]any{"endpoint": s.URL + path, "method": "GET"})
		r, te := call(t, f, httpcall.Request{})
		require.Nil(t, te)
		require.True(t, r.Truncated)
		require.Len(t, r.Text, httpcall.MaxBody)
		require.Nil(t, r.JSON)
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	bodies := map[string]struct{ kind, body, want string }{
		"/latin":  {"text/plain; charset=ISO-8859-1", "gr\xfcn", "grün"},
		"/utf8":   {"text/plain", "\xef\xbb\xbfgrün", "grün"},
		"/broken": {"application/octet-stream", "a\xffb", "a\uFFFDb"},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", bodies[r.URL.Path].kind)
		_, _ = io.WriteString(w, bodies[r.URL.Path].body)
	}))
	t.Cleanup(s.Close)
	for path, c := range bodies {
		f := operatortest.New(t, map[string]any{"endpoint": s.URL + path, "method": "GET"})
		r, te := call(t, f, httpcall.Request{})
		require.Nil(t, te)
		require.Equal(t, c.want, r.Text)
		require.Equal(t, c.kind, r.Headers["content-type"])
	}
}

func TestWhatCannotBeSent(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]map[string]any{
		"a header with a line break": {"headers": map[string]any{"X": "a\r\nHost: b"}},
		"a name with a space":        {"headers": map[string]any{"X Y": "a"}},
		"a list as header":           {"headers": map[string]any{"X": []any{1}}},
		"a mapping in a form":        {"data": map[string]any{"a": map[string]any{}}},
		"a method":                   {"method": "GE T"},
		"a number as query":          {"method": "GET", "data": 1.0},
	} {
		args["endpoint"] = "http://127.0.0.1:1/"
		_, te := call(t, operatortest.New(t, args), httpcall.Request{Method: "POST"})
		require.Equal(t, "INVALID_ARGUMENT", te.Code, name)
	}
}
