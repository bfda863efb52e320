package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// controlPrefix begins the line with which a step speaks for itself.
const controlPrefix = "airlock:"

// control is what such a line says.
type control struct {
	Class      dag.ErrorClass  `json:"error_class"`
	Code       string          `json:"error_code"`
	Message    string          `json:"message"`
	Hint       string          `json:"hint"`
	RetryAfter json.RawMessage `json:"retry_after"`
}

var codePattern = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)

// readControl looks at the last line of stderr that is not empty. The note
// says why a line with the prefix does not count.
func readControl(stderr string) (c control, ok bool, note string) {
	text := strings.TrimRight(stderr, " \t\r\n")
	line := strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
	body, found := strings.CutPrefix(line, controlPrefix)
	if !found {
		return control{}, false, ""
	}
	c, err := parseControl([]byte(body))
	if err != nil {
		return control{}, false, fmt.Sprintf("the control line %v; it is passed over", err)
	}
	return c, true, ""
}

// Said is the failure that a step describes in JSON with the keys of a control
// line, for steps that have a better way to say it than stderr. The step's
// rules are not asked about it. The error says what is wrong with the JSON.
func Said(body []byte, e Evidence) (*dag.TaskError, error) {
	c, err := parseControl(body)
	if err != nil {
		return nil, err
	}
	te, _ := c.failure(e)
	te.ExitCode, te.Decided = e.ExitCode, true
	te.Stack = tail(e.Stderr, dag.MaxStackTrace)
	return &te, nil
}

// parseControl checks what a step says of itself. Classes that only sealing
// gives are not its to say.
func parseControl(body []byte) (c control, err error) {
	if err := json.Unmarshal(body, &c); err != nil {
		return control{}, fmt.Errorf("is not JSON: %w", err)
	}
	switch c.Class {
	case "", dag.ClassTransient, dag.ClassPermanent, dag.ClassPoison, dag.ClassConfiguration, dag.ClassCapability:
	default:
		return control{}, fmt.Errorf("has error_class %q, which is not one of transient, permanent, poison, "+
			"configuration, capability", c.Class)
	}
	if c.Code != "" && !codePattern.MatchString(c.Code) {
		return control{}, fmt.Errorf("has error_code %q, which is not capital letters, digits and underscores", c.Code)
	}
	if c.Class == "" && c.Code == "" && len(c.RetryAfter) == 0 {
		return control{}, errors.New("has none of error_class, error_code, retry_after")
	}
	return c, nil
}

// failure is what the line describes, and the line in words. With a
// retry_after, a transient failure spends the throttling budget: the step knows
// when it will work.
func (c control) failure(e Evidence) (dag.TaskError, string) {
	code := c.Code
	if code == "" {
		code = CodeExitCode
	}
	te := *New(code, message(e))
	if c.Class != "" && c.Class != te.Class {
		te.Class, te.Budget = c.Class, ""
	}
	if c.Message != "" {
		te.Message = c.Message
	}
	if c.Hint != "" {
		te.Hint = c.Hint
	}
	why := fmt.Sprintf("the step says so itself (control line): %s is %s", te.Code, te.Class)
	if wait, ok := c.wait(e.Now); ok && te.Class == dag.ClassTransient {
		te.RetryAfter, te.Budget = wait, dag.BudgetThrottling
		why += fmt.Sprintf(", again in %s, which spends the throttling budget", wait)
	}
	return te, why
}

// wait reads retry_after: a number or a text, as RetryAfter does.
func (c control) wait(now time.Time) (time.Duration, bool) {
	var text string
	if json.Unmarshal(c.RetryAfter, &text) == nil {
		return RetryAfter(text, now)
	}
	var seconds float64
	if json.Unmarshal(c.RetryAfter, &seconds) != nil {
		return 0, false
	}
	return RetryAfter(strconv.FormatFloat(seconds, 'f', -1, 64), now)
}
