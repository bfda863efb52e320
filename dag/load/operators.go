package load

import (
	"sort"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// operators finds an operator by what a file calls it.
type operators struct {
	specs map[string]*dag.OperatorSpec // by short name and alias
	short []string                     // short names, sorted
	all   []string                     // every name
	// anyField has the keys of every operator: default_args may hold them.
	anyField   map[string]bool
	fieldNames []string
}

func newOperators(specs []dag.OperatorSpec) *operators {
	o := &operators{specs: map[string]*dag.OperatorSpec{}, anyField: map[string]bool{}}
	for i := range specs {
		s := &specs[i]
		o.short = append(o.short, s.Name)
		for _, name := range append([]string{s.Name}, s.Aliases...) {
			o.specs[name] = s
			o.all = append(o.all, name)
		}
		for _, f := range s.Fields {
			o.anyField[f.Name] = true
		}
		for _, name := range s.Ignored {
			o.anyField[name] = true
		}
	}
	for name := range o.anyField {
		o.fieldNames = append(o.fieldNames, name)
	}
	sort.Strings(o.short)
	sort.Strings(o.fieldNames)
	return o
}

// field finds a key of an operator.
func specField(s *dag.OperatorSpec, name string) *dag.Field {
	for i := range s.Fields {
		if s.Fields[i].Name == name {
			return &s.Fields[i]
		}
	}
	return nil
}

func fieldNames(fields []dag.Field) []string {
	out := make([]string, len(fields))
	for i := range fields {
		out[i] = fields[i].Name
	}
	return out
}

// provider names what an Airflow class path belongs to, where it is one that
// Airlock has nothing of; "" otherwise.
func provider(path string) string {
	for _, p := range []struct{ part, name string }{
		{"kubernetes", "Kubernetes"}, {"azure", "Azure"}, {"databricks", "Databricks"}, {"amazon", "Amazon"},
		{"google", "Google"}, {"snowflake", "Snowflake"}, {"apache.spark", "Spark"}, {"dbt", "dbt"},
		{"docker", "Docker"}, {"ssh", "SSH"}, {"slack", "Slack"}, {"email", "e-mail"}, {"smtp", "e-mail"}, {"sensor", "sensor"},
	} {
		if strings.Contains(strings.ToLower(path), p.part) {
			return p.name
		}
	}
	return ""
}

// sameKind tells whether two class names are near without the ending that most
// share: HttpOperator is not a misspelt BashOperator.
func sameKind(a, b string) bool {
	for _, end := range []string{"Operator", "Sensor"} {
		if strings.HasSuffix(a, end) && strings.HasSuffix(b, end) {
			return dag.Nearest(strings.TrimSuffix(a, end), []string{strings.TrimSuffix(b, end)}) != ""
		}
	}
	return true
}

// unknownOperator is the message and hint for an operator that there is none
// of.
func (o *operators) unknownOperator(name string) (msg, hint string) {
	have := "Airlock has: " + strings.Join(o.short, ", ")
	if !strings.Contains(name, ".") {
		if c := dag.Nearest(name, o.short); c != "" {
			return "there is no operator " + quote(name), "did you mean " + c + "?"
		}
		return "there is no operator " + quote(name), have
	}
	class := className(name)
	classes := map[string]string{}
	var names []string
	for _, full := range o.all {
		if c := className(full); strings.Contains(full, ".") {
			classes[c] = full
			names = append(names, c)
		}
	}
	if c := dag.Nearest(class, names); c != "" && sameKind(class, c) {
		spec := o.specs[classes[c]]
		return "there is no operator " + quote(name), "did you mean " + classes[c] + ", in short " + spec.Name + "?"
	}
	if p := provider(name); p != "" {
		return "Airlock does not have the " + p + " operator " + quote(class) + " (" + name + ")", have
	}
	if !strings.HasPrefix(name, "airflow.") {
		return "Airlock cannot run the operator " + quote(name) + ": it is a Python class", "use python or bash; " + have
	}
	return "there is no operator " + quote(name), have
}
