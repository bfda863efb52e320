package render

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/exec"
)

// maxWidth bounds the widths that padding takes.
const maxWidth = 10_000

// filters are the engine's, bounded, with Airflow's and Python's over them.
func (r *Renderer) filters() *exec.FilterSet {
	set := map[string]exec.FilterFunction{}
	for _, name := range filterNames() {
		f, ok := builtins.Filters.Get(name)
		if !ok {
			continue
		}
		set[name] = func(e *exec.Evaluator, in *exec.Value, params *exec.VarArgs) *exec.Value {
			if err := growth(name, in, params); err != nil {
				return exec.AsValue(r.budget.fail(err))
			}
			return r.bounded(f(e, in, params))
		}
	}
	for name, f := range r.ownFilters() {
		set[name] = func(_ *exec.Evaluator, in *exec.Value, params *exec.VarArgs) *exec.Value {
			if in.IsError() {
				return in
			}
			v, err := f(toGo(in), params)
			if err != nil {
				return exec.AsValue(r.budget.fail(err))
			}
			return r.bounded(exec.AsValue(v))
		}
	}
	fallback := func(_ *exec.Evaluator, in *exec.Value, params *exec.VarArgs) *exec.Value {
		other := params.First()
		if v, ok := params.KwArgs["default_value"]; ok {
			other = v
		}
		falsy := params.KwArgs["boolean"]
		if len(params.Args) > 1 {
			falsy = params.Args[1]
		}
		// None is a value like any other, as in Jinja.
		if in.IsError() || falsy != nil && truth(toGo(falsy)) && !truth(toGo(in)) {
			if other.IsNil() && len(params.Args) == 0 {
				return exec.AsValue("")
			}
			return other
		}
		return in
	}
	set["default"], set["d"] = fallback, fallback
	return exec.NewFilterSet(set)
}

// filterNames are the filters of the engine that are let through.
func filterNames() []string {
	return strings.Fields(`abs attr batch capitalize center count dictsort e escape filesizeformat first float forceescape
		groupby indent int join last length list lower map max min pprint reject rejectattr replace reverse round
		safe select selectattr slice sort striptags sum title trim truncate unique upper urlencode wordcount wordwrap xmlattr`)
}

// bounded makes what a filter gives count.
func (r *Renderer) bounded(v *exec.Value) *exec.Value {
	if v == nil || v.IsError() {
		return v
	}
	size := 1
	switch {
	case v.IsString():
		size = len(v.String())
	case v.IsList():
		size = 16 * v.Len()
	}
	if err := r.budget.spend(size); err != nil {
		return exec.AsValue(err)
	}
	return v
}

// growth refuses a filter or method before it makes something huge.
func growth(name string, in *exec.Value, params *exec.VarArgs) error {
	if in.IsError() {
		return nil
	}
	for _, a := range params.Args {
		if a.IsInteger() && a.Integer() > maxWidth && (name == "center" || name == "indent" || name == "wordwrap" ||
			name == "batch" || name == "slice" || name == "ljust" || name == "rjust" || name == "zfill" || name == "expandtabs") {
			return fmt.Errorf("%s: %d is more than %d", name, a.Integer(), maxWidth)
		}
	}
	switch name {
	case "replace":
		if len(params.Args) > 1 {
			n := strings.Count(in.String(), params.Args[0].String())
			if extra := params.Args[1].String(); len(extra) > 0 && n > (MaxOutput-len(in.String()))/len(extra) {
				return errTooLarge
			}
		}
	case "join":
		if !in.IsList() {
			return nil
		}
		total := in.Len() * len(params.First().String())
		for i := range in.Len() {
			total += len(pyStr(toGo(exec.ToValue(in.Index(i).Val))))
		}
		if total > MaxOutput {
			return errTooLarge
		}
	}
	return nil
}

// ownFilters are Airflow's filters, and those of Jinja that the engine does
// differently.
func (r *Renderer) ownFilters() map[string]func(any, *exec.VarArgs) (any, error) {
	own := map[string]func(any, *exec.VarArgs) (any, error){
		"items": func(v any, _ *exec.VarArgs) (any, error) {
			m, ok := v.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("items takes a mapping, found %s", typeName(v))
			}
			out := []any{}
			for _, k := range slices.Sorted(maps.Keys(m)) {
				out = append(out, []any{k, m[k]})
			}
			return out, nil
		},
		"string": func(v any, _ *exec.VarArgs) (any, error) { return pyStr(v), nil },
		"tojson": func(v any, va *exec.VarArgs) (any, error) {
			indent := 0
			if n, ok := toGo(va.KwArgs["indent"]).(int); ok {
				indent = min(max(n, 0), 16)
			}
			return pyJSON(v, indent)
		},
		"format": func(v any, va *exec.VarArgs) (any, error) {
			args := make([]any, len(va.Args))
			for i := range va.Args {
				args[i] = toGo(va.Args[i])
			}
			if len(va.KwArgs) > 0 {
				named := map[string]any{}
				for k, x := range va.KwArgs {
					named[k] = toGo(x)
				}
				return percent(pyStr(v), named)
			}
			return percent(pyStr(v), args)
		},
		"random": func(v any, _ *exec.VarArgs) (any, error) {
			list, ok := v.([]any)
			if !ok || len(list) == 0 {
				return nil, errors.New("random takes a list that is not empty")
			}
			return list[min(int(r.in.Rand.Float64()*float64(len(list))), len(list)-1)], nil
		},
	}
	for name, f := range dateTexts() {
		own[name] = func(v any, _ *exec.VarArgs) (any, error) {
			m, ok := v.(*moment)
			if !ok {
				return nil, fmt.Errorf("the filter %s takes a datetime, found %s", name, typeName(v))
			}
			return f(m.t), nil
		}
	}
	return own
}

// tests are the engine's, with Jinja's meaning of defined.
func (r *Renderer) tests() *exec.TestSet {
	set := exec.NewTestSet(map[string]exec.TestFunction{}).Update(builtins.Tests)
	for name, want := range map[string]bool{"defined": true, "undefined": false} {
		// Replace fails for a name that is not there or a wrong type: neither.
		_ = set.Replace(name, func(_ *exec.Context, in *exec.Value, _ *exec.VarArgs) (bool, error) {
			return in.IsError() != want, nil
		})
	}
	return set
}

// longNumber tells whether a text holds five digits in a row.
func longNumber(s string) bool {
	run := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			run = 0
		} else if run++; run > 4 {
			return true
		}
	}
	return false
}

// parseDate reads the texts that dates come as.
func parseDate(text string) (*moment, error) {
	for _, layout := range []string{
		"2006-01-02T15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999-0700",
	} {
		if t, err := time.Parse(layout, text); err == nil {
			return &moment{t, aware}, nil
		}
	}
	for _, layout := range []string{
		"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02", "20060102",
	} {
		if t, err := time.Parse(layout, text); err == nil {
			return &moment{t, naive}, nil
		}
	}
	return nil, fmt.Errorf("%q is not a date; write it as 2026-01-31 or 2026-01-31T06:00:00+00:00", text)
}
