package upload

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	smithy "github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
)

// s3Rule says what an error code of S3 means here.
type s3Rule struct {
	codes []string
	code  string
	hint  string
}

// s3Table has the codes that say more than their HTTP status.
func s3Table() []s3Rule {
	return []s3Rule{
		{[]string{"SlowDown", "SlowDownRead", "SlowDownWrite", "Throttling", "ThrottlingException", "RequestThrottled", "RequestLimitExceeded", "TooManyRequests", "TooManyRequestsException", "BandwidthLimitExceeded"}, fault.CodeSlowDown, ""},
		{[]string{"NoSuchBucket"}, fault.CodeBucketMissing, ""},
		{[]string{"BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch", "IncompleteBody"}, fault.CodeDigestRefused, ""},
		{[]string{"RequestTimeout"}, "HTTP_408", ""},
		{[]string{"RequestTimeTooSkewed"}, "HTTP_403", "set the worker's clock"},
		{[]string{"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "AuthorizationHeaderMalformed"}, "HTTP_403", "correct the keys and the region_name of the connection"},
		{[]string{"AccessDenied"}, "HTTP_403", "the connection's keys need s3:GetObject, s3:PutObject, s3:ListBucket, s3:AbortMultipartUpload and s3:ListBucketMultipartUploads"},
		{[]string{"EntityTooLarge"}, "HTTP_413", "a single upload takes 5 GiB: lower part_size"},
		{[]string{"ConditionalRequestConflict", "OperationAborted"}, "HTTP_409", ""},
		{[]string{"InternalError"}, "HTTP_500", ""},
	}
}

// apiCode is the store's own word for an error, "" when there is none.
func apiCode(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// status is the answer's, 0 when there was none.
func status(err error) int {
	var answer *smithyhttp.ResponseError
	if errors.As(err, &answer) && answer.Response != nil && answer.Response.Response != nil {
		return answer.Response.StatusCode
	}
	return 0
}

func isNotFound(err error) bool {
	return status(err) == http.StatusNotFound && apiCode(err) != "NoSuchBucket"
}

func isTaken(err error) bool { return status(err) == http.StatusPreconditionFailed }

func isUploadGone(err error) bool { return apiCode(err) == "NoSuchUpload" }

// isNotImplemented: the store does not know a header of the request.
func isNotImplemented(err error) bool { return status(err) == http.StatusNotImplemented }

// fail classifies an error of the client. Its own text holds addresses and ids
// of requests, so only what helps is kept.
func (s *s3Store) fail(ctx context.Context, verb, key string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s3Failure(s.a, verb+" "+s.address(key), err)
}

func s3Failure(a *attempt, what string, err error) *dag.TaskError {
	var own *dag.TaskError
	if errors.As(err, &own) {
		return own
	}
	code, http := apiCode(err), status(err)
	if http == 0 {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		var signing *smithy.OperationError
		if errors.As(err, &signing) {
			err = signing.Err
		}
		e := fault.Network(err)
		e.Message = err.Error() + ": " + what
		return e
	}
	e := fault.HTTP(http, retryAfter(err), a.t.Clock.Now())
	for _, r := range s3Table() {
		if !slices.Contains(r.codes, code) {
			continue
		}
		wait := e.RetryAfter
		e = fault.New(r.code, "")
		e.RetryAfter = wait
		if r.hint != "" {
			e.Hint = r.hint
		}
		break
	}
	// What happened comes first: an address is long, and lists cut.
	e.Message = fmt.Sprintf("HTTP status %d", http)
	var api smithy.APIError
	if errors.As(err, &api) {
		e.Message += ", " + code
		if m := strings.TrimSuffix(api.ErrorMessage(), "."); m != "" {
			e.Message += ": " + dag.CutText(m, 500)
		}
	}
	e.Message += ": " + what
	return e
}

// retryAfter is the header's text, "" when there is none.
func retryAfter(err error) string {
	var answer *smithyhttp.ResponseError
	if errors.As(err, &answer) && answer.Response != nil && answer.Response.Response != nil {
		return answer.Response.Header.Get("Retry-After")
	}
	return ""
}
