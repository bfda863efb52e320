package render

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/parser"

	"github.com/airlock-dag/airlock/dag"
)

// explain turns an error of the engine into one that says the line, what is
// wrong and what to do.
func (r *Renderer) explain(source string, err error) error {
	line := lineOf(source, err)
	cause, hint := r.causeOf(err)
	op := "template"
	if line > 0 {
		op = fmt.Sprintf("template line %d", line)
	}
	return &dag.Error{Code: dag.ErrInvalid, Op: op, Hint: hint, Err: cause}
}

// lineOf is the innermost line that an error names; 0 when it names none.
func lineOf(source string, err error) int {
	if strings.Count(source, "\n") == 0 {
		return 1
	}
	var syntax *parser.SyntaxError
	if errors.As(err, &syntax) && syntax.Line > 0 {
		return syntax.Line
	}
	line := 0
	for _, m := range namedLine.FindAllStringSubmatch(err.Error(), -1) {
		n := 0
		if _, scanErr := fmt.Sscan(m[1], &n); scanErr == nil && n > 0 {
			line = n
		}
	}
	return line
}

// root unwraps an error to its innermost cause; the engine wraps errors in its
// own values too.
func root(err error) error {
	for {
		var next error
		if v, ok := err.(*exec.Value); ok { //nolint:errorlint // one step at a time
			next, _ = v.Interface().(error)
		} else {
			next = errors.Unwrap(err)
		}
		if next == nil {
			return err
		}
		err = next
	}
}

func (r *Renderer) causeOf(err error) (cause error, hint string) {
	text := err.Error()
	if r.budget != nil {
		for i := len(r.budget.errs) - 1; i >= 0; i-- {
			if own := r.budget.errs[i]; strings.Contains(text, own.Error()) {
				return own, ""
			}
		}
	}
	inner := root(err)
	var syntax *parser.SyntaxError
	if errors.As(err, &syntax) {
		return syntaxCause(syntax)
	}
	words := inner.Error()
	if m := unknownName.FindStringSubmatch(words); m != nil {
		return &undefined{m[1]}, r.nameHint(m[1])
	}
	if m := notCallable.FindStringSubmatch(words); m != nil {
		if _, known := r.names[m[1]]; !known {
			return &undefined{m[1]}, r.nameHint(m[1])
		}
		return fmt.Errorf("%s is not a function", m[1]), ""
	}
	if m := unknownMethod.FindStringSubmatch(words); m != nil {
		return fmt.Errorf("there is no method %q here", m[1]), ""
	}
	if m := unknownAttribute.FindStringSubmatch(words); m != nil {
		hint := "give a default where it may be missing: {{ NAME | default('...') }}"
		if m[1] == "params" {
			hint = "params of this run are " + list(slices.Collect(maps.Keys(r.in.Params))) + "; " + hint
		}
		return &undefinedAttribute{of: m[1], name: m[2]}, hint
	}
	if m := unknownItem.FindStringSubmatch(words); m != nil {
		if strings.Contains(m[1], "(") {
			return errors.New("there is no such item"), ""
		}
		return fmt.Errorf("there is no item %s", m[1]), ""
	}
	if strings.Contains(words, "Can't use getattr on None") || strings.Contains(words, "Can't use Getitem on None") {
		return errors.New("a value is None where its field is read"), "check it first: {% if x is not none %}"
	}
	var miss *missing
	if errors.As(inner, &miss) {
		return miss, ""
	}
	return trimmed(inner), ""
}

// undefined is a name that stands for nothing.
type undefined struct{ name string }

// Error implements error.
func (u *undefined) Error() string { return fmt.Sprintf("%q is not defined", u.name) }

// undefinedAttribute is a name that something does not have.
type undefinedAttribute struct{ of, name string }

// Error implements error.
func (u *undefinedAttribute) Error() string { return fmt.Sprintf("%q is not defined here", u.name) }

// malformed is a template that cannot be read.
type malformed struct{ text string }

// Error implements error.
func (m *malformed) Error() string { return m.text }

// The engine's errors have no types, only these texts.
var (
	unknownName      = regexp.MustCompile(`^Unable to evaluate name "(.*)"$`)
	notCallable      = regexp.MustCompile(`^(\w+) is not callable$`)
	unknownMethod    = regexp.MustCompile(`(?s)^invalid call to method '(\w+)' of .*(?:unknown method '|is not callable on )`)
	unknownAttribute = regexp.MustCompile(`^Unable to evaluate (\w*).*: attribute '(\w+)' not found$`)
	unknownFilter    = regexp.MustCompile(`filter '(\w+)' not found`)
	unknownItem      = regexp.MustCompile(`(?s)item '?(.*?)'? not found$`)
	unknownStatement = regexp.MustCompile(`^ControlStructure '(\w+)' not found`)
	namedLine        = regexp.MustCompile(`at line (\d+)`)
)

func syntaxCause(s *parser.SyntaxError) (cause error, hint string) {
	if m := unknownStatement.FindStringSubmatch(s.Message); m != nil {
		return &malformed{"there is no statement {% " + m[1] + " %}"}, "statements are if, for, set, with, raw, filter, do, break and continue"
	}
	if s.Raw == "unclosed comment" {
		return &malformed{"the comment that {# begins has no #} at its end"}, "where {# is no comment, write {% raw %}${#list[@]}{% endraw %}"
	}
	if s.Raw == "" {
		return &malformed{strings.TrimSuffix(s.Message, ".")}, ""
	}
	return &malformed{fmt.Sprintf("%s, near %q", strings.TrimSuffix(s.Message, "."), s.Raw)}, ""
}

// trimmed keeps an engine's message short.
func trimmed(err error) error {
	const limit = 500
	if s := err.Error(); len(s) > limit {
		return errors.New(strings.ToValidUTF8(s[:limit], "") + "...")
	}
	return err
}

// nameHint says what to write instead of a name that is not there.
func (r *Renderer) nameHint(name string) string {
	if _, dated := dateTexts()[name]; dated || name == "logical_date" || strings.HasPrefix(name, "data_interval_") {
		if r.in.Run != nil && r.in.Run.LogicalDate == nil {
			return "the run has no logical date, so there is no " + name + "; use dag_run.run_after, or trigger it with a date"
		}
		if r.in.Run == nil {
			return "there is no run here"
		}
		return "the run has no data interval"
	}
	if instead, ok := goneNames()[name]; ok {
		return "Airflow 3 has no " + name + "; write " + instead
	}
	if near := dag.Nearest(name, slices.Collect(maps.Keys(r.names))); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "a text in a template needs quotes; give a default where a name may be missing: {{ " + name + " | default('...') }}"
}

// goneNames are the names of Airflow 2 and what stands for them now.
func goneNames() map[string]string {
	day := func(n string) string { return "macros.ds_add(ds, " + n + ")" }
	return map[string]string{
		"execution_date": "logical_date", "next_ds": "data_interval_end | ds", "next_ds_nodash": "data_interval_end | ds_nodash",
		"next_execution_date": "data_interval_end", "prev_ds": day("-1"), "prev_ds_nodash": day("-1") + ".replace('-', '')",
		"prev_execution_date": "prev_data_interval_start_success", "prev_execution_date_success": "prev_data_interval_start_success",
		"yesterday_ds": day("-1"), "yesterday_ds_nodash": day("-1") + ".replace('-', '')",
		"tomorrow_ds": day("1"), "tomorrow_ds_nodash": day("1") + ".replace('-', '')",
		"conf": "a variable (var.value.NAME) or a param",
	}
}
