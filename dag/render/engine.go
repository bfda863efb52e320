package render

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/parser"

	"github.com/airlock-dag/airlock/dag"
)

// Renderer renders the templates of one task instance. It is safe for
// concurrent use, one template at a time.
type Renderer struct {
	in     Input
	mu     sync.Mutex // one template at a time: budget is the running one's
	env    *exec.Environment
	cfg    *config.Config
	names  map[string]any
	budget *budget
	vars   func() map[string]string
	prev   func() (*dag.Run, error)
}

// New prepares a renderer. Nothing is read or computed before a template asks.
func New(in Input) *Renderer {
	if in.Clock == nil {
		in.Clock = dag.SystemClock{}
	}
	if in.Rand == nil {
		in.Rand = dag.SystemRand{}
	}
	if in.IDs == nil {
		in.IDs = dag.SystemIDs{}
	}
	if in.Timeout <= 0 {
		in.Timeout = DefaultTimeout
	}
	r := &Renderer{in: in}
	r.vars = sync.OnceValue(func() map[string]string {
		if in.Variables == nil {
			return nil
		}
		return in.Variables()
	})
	r.prev = sync.OnceValues(func() (*dag.Run, error) {
		if in.PreviousSuccess == nil {
			return nil, nil
		}
		return in.PreviousSuccess()
	})
	return r
}

// IsTemplate tells whether a text holds anything to render.
func IsTemplate(text string) bool { return nextTag(text) >= 0 }

// setUp builds the engine on the first template.
func (r *Renderer) setUp() {
	if r.env != nil {
		return
	}
	r.cfg = config.New()
	r.cfg.StrictUndefined = true
	r.cfg.KeepTrailingNewline = true
	r.names = r.context()
	all := maps.Clone(r.names)
	maps.Copy(all, r.operators())
	for _, name := range []string{"dict", "namespace", "cycler", "joiner"} {
		if v, ok := builtins.GlobalFunctions.Get(name); ok {
			all[name] = v
		}
	}
	r.env = &exec.Environment{
		Context:           exec.NewContext(all),
		Filters:           r.filters(),
		Tests:             r.tests(),
		ControlStructures: r.structures(),
		Methods:           r.methods(),
	}
}

// structures are the statements that templates may use: none that reads
// another template, and none that can call itself.
func (r *Renderer) structures() *exec.ControlStructureSet {
	allowed := map[string]parser.ControlStructureParser{}
	for _, name := range []string{"if", "set", "with", "raw", "filter", "do", "break", "continue"} {
		if p, ok := builtins.ControlStructures.Get(name); ok {
			allowed[name] = p
		}
	}
	if p, ok := builtins.ControlStructures.Get("for"); ok {
		allowed["for"] = func(outer, args *parser.Parser) (nodes.ControlStructure, error) {
			inner, err := p(outer, args)
			if err != nil {
				return nil, err
			}
			loop, ok := inner.(exec.ControlStructure)
			if !ok {
				return inner, nil
			}
			return &boundedLoop{ControlStructure: loop, r: r}, nil
		}
	}
	return exec.NewControlStructureSet(allowed)
}

// boundedLoop looks at the budget whenever a loop begins, so that loops within
// loops end even when they do nothing.
type boundedLoop struct {
	exec.ControlStructure
	r *Renderer
}

// Execute implements exec.ControlStructure.
func (l *boundedLoop) Execute(r *exec.Renderer, tag *nodes.ControlStructureBlock) error {
	if err := l.r.budget.spend(1); err != nil {
		return err
	}
	return l.ControlStructure.Execute(r, tag)
}

// noFiles is the loader of templates that may not name other templates.
type noFiles struct{ source string }

const rootName = "template"

// Read implements loaders.Loader.
func (l noFiles) Read(path string) (io.Reader, error) {
	if path != rootName {
		return nil, fmt.Errorf("a template cannot read the file %q", path)
	}
	return strings.NewReader(l.source), nil
}

// Resolve implements loaders.Loader.
func (l noFiles) Resolve(path string) (string, error) { return path, nil }

// Inherit implements loaders.Loader.
func (l noFiles) Inherit(string) (loaders.Loader, error) { return l, nil }

// compiled is a parsed template with Python's operators in place.
type compiled struct {
	template *exec.Template
	// single is the expression of a template that is one {{ expression }} and
	// nothing else; nil otherwise.
	single nodes.Expression
}

func (r *Renderer) compile(source string) (*compiled, error) {
	if err := checkSource(source); err != nil {
		return nil, err
	}
	if err := checkTags(source, r.cfg); err != nil {
		return nil, err
	}
	tpl, err := exec.NewTemplate(rootName, r.cfg, noFiles{inlineIfs(source)}, r.env)
	if err != nil {
		return nil, err
	}
	c := &compiled{template: tpl}
	if root := tpl.Root(); len(root.Nodes) == 1 {
		if out, ok := root.Nodes[0].(*nodes.Output); ok && out.Condition == nil {
			c.single = out.Expression
		}
	}
	rewrite(tpl.Root())
	return c, nil
}

// run does one template's work under a fresh budget, with panics of the engine
// turned into errors.
func (r *Renderer) run(source string, work func(c *compiled) error) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setUp()
	r.budget = &budget{clock: r.in.Clock, deadline: r.in.Clock.Now().Add(r.in.Timeout), timeout: r.in.Timeout}
	read := false
	defer func() {
		switch p := recover(); {
		case p == nil:
		case !read: // the parser stumbles where an expression ends in "is" or "not"
			err = r.explain(source, &malformed{"the template cannot be read: an expression in it is not whole"})
		default:
			err = r.explain(source, fmt.Errorf("the template engine failed: %v", p))
		}
	}()
	c, err := r.compile(source)
	read = true
	if err == nil {
		err = r.addPrevious(source)
	}
	if err == nil {
		err = work(c)
	}
	if err == nil {
		err = r.budget.over // a default filter may have swallowed it
	}
	if err != nil {
		return r.explain(source, err)
	}
	return nil
}

// eval evaluates one expression of a compiled template.
func (r *Renderer) eval(c *compiled, expr nodes.Expression) (any, error) {
	engine := exec.NewRenderer(&exec.Environment{
		Context: r.env.Context.Inherit(), Filters: r.env.Filters, Tests: r.env.Tests,
		ControlStructures: r.env.ControlStructures, Methods: r.env.Methods,
	}, io.Discard, r.cfg, noFiles{}, c.template)
	v := engine.Eval(expr)
	if v.IsError() {
		return nil, fmt.Errorf("at line %d: %w", expr.Position().Line, v)
	}
	return toGo(v), nil
}

// execute renders a compiled template to text.
func (r *Renderer) execute(c *compiled) (string, error) {
	var out boundedOutput
	out.budget = r.budget
	if err := c.template.Execute(&out, exec.EmptyContext()); err != nil {
		return "", err
	}
	return out.String(), nil
}

// boundedOutput refuses to grow beyond MaxOutput.
type boundedOutput struct {
	strings.Builder
	budget *budget
}

// Write implements io.Writer.
func (o *boundedOutput) Write(p []byte) (int, error) {
	if o.Len()+len(p) > MaxOutput {
		return 0, o.budget.fail(errTooLarge)
	}
	return o.Builder.Write(p)
}

// WriteString implements io.StringWriter, which the engine writes through.
func (o *boundedOutput) WriteString(s string) (int, error) {
	if o.Len()+len(s) > MaxOutput {
		return 0, o.budget.fail(errTooLarge)
	}
	return o.Builder.WriteString(s)
}

var (
	errTooLarge = errors.New("the result is larger than 1 MiB")
	errTooMuch  = errors.New("the template makes too much text on its way")
)

// budget bounds one template's work.
type budget struct {
	clock    dag.Clock
	deadline time.Time
	timeout  time.Duration
	bytes    int
	// errs are the failures in words of this package: the engine keeps only the
	// text of errors that functions return.
	errs []error
	// over is set when a limit was passed: nothing makes that good.
	over error
}

// maxWork bounds the bytes that all steps of a template make together.
const maxWork = 64 << 20

// spend takes a step's cost, in bytes made, from the budget.
func (b *budget) spend(bytes int) error {
	b.bytes += bytes
	if bytes > MaxOutput {
		b.over = errTooLarge
		return b.fail(b.over)
	}
	if b.bytes > maxWork {
		b.over = errTooMuch
		return b.fail(b.over)
	}
	if b.clock.Now().After(b.deadline) {
		b.over = fmt.Errorf("the template took longer than %s", b.timeout)
		return b.fail(b.over)
	}
	return nil
}

func (b *budget) fail(err error) error {
	b.errs = append(b.errs, err)
	return err
}
