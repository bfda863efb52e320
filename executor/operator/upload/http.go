package upload

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/plainfile"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator/httpcall"
)

// expectFrom is the size from which a server is asked whether it wants the body:
// one that does not know the question costs a second.
const expectFrom = 2 << 20

// httpStore is what takes PUT below an HTTP address.
type httpStore struct {
	a    *attempt
	e    *httpcall.Endpoint
	done func()
}

func (o *Operator) openHTTP(ctx context.Context, a *attempt) (store, error) {
	e, te := o.calls.Endpoint(ctx, a.t, a.s.connID, a.s.target, a.s.headers)
	if te != nil {
		return nil, te
	}
	host := e.Shown("")
	if u, err := url.Parse(host); err == nil {
		host = u.Scheme + "://" + u.Host
	}
	b, done := o.limits.take(host, a.s.bytesPerSecond, a.s.requestsPerSecond)
	a.m.budget = b
	return &httpStore{a: a, e: e, done: done}, nil
}

func (s *httpStore) close() { s.done(); s.e.Close() }

func (s *httpStore) address(key string) string { return s.e.Shown(key) }

// send sends one request within the budget; the answer is whatever it is.
func (s *httpStore) send(ctx context.Context, method, key string, header http.Header, r io.Reader, size int64) (*http.Response, error) {
	if err := s.a.m.request(ctx); err != nil {
		return nil, err
	}
	answer, te := s.e.Send(ctx, method, key, header, r, size)
	if te != nil {
		return nil, te
	}
	s.a.m.advance(1)
	answer.Body = counted{answer.Body, s.a.m}
	return answer, nil
}

// drain reads the rest of a short answer, so that its connection can be used
// again, and gives its beginning.
func drain(r io.ReadCloser) string {
	defer r.Close()
	head, _ := io.ReadAll(io.LimitReader(r, 4<<10))
	return string(head)
}

func (s *httpStore) refused(answer *http.Response, method, key string) error {
	text := drain(answer.Body)
	e := fault.HTTP(answer.StatusCode, answer.Header.Get("Retry-After"), s.a.t.Clock.Now())
	e.Message += ": " + method + " " + s.address(key)
	e.Stack = dag.CutText(strings.ToValidUTF8(text, "\uFFFD"), 4<<10)
	return e
}

// look asks by HEAD. A server without HEAD is asked by the write itself, which
// is conditional.
func (s *httpStore) look(ctx context.Context, key string) (*found, error) {
	answer, err := s.send(ctx, http.MethodHead, key, http.Header{"Want-Repr-Digest": {"sha-256=10"}}, nil, 0)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK, http.StatusNoContent:
		f := &found{size: answer.ContentLength, etag: strings.Trim(answer.Header.Get("ETag"), `"`), sha256: digestOf(answer.Header)}
		if answer.Header.Get("Content-Length") == "" || answer.Header.Get("Content-Encoding") != "" || answer.Uncompressed {
			f.size = -1
		}
		return f, nil
	case http.StatusNotFound, http.StatusGone:
		return nil, nil
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return s.lookByReading(ctx, key)
	default:
		return nil, s.refused(answer, http.MethodHead, key)
	}
}

// lookByReading is for servers without HEAD.
func (s *httpStore) lookByReading(ctx context.Context, key string) (*found, error) {
	answer, err := s.send(ctx, http.MethodGet, key, nil, nil, 0)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
		return &found{size: -1, etag: strings.Trim(answer.Header.Get("ETag"), `"`), sha256: digestOf(answer.Header)}, nil
	case http.StatusNotFound, http.StatusGone:
		return nil, nil
	default:
		return nil, s.refused(answer, http.MethodGet, key)
	}
}

// digestOf finds the SHA-256 that a server gives with a file: Repr-Digest
// (RFC 9530), Digest (RFC 3230), X-Checksum-Sha256.
func digestOf(h http.Header) string {
	for _, value := range h.Values("Repr-Digest") {
		for item := range strings.SplitSeq(value, ",") {
			name, v, _ := strings.Cut(strings.TrimSpace(item), "=")
			if strings.EqualFold(name, "sha-256") {
				return fromBase64(strings.Trim(v, ":"))
			}
		}
	}
	for _, value := range h.Values("Digest") {
		for item := range strings.SplitSeq(value, ",") {
			name, v, _ := strings.Cut(strings.TrimSpace(item), "=")
			if strings.EqualFold(name, "sha-256") {
				return fromBase64(v)
			}
		}
	}
	if v := strings.ToLower(h.Get("X-Checksum-Sha256")); isSHA256(v) {
		return v
	}
	return ""
}

func fromBase64(s string) string {
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(raw) != 32 {
		return ""
	}
	return hex.EncodeToString(raw)
}

func (s *httpStore) read(ctx context.Context, key string) (io.ReadCloser, error) {
	answer, err := s.send(ctx, http.MethodGet, key, http.Header{"Accept-Encoding": {"identity"}}, nil, 0)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, s.refused(answer, http.MethodGet, key)
	}
	return answer.Body, nil
}

func (s *httpStore) put(ctx context.Context, p put) error {
	f, err := plainfile.Open(p.content.path)
	if err != nil {
		return sourceError(err, p.content.path)
	}
	defer f.Close()
	if err := p.commit(ctx); err != nil {
		return err
	}
	raw, err := hex.DecodeString(p.content.sha256)
	if err != nil {
		return fault.New(fault.CodeInternal, err.Error())
	}
	sum := base64.StdEncoding.EncodeToString(raw)
	header := http.Header{
		"Content-Type": {p.contentType}, "Repr-Digest": {"sha-256=:" + sum + ":"}, "Digest": {"sha-256=" + sum},
		"Idempotency-Key": {dag.PayloadHash([]byte(s.address(p.key) + " " + p.content.sha256))},
	}
	if p.content.size >= expectFrom { // a refusal should cost a header, not a film
		header.Set("Expect", "100-continue")
	}
	if !p.replace {
		header.Set("If-None-Match", "*")
	}
	section := io.NewSectionReader(f, 0, p.content.size)
	answer, err := s.send(ctx, http.MethodPut, p.key, header, &body{ReadSeeker: section, ctx: ctx, m: s.a.m}, p.content.size) //nolint:bodyclose // drain and refused close it
	if err != nil {
		return err
	}
	switch {
	case answer.StatusCode == http.StatusPreconditionFailed && !p.replace:
		drain(answer.Body)
		return errTaken
	case answer.StatusCode >= 200 && answer.StatusCode < 300:
		drain(answer.Body)
		return nil
	default:
		return s.refused(answer, http.MethodPut, p.key)
	}
}

// sweep: an unfinished PUT is the server's own to forget.
func (s *httpStore) sweep(context.Context, string, bool) (int, error) { return 0, nil }

// httpClient is one that only the context bounds.
func httpClient(t http.RoundTripper) *http.Client { return &http.Client{Transport: t} }
