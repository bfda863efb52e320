package fault

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// MaxRetryAfter caps what a server may ask for.
const MaxRetryAfter = time.Hour

// HTTPRule is one line of the table of HTTP statuses. Status 0 stands for the
// rest of its hundred.
type HTTPRule struct {
	Status  int
	Code    string
	Class   dag.ErrorClass
	Meaning string
}

// HTTPTable says what each status means for a step. Status 429, and 503 with a
// Retry-After, spend the throttling budget and no attempt.
func HTTPTable() []HTTPRule {
	const (
		transient = dag.ClassTransient
		permanent = dag.ClassPermanent
		config    = dag.ClassConfiguration
	)
	row := func(status int, class dag.ErrorClass, meaning string) HTTPRule {
		return HTTPRule{status, "HTTP_" + strconv.Itoa(status), class, meaning}
	}
	return []HTTPRule{
		row(400, permanent, "the request is malformed"),
		row(401, config, "the login is missing or wrong"),
		row(403, config, "the login may not do this"),
		row(404, permanent, "there is nothing at this address"),
		row(405, config, "the method is not allowed"),
		row(407, config, "the proxy wants a login"),
		row(408, transient, "the server waited too long for the request"),
		row(409, transient, "another request is in the way"),
		row(410, permanent, "what was there is gone for good"),
		row(412, permanent, "a precondition of the request does not hold"),
		row(413, permanent, "the body is too large"),
		row(415, config, "the content type is not supported"),
		row(422, permanent, "the content is not accepted"),
		row(423, transient, "it is locked"),
		row(425, transient, "too early"),
		row(429, transient, "too many requests"),
		row(500, transient, "the server failed"),
		row(501, permanent, "the server does not support this"),
		row(502, transient, "a gateway got no good answer"),
		row(503, transient, "the service is not available"),
		row(504, transient, "a gateway got no answer in time"),
		row(507, transient, "the server is out of space"),
		{0, "HTTP_3XX", config, "a redirect that is not followed"},
		{0, "HTTP_4XX", permanent, "another refusal"},
		{0, "HTTP_5XX", transient, "another failure of the server"},
		{0, "HTTP_OTHER", permanent, "a status that HTTP does not have"},
	}
}

// HTTP classifies an answer that is not a success. retryAfter is the header's
// text, "" when there is none.
func HTTP(status int, retryAfter string, now time.Time) *dag.TaskError {
	e, _ := classifyHTTP(status, retryAfter, now)
	return &e
}

func classifyHTTP(status int, retryAfter string, now time.Time) (dag.TaskError, []string) {
	r := httpRule(status)
	text := http.StatusText(status)
	if text == "" {
		text = r.Meaning
	}
	e := dag.TaskError{Class: r.Class, Code: r.Code, Message: fmt.Sprintf("HTTP status %d: %s", status, text)}
	why := []string{fmt.Sprintf("HTTP status %d: %s is %s (%s)", status, r.Code, r.Class, r.Meaning)}
	if r.Class != dag.ClassTransient {
		return e, why
	}
	wait, told := RetryAfter(retryAfter, now)
	switch {
	case told:
		e.RetryAfter = wait
		why = append(why, fmt.Sprintf("Retry-After %q: wait %s (at most %s)", retryAfter, wait, MaxRetryAfter))
	case retryAfter != "":
		why = append(why, fmt.Sprintf("Retry-After %q is neither seconds nor a date: ignored", retryAfter))
	}
	if status == http.StatusTooManyRequests || (status == http.StatusServiceUnavailable && told) {
		e.Budget = dag.BudgetThrottling
		why = append(why, "it spends the throttling budget, no attempt")
	}
	return e, why
}

// httpRule finds the line of a status.
func httpRule(status int) HTTPRule {
	rest := "HTTP_OTHER"
	if h := status / 100; h >= 3 && h <= 5 {
		rest = fmt.Sprintf("HTTP_%dXX", h)
	}
	var found HTTPRule
	for _, r := range HTTPTable() {
		if r.Status == status && status != 0 {
			return r
		}
		if r.Code == rest {
			found = r
		}
	}
	return found
}

// httpCodes is the table as entries of the closed list.
func httpCodes() []Code {
	var out []Code
	for _, r := range HTTPTable() {
		c := Code{Code: r.Code, Class: r.Class, Meaning: r.Meaning}
		if r.Status == http.StatusTooManyRequests {
			c.Budget = dag.BudgetThrottling
		}
		out = append(out, c)
	}
	return out
}

// RetryAfter reads a Retry-After: seconds or an HTTP date, from nothing (a
// date in the past) to MaxRetryAfter. It is false for any other text.
func RetryAfter(text string, now time.Time) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, false
	}
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		if math.IsNaN(s) || s < 0 {
			return 0, false
		}
		if s >= MaxRetryAfter.Seconds() {
			return MaxRetryAfter, true
		}
		return time.Duration(s * float64(time.Second)), true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now), 0), MaxRetryAfter), true
}
