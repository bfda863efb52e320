package upload_test

import (
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	op "github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
)

// shelf is an HTTP server that keeps what is put to it.
type shelf struct {
	*httptest.Server
	mu   sync.Mutex
	kept map[string][]byte
	puts int
	// before is asked before each request; true says that it has answered.
	before func(w http.ResponseWriter, r *http.Request) bool
	// digest: say the SHA-256 of what is kept. noHead: refuse HEAD.
	digest, noHead bool
	// spoil changes what is kept.
	spoil func([]byte) []byte
	heads []http.Header
}

func newShelf(t testing.TB, set func(*shelf)) *shelf {
	s := &shelf{kept: map[string][]byte{}, before: func(http.ResponseWriter, *http.Request) bool { return false }, spoil: func(b []byte) []byte { return b }}
	if set != nil {
		set(s)
	}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *shelf) serve(w http.ResponseWriter, r *http.Request) {
	if s.before(w, r) {
		return
	}
	switch r.Method {
	case http.MethodPut:
		s.put(w, r)
	case http.MethodHead, http.MethodGet:
		s.mu.Lock()
		data, ok := s.kept[r.URL.Path]
		s.mu.Unlock()
		if s.noHead && r.Method == http.MethodHead {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if s.digest {
			sum := sha256.Sum256(data)
			w.Header().Set("Repr-Digest", "md5=:x:, sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		if r.Method == http.MethodGet {
			_, _ = w.Write(data)
		}
	}
}

func (s *shelf) put(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return // half a body is never kept
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.kept[r.URL.Path]; there && r.Header.Get("If-None-Match") == "*" {
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	s.puts++
	s.heads = append(s.heads, r.Header)
	s.kept[r.URL.Path] = s.spoil(data)
	w.WriteHeader(http.StatusCreated)
}

func none() dag.Connection { return dag.Connection{} }

// Servers that say much, little and nothing of what they hold.
func TestHTTP(t *testing.T) {
	t.Parallel()
	path, data := file(t, 1, 100_000)
	for name, set := range map[string]func(*shelf){
		"with digests": func(s *shelf) { s.digest = true },
		"read back":    nil,
		"without HEAD": func(s *shelf) { s.noHead = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShelf(t, set)
			args := map[string]any{"path": path, "target": s.URL + "/in?sig=hidden", "key": "a b/{sha256}{ext}", "headers": map[string]any{"X-Team": "media"}}
			out, f := run(t, operator(), none(), args)
			got := result(t, out)
			require.Equal(t, int64(100_000), got.Size)
			require.Equal(t, s.URL+"/in/a%20b/"+hashOf(data)+".mp4", got.URL)
			require.Equal(t, data, s.kept["/in/a b/"+hashOf(data)+".mp4"])
			require.NotContains(t, f.Output.String(), "hidden")
			require.True(t, result(t, first1(run(t, operator(), none(), args))).Skipped)
			require.Equal(t, 1, s.puts)
			h := s.heads[0]
			require.Equal(t, "video/mp4", h.Get("Content-Type"))
			require.Equal(t, "media", h.Get("X-Team"))
			sum := sha256.Sum256(data)
			require.Equal(t, "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":", h.Get("Repr-Digest"))
			require.NotEmpty(t, h.Get("Idempotency-Key"))

			other, _ := file(t, 2, 100_000)
			args["path"], args["key"] = other, "a b/"+hashOf(data)+".mp4"
			e := fails(t, first1(run(t, operator(), none(), args)), "OBJECT_EXISTS", dag.ClassPermanent)
			require.NotContains(t, e.Error()+e.IdempotencyKey, "hidden")
			args["overwrite"] = true
			require.False(t, result(t, first1(run(t, operator(), none(), args))).Skipped)
			require.Equal(t, 2, s.puts)
		})
	}
}

func TestHTTPLogin(t *testing.T) {
	t.Parallel()
	path, _ := file(t, 1, 100)
	s := newShelf(t, func(s *shelf) {
		s.before = func(w http.ResponseWriter, r *http.Request) bool {
			if login, password, _ := r.BasicAuth(); login != "me" || password != "secret-word" {
				w.WriteHeader(http.StatusUnauthorized)
				return true
			}
			return false
		}
	})
	conn := dag.Connection{Type: "http", Host: s.URL, Login: "me", Password: "secret-word"}
	result(t, first1(run(t, operator(), conn, map[string]any{"path": path, "conn_id": "store"})))
	conn.Password = "wrong-word"
	out, f := run(t, operator(), conn, map[string]any{"path": path, "conn_id": "store", "key": "x"})
	e := fails(t, out, "HTTP_401", dag.ClassConfiguration)
	require.NotContains(t, e.Error()+f.Output.String(), "wrong-word")
	// The login does not go to another host.
	fails(t, first1(run(t, operator(), conn, map[string]any{"path": path, "conn_id": "store", "target": "http://127.0.0.1:1/"})), "INVALID_ARGUMENT", dag.ClassConfiguration)
}

// answers has a server answer a method with a status, and count.
func answers(method string, status int, header ...string) func(*shelf) {
	return func(s *shelf) {
		s.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != method {
				return false
			}
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			return true
		}
	}
}

// A server that misbehaves: what the failure is called and which budget it spends.
func TestHTTPMisbehaving(t *testing.T) {
	t.Parallel()
	path, _ := file(t, 3, 8<<20)
	date := operatortest.LogicalDate()
	for name, c := range map[string]struct {
		set    func(*shelf)
		change func(*operatortest.Fixture)
		code   string
		class  dag.ErrorClass
		budget dag.Budget
		after  time.Duration
	}{
		"429 in seconds":       {answers("PUT", 429, "Retry-After", "30"), nil, "HTTP_429", dag.ClassTransient, dag.BudgetThrottling, 30 * time.Second},
		"429 with a date":      {answers("PUT", 429, "Retry-After", date.Add(90*time.Second).Format(http.TimeFormat)), at(date), "HTTP_429", dag.ClassTransient, dag.BudgetThrottling, 90 * time.Second},
		"429 without":          {answers("HEAD", 429), nil, "HTTP_429", dag.ClassTransient, dag.BudgetThrottling, 0},
		"503 with Retry-After": {answers("HEAD", 503, "Retry-After", "5"), nil, "HTTP_503", dag.ClassTransient, dag.BudgetThrottling, 5 * time.Second},
		"503":                  {answers("PUT", 503), nil, "HTTP_503", dag.ClassTransient, "", 0},
		"500":                  {answers("PUT", 500), nil, "HTTP_500", dag.ClassTransient, "", 0},
		"507":                  {answers("PUT", 507), nil, "HTTP_507", dag.ClassTransient, "", 0},
		"403":                  {answers("PUT", 403), nil, "HTTP_403", dag.ClassConfiguration, "", 0},
		"413":                  {answers("PUT", 413), nil, "HTTP_413", dag.ClassPermanent, "", 0},
		"a redirect elsewhere": {answers("PUT", 308, "Location", ""), nil, "HTTP_3XX", dag.ClassConfiguration, "", 0},
		"taken and gone":       {answers("PUT", 412), nil, "UPLOAD_LOST", dag.ClassTransient, "", 0},
		"success and nothing":  {answers("PUT", 201), nil, "UPLOAD_MISMATCH", dag.ClassPermanent, "", 0},
		"closed in the middle": {hijack(100_000), nil, "CONNECTION_RESET", dag.ClassTransient, "", 0},
		"closed at once":       {hijack(0), nil, "CONNECTION_RESET", dag.ClassTransient, "", 0},
		"a byte is turned": {func(s *shelf) {
			s.spoil = func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
		}, nil, "UPLOAD_MISMATCH", dag.ClassPermanent, "", 0},
		"a byte is turned, and it says so": {func(s *shelf) {
			s.digest = true
			s.spoil = func(b []byte) []byte { b[0] ^= 1; return b }
		}, nil, "UPLOAD_MISMATCH", dag.ClassPermanent, "", 0},
		"the end is lost": {func(s *shelf) {
			s.spoil = func(b []byte) []byte { return b[:len(b)-1] }
		}, nil, "UPLOAD_MISMATCH", dag.ClassPermanent, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShelf(t, c.set)
			change := c.change
			if change == nil {
				change = func(*operatortest.Fixture) {}
			}
			out, _ := run(t, operator(), none(), map[string]any{"path": path, "target": s.URL}, change)
			if c.code == "CONNECTION_RESET" && out.Err != nil && out.Err.Code == "NETWORK_ERROR" {
				t.Fatalf("not told apart: %v", out.Err)
			}
			e := fails(t, out, c.code, c.class)
			require.Equal(t, c.budget, e.Budget)
			require.Equal(t, c.after, e.RetryAfter)
			require.Contains(t, e.IdempotencyKey, s.URL)
		})
	}
}

// at has the attempt take place at an instant.
func at(now time.Time) func(*operatortest.Fixture) {
	return func(f *operatortest.Fixture) { f.Clock = fixed{now} }
}

// fixed is a clock that stands, and whose waits are real.
type fixed struct{ now time.Time }

func (c fixed) Now() time.Time                         { return c.now }
func (c fixed) After(d time.Duration) <-chan time.Time { return dag.SystemClock{}.After(d) }

// hijack reads some bytes of a PUT and cuts the connection.
func hijack(n int64) func(*shelf) {
	return func(s *shelf) {
		s.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPut {
				return false
			}
			_, _ = io.CopyN(io.Discard, r.Body, n)
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = conn.(*net.TCPConn).SetLinger(0)
				_ = conn.Close()
			}
			return true
		}
	}
}

// A server that stops reading, or never answers: the transfer is ended, and
// waiting for one's own limits is no stall.
func TestHTTPStall(t *testing.T) {
	t.Parallel()
	path, _ := file(t, 4, 16<<20)
	for name, method := range map[string]string{"it stops reading": "PUT", "it does not answer": "HEAD"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held := make(chan struct{})
			s := newShelf(t, func(s *shelf) {
				s.before = func(_ http.ResponseWriter, r *http.Request) bool {
					if r.Method != method {
						return false
					}
					buf := make([]byte, 1)
					_, _ = r.Body.Read(buf)
					<-held
					return true
				}
			})
			defer close(held)
			e := fails(t, first1(run(t, operator(), none(), map[string]any{"path": path, "target": s.URL, "stall_timeout": 0.4})), "STALLED", dag.ClassTransient)
			require.Contains(t, e.Message, "400ms")
		})
	}
	small, _ := file(t, 5, 3000)
	s := newShelf(t, nil)
	// 3000 bytes at 2000 a second: the first 250 at once, the rest in 1.4 s.
	begun := time.Now()
	result(t, first1(run(t, operator(), none(), map[string]any{"path": small, "target": s.URL, "stall_timeout": 1, "bytes_per_second": 2000})))
	require.GreaterOrEqual(t, time.Since(begun), 1300*time.Millisecond, "the limit holds")
}

// Attempts with one target share their limits.
func TestRequestBudgetIsShared(t *testing.T) {
	t.Parallel()
	s := newShelf(t, nil)
	o := operator()
	var all sync.WaitGroup
	begun := time.Now()
	for i := range 3 {
		path, _ := file(t, uint64(20+i), 10)
		f := operatortest.New(t, map[string]any{"path": path, "target": s.URL, "requests_per_second": 10.0})
		all.Go(func() { result(t, o.Run(t.Context(), f.Task)) })
	}
	all.Wait()
	// Each sends HEAD, PUT, HEAD and GET: 12 requests, the first of them at once.
	require.GreaterOrEqual(t, time.Since(begun), 1050*time.Millisecond)
	require.Equal(t, 3, s.puts)
}

// An attempt that is stopped in the middle ends soon and keeps nothing.
func TestStoppedInTheMiddle(t *testing.T) {
	t.Parallel()
	path, _ := file(t, 6, 1<<20)
	s := newShelf(t, nil)
	f := operatortest.New(t, map[string]any{"path": path, "target": s.URL, "bytes_per_second": 1000})
	ctx, cancel := withCause(t)
	done := make(chan dag.Outcome, 1)
	go func() { done <- operator().Run(ctx, f.Task) }()
	require.Eventually(t, func() bool { return strings.Contains(lastText(f), "MB/s") }, time.Minute, time.Millisecond)
	cancel(op.ErrStopping)
	fails(t, <-done, "WORKER_STOPPING", dag.ClassTransient)
	require.Empty(t, s.kept)
	_, err := os.Stat(path)
	require.NoError(t, err)
}

func lastText(f *operatortest.Fixture) string {
	reports := f.Reports()
	if len(reports) == 0 {
		return ""
	}
	return reports[len(reports)-1].Text
}
