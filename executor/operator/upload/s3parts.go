package upload

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
)

const (
	// partTries is how often one part is sent inside one attempt, and partWait the
	// longest wait in between: a hiccup in the last part of a long film must not
	// send all of it again.
	partTries = 4
	partWait  = time.Minute
	// endTime bounds ending an upload when the attempt itself is over, endTries how
	// often it is tried.
	endTime  = 5 * time.Second
	endTries = 7
)

// putParts sends a file in parts. Nothing is visible before the last request,
// which names each part with its checksum.
func (s *s3Store) putParts(ctx context.Context, p put, f *os.File, meta map[string]string) error {
	begun, err := s.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
		Bucket: &s.bucket, Key: s.name(p.key), ContentType: &p.contentType, Metadata: meta, ChecksumAlgorithm: types.ChecksumAlgorithmSha256,
	})
	if err != nil {
		return s.fail(ctx, "begin the upload of", p.key, err)
	}
	id := aws.ToString(begun.UploadId)
	s.live.set(id, true)
	defer s.live.set(id, false)
	err = s.sendAndComplete(ctx, p, f, id)
	if err != nil {
		// Also when ctx is done: what an attempt began it takes away.
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer stop()
		if endErr := s.end(ctx, p.key, id); endErr != nil {
			s.a.logf("the unfinished upload is left to the next attempt: %v", endErr)
		}
	}
	return err
}

// end ends an unfinished upload. A part that is on its way meanwhile may come
// into it afterwards, so it is ended until the store does not know it any more.
func (s *s3Store) end(ctx context.Context, key, id string) error {
	for try := range endTries {
		_, err := s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &s.bucket, Key: s.name(key), UploadId: &id})
		if isUploadGone(err) {
			return nil
		}
		if err == nil {
			_, err = s.client.ListParts(ctx, &s3.ListPartsInput{Bucket: &s.bucket, Key: s.name(key), UploadId: &id, MaxParts: aws.Int32(1)})
			if isUploadGone(err) || isNotFound(err) {
				return nil
			}
		}
		if err != nil {
			if e := s.fail(ctx, "end the upload of", key, err); try == endTries-1 || !transient(e) {
				return e
			}
		}
		if err := s.a.m.rest(ctx, 50*time.Millisecond<<try); err != nil {
			return err
		}
	}
	return fmt.Errorf("the store still has the upload %s to %s", id, s.address(key))
}

func transient(err error) bool { return fault.Error(err).Class == dag.ClassTransient }

func (s *s3Store) sendAndComplete(ctx context.Context, p put, f *os.File, id string) error {
	parts := make([]types.CompletedPart, len(p.content.parts))
	// When one part fails no more are begun, and those on their way are waited for:
	// one that reached the store after the upload was ended would stay there.
	var group errgroup.Group
	group.SetLimit(s.a.s.parallel)
	var failed atomic.Bool
	for i := range parts {
		group.Go(func() (err error) {
			if failed.Load() {
				return nil
			}
			if parts[i], err = s.sendPart(ctx, p, f, id, i); err != nil {
				failed.Store(true)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := p.commit(ctx); err != nil {
		return err
	}
	in := &s3.CompleteMultipartUploadInput{
		Bucket: &s.bucket, Key: s.name(p.key), UploadId: &id, IfNoneMatch: unlessThere(p.replace),
		MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	}
	_, err := s.client.CompleteMultipartUpload(ctx, in)
	if in.IfNoneMatch != nil && isNotImplemented(err) {
		s.a.logf("this store has no conditional writes: it was looked at before, and another writer in the same moment would not be seen")
		in.IfNoneMatch = nil
		_, err = s.client.CompleteMultipartUpload(ctx, in)
	}
	return s.published(ctx, p.key, err)
}

// sendPart sends part i, again when the trouble may pass.
func (s *s3Store) sendPart(ctx context.Context, p put, f *os.File, id string, i int) (types.CompletedPart, error) {
	number := int32(i + 1)
	section := p.content.section(f, i)
	size := section.Size()
	for try := 1; ; try++ {
		out, err := s.client.UploadPart(ctx, &s3.UploadPartInput{
			Bucket: &s.bucket, Key: s.name(p.key), UploadId: &id, PartNumber: &number, ContentLength: &size,
			Body: &body{ReadSeeker: p.content.section(f, i), ctx: ctx, m: s.a.m}, ChecksumSHA256: sum64(p.content.parts[i]),
		}, signed(p.content.parts[i]))
		if err == nil {
			return types.CompletedPart{PartNumber: &number, ETag: out.ETag, ChecksumSHA256: sum64(p.content.parts[i])}, nil
		}
		if isUploadGone(err) {
			return types.CompletedPart{}, errUploadGone
		}
		fail := s.fail(ctx, fmt.Sprintf("send part %d of", number), p.key, err)
		te := fault.Error(fail)
		if ctx.Err() != nil || try == partTries || te.Class != dag.ClassTransient || te.RetryAfter > partWait {
			return types.CompletedPart{}, fail
		}
		wait := max(te.RetryAfter, time.Second<<(try-1))
		s.a.logf("%v: again in %s", te, wait)
		if err := s.a.m.rest(ctx, wait); err != nil {
			return types.CompletedPart{}, err
		}
	}
}

// sweep ends the unfinished uploads to a key. Without live those of this
// process go on: their attempts are at work. With live the key has its content,
// and nothing that is under way can become of use.
func (s *s3Store) sweep(ctx context.Context, key string, live bool) (int, error) {
	in := &s3.ListMultipartUploadsInput{Bucket: &s.bucket, Prefix: s.name(key)}
	ended := 0
	for {
		out, err := s.client.ListMultipartUploads(ctx, in)
		if err != nil {
			return ended, s.fail(ctx, "list uploads to", key, err)
		}
		for _, u := range out.Uploads {
			if aws.ToString(u.Key) != *s.name(key) || (!live && s.live.has(aws.ToString(u.UploadId))) {
				continue
			}
			if err := s.end(ctx, key, aws.ToString(u.UploadId)); err != nil {
				return ended, err
			}
			ended++
		}
		if !aws.ToBool(out.IsTruncated) || aws.ToString(out.NextUploadIdMarker) == "" {
			return ended, nil
		}
		in.KeyMarker, in.UploadIdMarker = out.NextKeyMarker, out.NextUploadIdMarker
	}
}
