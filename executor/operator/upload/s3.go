package upload

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/plainfile"
	"github.com/airlock-dag/airlock/executor/fault"
)

// metaSHA256 is the name of the metadata that holds the hash of an object: that
// of all bytes, which no S3 checksum of an object in parts gives.
const metaSHA256 = "airlock-sha256"

// liveUploads are the unfinished uploads that attempts of this process work on.
type liveUploads struct {
	mu  sync.Mutex
	ids map[string]bool
}

func newLiveUploads() *liveUploads { return &liveUploads{ids: map[string]bool{}} }

func (l *liveUploads) set(id string, lives bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lives {
		l.ids[id] = true
	} else {
		delete(l.ids, id)
	}
}

func (l *liveUploads) has(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ids[id]
}

// s3Store is a bucket, or a prefix of one.
type s3Store struct {
	a              *attempt
	client         *s3.Client
	bucket, prefix string
	live           *liveUploads
	done           func()
}

func (o *Operator) openS3(_ context.Context, a *attempt, conn *dag.Connection, rest string, whole bool) (store, error) {
	if conn == nil {
		e := fault.New(fault.CodeInvalidArgument, "target is an S3 bucket, and no conn_id says with which keys")
		e.Hint = "add conn_id: a connection of type aws or s3 with the access key as login and the secret key as password"
		return nil, e
	}
	place := ""
	if whole {
		place = rest
	}
	c, err := readS3Connection(*conn, place)
	if err == nil && !whole && rest != "" { // target is a prefix in the connection's bucket
		c.prefix = joinKey(c.prefix, strings.Trim(rest, "/"))
	}
	if err != nil {
		return nil, fault.New(fault.CodeConnectionInvalid, fmt.Sprintf("connection %q: %v", conn.ID, err))
	}
	if len(c.unused) > 0 {
		a.logf("these options are not acted on: %s", strings.Join(c.unused, ", "))
	}
	transport, closeTransport, te := o.calls.Transport(c.verify, a.t.Dir)
	if te != nil {
		return nil, te
	}
	b, done := o.limits.take("s3://"+c.endpoint+"/"+c.bucket, a.s.bytesPerSecond, a.s.requestsPerSecond)
	a.m.budget = b
	return &s3Store{
		a: a, client: newS3Client(c, metered{a.m, transport}), bucket: c.bucket, prefix: c.prefix, live: o.live,
		done: func() { done(); closeTransport() },
	}, nil
}

func (s *s3Store) close() { s.done() }

func joinKey(prefix, key string) string {
	if prefix == "" || key == "" {
		return prefix + key
	}
	return prefix + "/" + key
}

func (s *s3Store) name(key string) *string { return aws.String(joinKey(s.prefix, key)) }

func (s *s3Store) address(key string) string { return "s3://" + s.bucket + "/" + *s.name(key) }

func (s *s3Store) look(ctx context.Context, key string) (*found, error) {
	out, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{
		Bucket: &s.bucket, Key: s.name(key), ChecksumMode: types.ChecksumModeEnabled,
	})
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, s.fail(ctx, "HEAD", key, err)
	}
	f := &found{
		size: aws.ToInt64(out.ContentLength), etag: strings.Trim(aws.ToString(out.ETag), `"`), version: aws.ToString(out.VersionId),
	}
	if out.ContentLength == nil {
		f.size = -1
	}
	if h := out.Metadata[metaSHA256]; isSHA256(h) {
		f.claimed = h
	}
	f.checksum(aws.ToString(out.ChecksumSHA256))
	return f, nil
}

// checksum reads the store's own: base64 of the object's SHA-256, or of the
// hash over its parts' hashes with their number behind it.
func (f *found) checksum(text string) {
	sum, parts, ofParts := strings.Cut(text, "-")
	raw, err := base64.StdEncoding.DecodeString(sum)
	if err != nil || len(raw) != 32 {
		return
	}
	if !ofParts {
		f.sha256 = fmt.Sprintf("%x", raw)
		return
	}
	if n, err := strconv.Atoi(parts); err == nil {
		f.composite, f.parts = raw, n
	}
}

func (s *s3Store) read(ctx context.Context, key string) (io.ReadCloser, error) {
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: s.name(key)})
	if err != nil {
		return nil, s.fail(ctx, "GET", key, err)
	}
	return out.Body, nil
}

func (s *s3Store) put(ctx context.Context, p put) error {
	f, err := plainfile.Open(p.content.path)
	if err != nil {
		return sourceError(err, p.content.path)
	}
	defer f.Close()
	meta := map[string]string{metaSHA256: p.content.sha256}
	for name, v := range p.metadata {
		meta[name] = v
	}
	if len(p.content.parts) > 1 {
		return s.putParts(ctx, p, f, meta)
	}
	if err := p.commit(ctx); err != nil {
		return err
	}
	in := &s3.PutObjectInput{
		Bucket: &s.bucket, Key: s.name(p.key), ContentType: &p.contentType, Metadata: meta, ContentLength: &p.content.size,
		ChecksumSHA256: sum64(p.content.parts[0]), IfNoneMatch: unlessThere(p.replace),
	}
	for {
		in.Body = &body{ReadSeeker: p.content.section(f, 0), ctx: ctx, m: s.a.m}
		_, err = s.client.PutObject(ctx, in, signed(p.content.parts[0]))
		if in.IfNoneMatch == nil || !isNotImplemented(err) {
			break
		}
		s.a.logf("this store has no conditional writes: it was looked at before, and another writer in the same moment would not be seen")
		in.IfNoneMatch = nil
	}
	return s.published(ctx, p.key, err)
}

// published names the error of the request that makes an object visible.
func (s *s3Store) published(ctx context.Context, key string, err error) error {
	switch {
	case err == nil:
		return nil
	case isTaken(err):
		return errTaken
	case isUploadGone(err):
		return errUploadGone
	default:
		return s.fail(ctx, "PUT", key, err)
	}
}

func unlessThere(replace bool) *string {
	if replace {
		return nil
	}
	return aws.String("*")
}

func sum64(sum []byte) *string { return aws.String(base64.StdEncoding.EncodeToString(sum)) }

// signed has the request signed with a hash that is known already: the body is
// read once only.
func signed(sum []byte) func(*s3.Options) {
	hash := fmt.Sprintf("%x", sum)
	return func(o *s3.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("KnownPayloadHash", func(
				ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
			) (middleware.InitializeOutput, middleware.Metadata, error) {
				return next.HandleInitialize(v4.SetPayloadHash(ctx, hash), in)
			}), middleware.Before)
		})
	}
}

// newS3Client makes a client that tries each request once.
func newS3Client(c *s3Connection, transport metered) *s3.Client {
	o := s3.Options{
		Region: cmp.Or(c.region, "us-east-1"),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: c.accessKey, SecretAccessKey: c.secretKey, SessionToken: c.token}, nil
		}),
		HTTPClient: httpClient(transport), Retryer: aws.NopRetryer{}, UsePathStyle: c.pathStyle, AppID: "airlock",
		RequestChecksumCalculation:                aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation:                aws.ResponseChecksumValidationWhenRequired,
		DisableLogOutputChecksumValidationSkipped: true,
	}
	if c.endpoint != "" {
		o.BaseEndpoint = &c.endpoint
	}
	return s3.New(o)
}
