package load

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/render"
)

// placeFor is what an operator is told of where its task stands.
func (b *builder) placeFor(t *taskDraft) dag.Place {
	dir := path.Dir(b.src.path)
	out := dag.Place{
		Mapped: map[string][]any{},
		Beside: func(name string) ([]byte, string, bool) {
			f, ok := b.l.settingFiles[path.Join(dir, name)]
			return f.Data, f.Path, ok && f.Err == nil
		},
	}
	if stat := b.opts.Stat; stat != nil {
		out.Stat = func(p string) (fs.FileInfo, error) {
			if !filepath.IsAbs(p) {
				p = filepath.Join(filepath.FromSlash(dir), p)
			}
			return stat(p)
		}
	}
	if t.task.Expand != nil {
		for name, src := range t.task.Expand.Args {
			out.Mapped[name] = src.Literal
		}
	}
	return out
}

// templates tries the templates of a task's keys.
func (b *builder) templates(t *taskDraft, args map[string]any, at dag.Place) []dag.Problem {
	var out []dag.Problem
	try := b.taskTemplate(t)
	for i := range t.spec.Fields {
		f := &t.spec.Fields[i]
		if !f.Templated {
			continue
		}
		values := at.Literal(args, f.Name)
		for _, p := range slices.Sorted(maps.Keys(values)) {
			eachText(values[p], p, func(p, text string) {
				if problem, bad := b.template(try(text), t.group != nil); bad {
					problem.Path = p
					out = append(out, problem)
				}
			})
		}
	}
	return out
}

// taskTemplate gives what tries one template of a task. Tasks without params of
// their own see the same names, and many have the same texts: they share a checker
// and what it found.
func (b *builder) taskTemplate(t *taskDraft) func(text string) error {
	if len(t.task.Params) > 0 {
		return render.NewChecker(b.d, &t.task, nil).Check
	}
	if b.checker == nil {
		b.checker, b.checked = render.NewChecker(b.d, &t.task, nil), map[string]error{}
	}
	return func(text string) error {
		err, known := b.checked[text]
		if !known {
			err = b.checker.Check(text)
			b.checked[text] = err
		}
		return err
	}
}

// template tells what was found of one template, in a group or not; bad is false
// where nothing can be said against it.
func (b *builder) template(err error, grouped bool) (p dag.Problem, bad bool) {
	var known *dag.Error
	if !errors.As(err, &known) {
		return p, false
	}
	p = dag.Problem{Severity: dag.SeverityError, Code: codeTemplate, Message: fmt.Sprintf("the template fails: %v", known.Err), Hint: known.Hint}
	if errors.Is(err, render.ErrUndeclaredParam) {
		// A run's conf may give it, and the values of a mapped group do.
		p.Severity = dag.SeverityWarning
		p.Message = fmt.Sprintf("the template fails where a run's conf does not give it: %v", known.Err)
		return p, !grouped
	}
	return p, true
}

// eachText visits the texts in a value, with their paths.
func eachText(v any, at string, visit func(path, text string)) {
	switch v := v.(type) {
	case string:
		visit(at, v)
	case []any:
		for i := range v {
			eachText(v[i], index(at, i), visit)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			eachText(v[k], join(at, k), visit)
		}
	}
}
