package fault

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// Rule is one line of a table that says what a piece of evidence means. Every
// condition that is set must hold; one without a condition holds always.
type Rule struct {
	// Name is how `airlock classify` shows the rule.
	Name string
	// ExitCodes of a process.
	ExitCodes []int
	// Stderr is a Go regular expression over the end of stderr.
	Stderr string
	// Engine ("mysql", "mariadb", "sqlite") and SQL are error numbers of a
	// database; an empty Engine is any.
	Engine string
	SQL    []int

	// Code is what the failure is called. The rest is taken from the closed list
	// where it is empty.
	Code   string
	Class  dag.ErrorClass
	Budget dag.Budget
	// Message replaces the message that is made from the evidence.
	Message string
	Hint    string
}

// Rules are the tables that are asked for one failure, besides those that hold
// for all.
type Rules struct {
	// FailOn and RetryOn are the step's own; FailOn is asked first.
	FailOn, RetryOn []dag.ErrorRule
	// Table is the program's or the database's. Of the rules with Stderr that
	// hold, the one that matches last in the text counts: the last complaint is
	// the one that ended the program. Rules without Stderr come after those, the
	// first one wins.
	Table []Rule
	// Native is set for programs that have exit codes of their own, so that the
	// shell's conventions (75, 65, 126, 127, 128 + signal) say nothing.
	Native bool
}

// StepRules are the rules of a task with the table of the program it runs.
func StepRules(t *dag.Task, table ...Rule) Rules {
	return Rules{FailOn: t.FailOn, RetryOn: t.RetryOn, Table: table}
}

// failure is what a rule speaks of.
func (r Rule) failure(message string) dag.TaskError {
	e := *New(r.Code, message)
	if r.Class != "" && r.Class != e.Class {
		e.Class, e.Budget = r.Class, ""
	}
	if r.Budget != "" {
		e.Budget = r.Budget
	}
	if r.Message != "" {
		e.Message = r.Message
	}
	if r.Hint != "" {
		e.Hint = r.Hint
	}
	return e
}

// label is a rule in words.
func (r Rule) label() string {
	if r.Name != "" {
		return r.Name
	}
	var parts []string
	if len(r.ExitCodes) > 0 {
		parts = append(parts, fmt.Sprintf("exit code %v", r.ExitCodes))
	}
	if r.Stderr != "" {
		parts = append(parts, fmt.Sprintf("stderr /%s/", r.Stderr))
	}
	if len(r.SQL) > 0 {
		parts = append(parts, fmt.Sprintf("%s error %v", r.Engine, r.SQL))
	}
	if len(parts) == 0 {
		return "any failure"
	}
	return strings.Join(parts, ", ")
}

// match finds the rule of a table that speaks for the evidence; notes name
// rules that cannot be read.
func match(table []Rule, e Evidence) (found Rule, ok bool, notes []string) {
	last := -1
	for _, r := range table {
		if r.Stderr == "" || !r.holds(e) {
			continue
		}
		at, err := lastMatch(r.Stderr, e.Stderr)
		if err != nil {
			notes = append(notes, fmt.Sprintf("rule %s is no regular expression and is passed over: %v", r.label(), err))
			continue
		}
		if at > last {
			found, last = r, at
		}
	}
	if last >= 0 {
		return found, true, notes
	}
	for _, r := range table {
		if r.Stderr == "" && r.holds(e) {
			return r, true, notes
		}
	}
	return Rule{}, false, notes
}

// holds checks all conditions of a rule but Stderr.
func (r Rule) holds(e Evidence) bool {
	if len(r.ExitCodes) > 0 && (e.ExitCode == nil || !slices.Contains(r.ExitCodes, *e.ExitCode)) {
		return false
	}
	if len(r.SQL) > 0 && (e.SQLError == 0 || !slices.Contains(r.SQL, e.SQLError)) {
		return false
	}
	return r.Engine == "" || strings.EqualFold(r.Engine, e.Engine)
}

// lastMatch is where the last match of a pattern begins; -1 for none.
func lastMatch(pattern, text string) (int, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return -1, err
	}
	all := re.FindAllStringIndex(text, -1)
	if len(all) == 0 {
		return -1, nil
	}
	return all[len(all)-1][0], nil
}

// Apply asks a step's own rules about a failure and returns what they make of
// it, or the failure as it is. It does nothing to one that was decided before,
// so that it may be called more than once; nil gives nil. stderr is the end of
// what the step's process wrote, "" for a step without one.
func Apply(t *dag.Task, e *dag.TaskError, stderr string) *dag.TaskError {
	if e == nil || e.Decided {
		return e
	}
	out, _ := applyStep(StepRules(t), *e, stderr)
	return &out
}

// applyStep asks fail_on, then retry_on; the first entry that matches decides.
func applyStep(rules Rules, e dag.TaskError, stderr string) (dag.TaskError, []string) {
	e.Decided = true
	var why []string
	for i, r := range rules.FailOn {
		ok, err := matches(r, e, stderr)
		if err != nil {
			why = append(why, fmt.Sprintf("fail_on[%d] is passed over: %v", i, err))
		}
		if !ok {
			continue
		}
		// A class that is sealed anyway says more than "permanent".
		if e.Class == dag.ClassTransient {
			e.Class = dag.ClassPermanent
		}
		e.Budget, e.RetryAfter = "", 0
		if r.ErrorCode != "" {
			e.Code = r.ErrorCode
		}
		return e, append(why, fmt.Sprintf("the step's fail_on[%d] matches: %s is %s", i, e.Code, e.Class))
	}
	for i, r := range rules.RetryOn {
		ok, err := matches(r, e, stderr)
		if err != nil {
			why = append(why, fmt.Sprintf("retry_on[%d] is passed over: %v", i, err))
		}
		if !ok {
			continue
		}
		if e.Class != dag.ClassTransient {
			e.Class, e.Budget = dag.ClassTransient, ""
		}
		if r.ErrorCode != "" {
			e.Code = r.ErrorCode
		}
		return e, append(why, fmt.Sprintf("the step's retry_on[%d] matches: %s is transient", i, e.Code))
	}
	return e, why
}

// matches tells whether every condition of a step's rule holds. A code may end
// in a star ("HTTP_5*"). A rule without conditions matches nothing: it is more
// likely a slip than a wish.
func matches(r dag.ErrorRule, e dag.TaskError, stderr string) (bool, error) {
	if len(r.ExitCodes) == 0 && len(r.Codes) == 0 && r.Stderr == "" {
		return false, nil
	}
	if len(r.ExitCodes) > 0 && (e.ExitCode == nil || !slices.Contains(r.ExitCodes, *e.ExitCode)) {
		return false, nil
	}
	if len(r.Codes) > 0 && !slices.ContainsFunc(r.Codes, func(c string) bool { return codeMatches(c, e.Code) }) {
		return false, nil
	}
	if r.Stderr == "" {
		return true, nil
	}
	re, err := regexp.Compile(r.Stderr)
	if err != nil {
		return false, fmt.Errorf("stderr is no regular expression: %w", err)
	}
	return re.MatchString(stderr), nil
}

func codeMatches(pattern, code string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(code, prefix)
	}
	return pattern == code
}
