package adf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/airlock-dag/airlock/dag"
)

// Options say what a pipeline does not.
type Options struct {
	// Columns are the columns of copies that have no mapping, in order, as
	// "name:type".
	Columns []string
	// Key are the columns that identify a row, for copies that only append.
	Key []string
	// Partial makes activities of a kind that is not converted empty tasks, so
	// that the others keep their order; else they are errors.
	Partial bool
}

// Convert reads a file with a pipeline, or with an ARM template that holds
// pipelines and datasets, and gives a DAG file. The problems have the places of
// the input; when one is an error the text is empty.
func Convert(file string, data []byte, o Options) (text string, problems []dag.Problem, err error) {
	if err := checkJSON(file, data); err != nil {
		return "", nil, err
	}
	var doc yaml.Node
	// JSON is YAML, and this reader knows the place of each value.
	if err := yaml.Unmarshal(data, &doc); err != nil || len(doc.Content) == 0 {
		return "", nil, fmt.Errorf("%s: %w", file, errors.Join(err, errors.New("no pipeline in it")))
	}
	c := &converter{file: file, o: o, datasets: map[string]node{}}
	pipelines := c.find(node{n: doc.Content[0]})
	if len(pipelines) == 0 {
		return "", nil, &dag.Error{Code: dag.ErrInvalid, Op: "import " + file, Err: errors.New("there is no pipeline in it"),
			Hint: "give the JSON of a pipeline (with properties.activities), or an exported ARM template"}
	}
	w := &writer{}
	w.line(0, "# Converted from %s of Azure Data Factory by `airlock import adf`.", path.Base(file))
	for _, p := range pipelines {
		c.pipeline(w, p)
	}
	slices.SortStableFunc(c.problems, func(a, b dag.Problem) int { return a.Line - b.Line })
	if slices.ContainsFunc(c.problems, func(p dag.Problem) bool { return p.Severity == dag.SeverityError }) {
		return "", c.problems, nil
	}
	return w.String(), c.problems, nil
}

// checkJSON finds what is no JSON, which a YAML reader would take all the same.
func checkJSON(file string, data []byte) error {
	var v any
	err := json.Unmarshal(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), &v)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		before := data[:min(int(syntax.Offset), len(data))]
		err = fmt.Errorf("line %d: %w", bytes.Count(before, []byte("\n"))+1, err)
	}
	if err != nil {
		return &dag.Error{Code: dag.ErrInvalid, Op: "import " + file, Err: fmt.Errorf("the file is not JSON: %w", err), Hint: "export the pipeline once more"}
	}
	return nil
}

type converter struct {
	file     string
	o        Options
	datasets map[string]node
	problems []dag.Problem
}

func (c *converter) add(at node, severity dag.Severity, code, format string, args ...any) {
	p := dag.Problem{File: c.file, Severity: severity, Code: code, Message: fmt.Sprintf(format, args...)}
	if at.n != nil {
		p.Line, p.Column = at.n.Line, at.n.Column
	}
	c.problems = append(c.problems, p)
}

func (c *converter) err(at node, format string, args ...any) {
	c.add(at, dag.SeverityError, "adf", format, args...)
}

func (c *converter) warn(at node, format string, args ...any) {
	c.add(at, dag.SeverityWarning, "adf", format, args...)
}

// known reports keys that Data Factory does not have, with the nearest it has.
func (c *converter) known(of node, what string, names ...string) {
	for _, k := range of.keys() {
		if slices.Contains(names, k.text()) {
			continue
		}
		near := ""
		for _, n := range names { // "timeOut", and "retries" for "retry"
			if begin := min(4, len(n)); strings.EqualFold(n, k.text()) || (near == "" && len(k.text()) >= begin && strings.EqualFold(n[:begin], k.text()[:begin])) {
				near = n
			}
		}
		if best := dag.Nearest(k.text(), names); best != "" {
			near = best
		}
		if near != "" {
			c.err(k, "%s has no %q; did you mean %q?", what, k.text(), near)
		} else {
			c.err(k, "%s has no %q; it has %s", what, k.text(), strings.Join(names, ", "))
		}
	}
}

// find collects pipelines and datasets.
func (c *converter) find(root node) []node {
	if root.get("activities").n != nil || root.get("properties").get("activities").n != nil {
		return []node{root}
	}
	var out []node
	for _, r := range root.get("resources").items() {
		switch typ := r.get("type").text(); {
		case strings.HasSuffix(typ, "/pipelines"):
			out = append(out, r)
		case strings.HasSuffix(typ, "/datasets"):
			c.datasets[resourceName(r.get("name").text())] = r.get("properties")
		}
	}
	return out
}

var lastPart = regexp.MustCompile(`/?([^/'"]+)['"]?\)?\]?$`)

// resourceName takes the name out of "[concat(parameters('factoryName'), '/Orders')]".
func resourceName(text string) string {
	if m := lastPart.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return text
}

var notInID = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// id makes a name that Airlock takes.
func id(name string) string {
	out := strings.Trim(notInID.ReplaceAllString(name, "_"), "_")
	if out == "" {
		return "unnamed"
	}
	return strings.ToLower(out)
}

func (c *converter) pipeline(w *writer, p node) {
	name := resourceName(p.get("name").text())
	props := p.get("properties")
	if props.n == nil {
		props = p
	}
	if name == "" {
		base := path.Base(c.file)
		name = strings.TrimSuffix(base, path.Ext(base))
	}
	w.line(0, "%s:", id(name))
	if d := props.get("description").text(); d != "" {
		w.pair(1, "description", d)
	}
	w.line(1, "schedule: null")
	w.line(1, "catchup: false")
	if n := props.get("concurrency"); n.n != nil {
		w.line(1, "max_active_runs: %s", n.text())
	}
	c.parameters(w, props.get("parameters"))
	w.line(1, "tasks:")
	seen := map[string]node{}
	for _, a := range props.get("activities").items() {
		task := id(a.get("name").text())
		if _, twice := seen[task]; twice {
			c.err(a.get("name"), "two activities have the task id %q", task)
		}
		seen[task] = a
	}
	if len(seen) == 0 {
		c.err(props, "the pipeline has no activities")
	}
	for _, a := range props.get("activities").items() {
		c.activity(w, a, seen)
	}
}

func (c *converter) parameters(w *writer, params node) {
	if len(params.keys()) == 0 {
		return
	}
	w.line(1, "params:")
	for _, k := range params.keys() {
		v := params.get(k.text()).get("defaultValue")
		if v.n == nil {
			w.line(2, "%s: null", quoted(k.text()))
			continue
		}
		w.line(2, "%s: %s", quoted(k.text()), v.json())
	}
}

// conditions are the dependency conditions that all dependencies of an activity
// share, as a trigger rule.
var conditions = map[string]string{"Succeeded": "all_success", "Completed": "all_done", "Failed": "all_failed", "Skipped": "all_skipped"}

func (c *converter) activity(w *writer, a node, all map[string]node) {
	name := a.get("name").text()
	w.line(2, "%s:", id(name))
	if id(name) != name {
		w.pair(3, "task_display_name", name)
	}
	if d := a.get("description").text(); d != "" {
		w.pair(3, "doc_md", d)
	}
	switch typ := a.get("type"); typ.text() {
	case "Copy":
		c.copyActivity(w, a)
	case "Script", "SqlServerStoredProcedure":
		c.sqlActivity(w, a)
	default:
		if !c.o.Partial {
			c.err(typ, "activities of type %q are not converted; --partial leaves an empty task in their place", typ.text())
		} else {
			c.warn(typ, "the activity %q of type %q is an empty task now: write what it does", name, typ.text())
		}
		w.line(3, "operator: empty")
	}
	c.policy(w, a)
	c.dependencies(w, a, all)
	if s := a.get("state").text(); s == "Inactive" {
		c.warn(a.get("state"), "the activity %q is inactive in Data Factory and is a task like any other here", name)
	}
}

func (c *converter) dependencies(w *writer, a node, all map[string]node) {
	var ids []string
	rule := ""
	for _, d := range a.get("dependsOn").items() {
		on := id(d.get("activity").text())
		if _, known := all[on]; !known {
			c.err(d.get("activity"), "the pipeline has no activity %q", d.get("activity").text())
			continue
		}
		ids = append(ids, quoted(on))
		for _, cond := range d.get("dependencyConditions").items() {
			is, known := conditions[cond.text()]
			switch {
			case !known:
				c.err(cond, "there is no dependency condition %q; there are Succeeded, Failed, Skipped and Completed", cond.text())
			case rule != "" && rule != is:
				c.err(cond, "the dependencies of %q have different conditions; a task has one trigger rule", a.get("name").text())
			}
			rule = is
		}
	}
	if len(ids) == 0 {
		return
	}
	w.line(3, "dependencies: [%s]", strings.Join(ids, ", "))
	if rule != "" && rule != "all_success" {
		w.line(3, "trigger_rule: %s", rule)
	}
}
