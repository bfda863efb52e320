package upload_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
	"github.com/airlock-dag/airlock/executor/operator/upload/s3test"
)

// silent stands before a real S3 server and takes its checksums out of what it
// says; with spoil it also turns a byte of what it gives back.
func silent(t testing.TB, s *s3test.Server, spoil bool) (conn dag.Connection, gets *atomic.Int64) {
	t.Helper()
	to, err := url.Parse(s.URL)
	require.NoError(t, err)
	gets = &atomic.Int64{}
	front := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
		ModifyResponse: func(r *http.Response) error {
			for name := range r.Header {
				if strings.HasPrefix(name, "X-Amz-Checksum") {
					r.Header.Del(name)
				}
			}
			if r.Request.Method != http.MethodGet || r.Request.URL.RawQuery != "" && !strings.HasPrefix(r.Request.URL.RawQuery, "x-id=GetObject") {
				return nil
			}
			gets.Add(1)
			data, err := io.ReadAll(r.Body)
			if spoil && len(data) > 0 {
				data[len(data)/2] ^= 1
			}
			r.Body = io.NopCloser(bytes.NewReader(data))
			return err
		},
	})
	t.Cleanup(front.Close)
	conn = s.Connection()
	conn.Extra["endpoint_url"] = front.URL
	return conn, gets
}

// A store that gives no checksums is read back after an upload: what the upload
// itself left as metadata proves nothing. For a later skip that is enough.
func TestS3WithoutChecksums(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	for _, size := range []int{1000, 6 * mebibyte} {
		path, _ := file(t, uint64(size), size)
		conn, gets := silent(t, s, false)
		args := map[string]any{"path": path, "conn_id": "store", "target": "s3://media", "part_size": 5 * mebibyte}
		require.False(t, result(t, first1(run(t, operator(), conn, args))).Skipped)
		require.Equal(t, int64(1), gets.Load())
		require.True(t, result(t, first1(run(t, operator(), conn, args))).Skipped)
		require.Equal(t, int64(1), gets.Load())

		conn, gets = silent(t, s, true)
		args["target"] = "s3://media/spoilt"
		fails(t, first1(run(t, operator(), conn, args)), "UPLOAD_MISMATCH", dag.ClassPermanent)
		require.Equal(t, int64(1), gets.Load())
		args["target"], args["verify"] = "s3://media/size", "size"
		result(t, first1(run(t, operator(), conn, args)))
		require.Equal(t, int64(1), gets.Load())
	}
	// With checksums nothing is read back.
	path, _ := file(t, 77, 6*mebibyte)
	var gets atomic.Int64
	tr := inTheWay(t, s, func(_ http.ResponseWriter, _ *http.Request, what string, _ int) bool {
		if what == "GET" {
			gets.Add(1)
		}
		return false
	})
	result(t, first1(run(t, operator(), tr.conn, map[string]any{"path": path, "conn_id": "store", "target": "s3://media", "part_size": 5 * mebibyte})))
	require.Zero(t, gets.Load())
}

// trouble stands before a real S3 server. meet is asked before each request
// with what it is ("PUT", "POST uploads", "PUT part 2", "POST complete",
// "HEAD" ...) and how often that was asked for; true says that it has answered.
type trouble struct {
	conn dag.Connection
	seen atomic.Int64
}

func inTheWay(t testing.TB, s *s3test.Server, meet func(w http.ResponseWriter, r *http.Request, what string, nth int) bool) *trouble {
	t.Helper()
	to, err := url.Parse(s.URL)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host }, // the signature holds the host
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {},
	}
	tr := &trouble{conn: s.Connection()}
	counts := make(chan map[string]int, 1)
	counts <- map[string]int{}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tr.seen.Add(1)
		what := r.Method
		q := r.URL.Query()
		switch {
		case q.Has("partNumber"):
			what += " part " + q.Get("partNumber")
		case q.Has("uploadId"):
			what += " complete"
		case q.Has("uploads"):
			what += " uploads"
		}
		c := <-counts
		c[what]++
		nth := c[what]
		counts <- c
		if !meet(w, r, what, nth) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(front.Close)
	tr.conn.Extra["endpoint_url"] = front.URL
	return tr
}

// says answers as S3 does.
func says(w http.ResponseWriter, r *http.Request, status int, code string) bool {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>said by the test</Message></Error>`, code)
	}
	return true
}

// What S3 says, and what it is called here.
func TestS3Says(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	path, _ := file(t, 1, 1000)
	for name, c := range map[string]struct {
		what       string
		status     int
		says       string
		retryAfter string
		code       string
		class      dag.ErrorClass
		budget     dag.Budget
		after      time.Duration
	}{
		"slow down":             {"PUT", 503, "SlowDown", "", "SLOW_DOWN", dag.ClassTransient, dag.BudgetThrottling, 0},
		"slow down for a while": {"PUT", 503, "SlowDown", "17", "SLOW_DOWN", dag.ClassTransient, dag.BudgetThrottling, 17 * time.Second},
		"429":                   {"PUT", 429, "TooManyRequests", "3", "SLOW_DOWN", dag.ClassTransient, dag.BudgetThrottling, 3 * time.Second},
		"HEAD has no body":      {"HEAD", 503, "", "4", "HTTP_503", dag.ClassTransient, dag.BudgetThrottling, 4 * time.Second},
		"unavailable":           {"PUT", 503, "ServiceUnavailable", "", "HTTP_503", dag.ClassTransient, "", 0},
		"internal":              {"PUT", 500, "InternalError", "", "HTTP_500", dag.ClassTransient, "", 0},
		"digest":                {"PUT", 400, "BadDigest", "", "DIGEST_REFUSED", dag.ClassTransient, "", 0},
		"timeout":               {"PUT", 400, "RequestTimeout", "", "HTTP_408", dag.ClassTransient, "", 0},
		"conflict":              {"PUT", 409, "ConditionalRequestConflict", "", "HTTP_409", dag.ClassTransient, "", 0},
		"denied":                {"PUT", 403, "AccessDenied", "", "HTTP_403", dag.ClassConfiguration, "", 0},
		"denied to look":        {"HEAD", 403, "", "", "HTTP_403", dag.ClassConfiguration, "", 0},
		"no bucket":             {"PUT", 404, "NoSuchBucket", "", "BUCKET_MISSING", dag.ClassConfiguration, "", 0},
		"another region":        {"PUT", 301, "PermanentRedirect", "", "HTTP_3XX", dag.ClassConfiguration, "", 0},
		"malformed":             {"PUT", 400, "InvalidRequest", "", "HTTP_400", dag.ClassPermanent, "", 0},
		"too large":             {"PUT", 400, "EntityTooLarge", "", "HTTP_413", dag.ClassPermanent, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := inTheWay(t, s, func(w http.ResponseWriter, r *http.Request, what string, _ int) bool {
				if what != c.what {
					return false
				}
				if c.retryAfter != "" {
					w.Header().Set("Retry-After", c.retryAfter)
				}
				return says(w, r, c.status, c.says)
			})
			e := fails(t, first1(run(t, operator(), tr.conn, map[string]any{"path": path, "conn_id": "store", "target": "s3://media", "key": name})), c.code, c.class)
			require.Equal(t, c.budget, e.Budget)
			require.Equal(t, c.after, e.RetryAfter)
			require.Equal(t, "s3://media/"+name, e.IdempotencyKey)
			require.Contains(t, e.Message, "s3://media/"+name)
			require.LessOrEqual(t, tr.seen.Load(), int64(2), "the client does not try again by itself")
		})
	}
	require.Empty(t, s.Objects(t))
}

// Trouble with parts, at each step of an upload in parts.
func TestS3TroubleWithParts(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	path, data := file(t, 2, 11*mebibyte)
	for name, c := range map[string]struct {
		meet func(w http.ResponseWriter, r *http.Request, what string, nth int) bool
		code string // "" for a success
	}{
		"a part fails and passes": {func(w http.ResponseWriter, r *http.Request, what string, nth int) bool {
			return what == "PUT part 2" && nth == 1 && says(w, r, 500, "InternalError")
		}, ""},
		"a part is throttled and passes": {func(w http.ResponseWriter, r *http.Request, what string, nth int) bool {
			if what != "PUT part 3" || nth > 1 {
				return false
			}
			w.Header().Set("Retry-After", "0")
			return says(w, r, 503, "SlowDown")
		}, ""},
		"a part must wait long": {func(w http.ResponseWriter, r *http.Request, what string, _ int) bool {
			if what != "PUT part 3" {
				return false
			}
			w.Header().Set("Retry-After", "600")
			return says(w, r, 503, "SlowDown")
		}, "SLOW_DOWN"},
		"a part is refused": {func(w http.ResponseWriter, r *http.Request, what string, _ int) bool {
			return what == "PUT part 1" && says(w, r, 403, "AccessDenied")
		}, "HTTP_403"},
		"the upload is gone": {func(w http.ResponseWriter, r *http.Request, what string, _ int) bool {
			return what == "PUT part 2" && says(w, r, 404, "NoSuchUpload")
		}, "UPLOAD_LOST"},
		"the end says 200 and an error": {func(w http.ResponseWriter, r *http.Request, what string, _ int) bool {
			return what == "POST complete" && says(w, r, 200, "InternalError")
		}, "HTTP_500"},
		"no conditional writes": {func(w http.ResponseWriter, r *http.Request, what string, nth int) bool {
			return what == "POST complete" && r.Header.Get("If-None-Match") != "" && says(w, r, 501, "NotImplemented")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := inTheWay(t, s, c.meet)
			key := strings.ReplaceAll(name, " ", "-")
			out, f := run(t, operator(), tr.conn, map[string]any{"path": path, "conn_id": "store", "target": "s3://media", "key": key, "part_size": 5 * mebibyte})
			if c.code == "" {
				require.False(t, result(t, out).Skipped)
				got, err := s.Client.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String(s3test.Bucket), Key: &key})
				require.NoError(t, err)
				require.Equal(t, int64(len(data)), aws.ToInt64(got.ContentLength))
				if name == "no conditional writes" {
					require.Contains(t, f.Output.String(), "no conditional writes")
				}
				return
			}
			require.Equal(t, dag.OutcomeFailed, out.Kind)
			require.Equal(t, c.code, out.Err.Code, "%v", out.Err)
			list, err := s.Client.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: aws.String(s3test.Bucket), Prefix: &key})
			require.NoError(t, err)
			require.Empty(t, list.Uploads, "an attempt that fails takes its upload away: %s", f.Output)
		})
	}
}

// The answer to the last request is lost, after the store has done what it
// asked for: the next attempt finds the object and skips.
func TestS3AnswerIsLost(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	for what, size := range map[string]int{"PUT": 1000, "POST complete": 6 * mebibyte} {
		path, data := file(t, uint64(size), size)
		tr := inTheWay(t, s, func(w http.ResponseWriter, r *http.Request, seen string, _ int) bool {
			if seen != what {
				return false
			}
			// The request goes on to the store as it is; its answer goes nowhere.
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return true
			}
			to := *r.URL
			to.Scheme, to.Host = "http", strings.TrimPrefix(s.URL, "http://")
			on, err := http.NewRequestWithContext(r.Context(), r.Method, to.String(), bytes.NewReader(body))
			if err == nil {
				on.Header, on.Host = r.Header, r.Host
				if answer, err := http.DefaultTransport.RoundTrip(on); err == nil {
					_ = answer.Body.Close()
				}
			}
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				_ = conn.Close()
			}
			return true
		})
		args := map[string]any{"path": path, "conn_id": "store", "target": "s3://media", "part_size": 5 * mebibyte}
		fails(t, first1(run(t, operator(), tr.conn, args)), "CONNECTION_RESET", dag.ClassTransient)
		require.True(t, bytes.Equal(data, s.Objects(t)[hashOf(data)+".mp4"]))
		require.True(t, result(t, first1(run(t, operator(), s.Connection(), args, again))).Skipped)
	}
	require.Len(t, s.Objects(t), 2)
	require.Zero(t, s.Unfinished(t))
}

// Another worker publishes between the look and the write: the write is refused
// by the store, and what is there decides.
func TestS3AnotherIsFaster(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	for _, size := range []int{1000, 6 * mebibyte} {
		for _, same := range []bool{true, false} {
			path, data := file(t, uint64(size), size)
			key := fmt.Sprintf("%d-%t", size, same)
			tr := inTheWay(t, s, func(_ http.ResponseWriter, _ *http.Request, what string, nth int) bool {
				if (what == "PUT" || what == "POST complete") && nth == 1 {
					theirs := data
					if !same {
						theirs = bytes.ToUpper(append([]byte("another"), data[7:]...))
					}
					_, err := s.Client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String(s3test.Bucket), Key: &key, Body: bytes.NewReader(theirs)})
					if err != nil {
						t.Error(err)
					}
				}
				return false
			})
			out, f := run(t, operator(), tr.conn, map[string]any{"path": path, "conn_id": "store", "target": "s3://media", "key": key, "part_size": 5 * mebibyte})
			if same {
				require.True(t, result(t, out).Skipped)
				require.Contains(t, f.Output.String(), "another worker was faster")
			} else {
				fails(t, out, "OBJECT_EXISTS", dag.ClassPermanent)
			}
		}
	}
	require.Zero(t, s.Unfinished(t))
}

// Secrets stay out of logs and errors, whatever the store says.
func TestS3SecretsStayHidden(t *testing.T) {
	t.Parallel()
	s := s3test.Start(t)
	path, _ := file(t, 9, 10)
	conn := s.Connection()
	conn.Login, conn.Password = "", ""
	conn.Extra["aws_access_key_id"], conn.Extra["aws_secret_access_key"] = s3test.AccessKey, s3test.SecretKey
	conn.Extra["unknown_option"] = "x"
	var out dag.Outcome
	var f *operatortest.Fixture
	out, f = run(t, operator(), conn, map[string]any{"path": path, "conn_id": "store", "target": "s3://media"})
	result(t, out)
	require.NotContains(t, f.Output.String(), s3test.SecretKey)
	require.Contains(t, f.Output.String(), "these options are not acted on: unknown_option")
	conn.Extra["endpoint_url"] = "http://127.0.0.1:1"
	e := fails(t, first1(run(t, operator(), conn, map[string]any{"path": path, "conn_id": "store", "target": "s3://media"})), "CONNECTION_REFUSED", dag.ClassTransient)
	require.NotContains(t, e.Error(), s3test.SecretKey)
}
