package render

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/exec"
)

// methods are the engine's methods of values, with those of texts bounded and,
// where the engine gets them wrong, replaced.
func (r *Renderer) methods() exec.Methods {
	m := builtins.Methods
	texts := map[string]exec.Method[string]{}
	for _, name := range strings.Fields(`capitalize casefold count endswith expandtabs find format isalnum isalpha isascii
		isdecimal isdigit islower isnumeric isprintable isspace istitle isupper join lower lstrip partition removeprefix
		removesuffix rfind rpartition rstrip splitlines startswith strip swapcase title upper zfill`) {
		if f, ok := m.Str.Get(name); ok {
			texts[name] = r.boundedMethod(name, f)
		}
	}
	for name, f := range textMethods() {
		texts[name] = r.boundedMethod(name, func(self string, _ *exec.Value, va *exec.VarArgs) (any, error) { return f(self, va) })
	}
	m.Str = exec.NewMethodSet(texts)
	return m
}

func (r *Renderer) boundedMethod(name string, f exec.Method[string]) exec.Method[string] {
	return func(self string, v *exec.Value, va *exec.VarArgs) (any, error) {
		subject, params := v, va
		if name == "join" { // sep.join(list) grows as list|join(sep)
			subject, params = va.First(), &exec.VarArgs{Args: []*exec.Value{v}}
		}
		if err := growth(name, subject, params); err != nil {
			return nil, r.budget.fail(err)
		}
		if name == "format" && longNumber(self) {
			return nil, r.budget.fail(fmt.Errorf("format: a width is more than %d", maxWidth))
		}
		out, err := f(self, v, va)
		if err != nil {
			return nil, err
		}
		return out, r.budget.spend(sizeOf(out))
	}
}

// textMethods are Python's methods of texts that the engine lacks or gets wrong.
func textMethods() map[string]func(string, *exec.VarArgs) (any, error) {
	return map[string]func(string, *exec.VarArgs) (any, error){
		"split":  func(s string, va *exec.VarArgs) (any, error) { return split(s, va, false) },
		"rsplit": func(s string, va *exec.VarArgs) (any, error) { return split(s, va, true) },
		"replace": func(s string, va *exec.VarArgs) (any, error) {
			if len(va.Args) < 2 {
				return nil, fmt.Errorf("replace takes the old text and the new")
			}
			return strings.Replace(s, pyStr(toGo(va.Args[0])), pyStr(toGo(va.Args[1])), intArg(va, 2, "count", -1)), nil
		},
		"ljust":  func(s string, va *exec.VarArgs) (any, error) { return pad(s, va, 0, 1) },
		"rjust":  func(s string, va *exec.VarArgs) (any, error) { return pad(s, va, 1, 0) },
		"center": func(s string, va *exec.VarArgs) (any, error) { return pad(s, va, 1, 1) },
	}
}

func intArg(va *exec.VarArgs, at int, name string, fallback int) int {
	v := any(nil)
	if at < len(va.Args) {
		v = toGo(va.Args[at])
	} else if x, ok := va.KwArgs[name]; ok {
		v = toGo(x)
	}
	if n, ok := v.(int); ok {
		return n
	}
	return fallback
}

// split is Python's split and rsplit: without a separator it splits at blanks.
func split(s string, va *exec.VarArgs, right bool) (any, error) {
	sep := textArg(va, 0, "sep", "None")
	limit := intArg(va, 1, "maxsplit", -1)
	var parts []string
	switch sep {
	case "None":
		parts = strings.Fields(s)
		if limit >= 0 && len(parts) > limit+1 {
			return nil, fmt.Errorf("split with a limit needs a separator")
		}
	case "":
		return nil, fmt.Errorf("split needs a separator that is not empty")
	default:
		parts = strings.Split(s, sep)
	}
	if limit >= 0 && len(parts) > limit+1 {
		if right {
			at := len(parts) - limit
			parts = append([]string{strings.Join(parts[:at], sep)}, parts[at:]...)
		} else {
			parts = append(parts[:limit:limit], strings.Join(parts[limit:], sep))
		}
	}
	out := make([]any, len(parts))
	for i := range parts {
		out[i] = parts[i]
	}
	return out, nil
}

// pad fills a text up to a width, before and after it by the given shares.
func pad(s string, va *exec.VarArgs, before, after int) (any, error) {
	missing := intArg(va, 0, "width", 0) - utf8.RuneCountInString(s)
	fill := textArg(va, 1, "fillchar", " ")
	if utf8.RuneCountInString(fill) != 1 {
		return nil, fmt.Errorf("the fill is one character")
	}
	if missing <= 0 {
		return s, nil
	}
	left := missing * before / (before + after)
	return strings.Repeat(fill, left) + s + strings.Repeat(fill, missing-left), nil
}
