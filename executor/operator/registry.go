package operator

import (
	"fmt"
	"sort"

	"github.com/airlock-dag/airlock/dag"
)

// Registry is the set of operators that a process has. It is a value that the
// composition root builds; there is no global one.
type Registry struct {
	byName map[string]Operator
}

// NewRegistry holds the given operators; two of one name are a programming
// error and panic.
func NewRegistry(ops ...Operator) *Registry {
	r := &Registry{byName: map[string]Operator{}}
	for _, op := range ops {
		name := op.Spec().Name
		if _, twice := r.byName[name]; twice {
			panic(fmt.Sprintf("operator %q is registered twice", name))
		}
		r.byName[name] = op
	}
	return r
}

// Get finds an operator by its short name.
func (r *Registry) Get(name string) (Operator, bool) {
	op, ok := r.byName[name]
	return op, ok
}

// Specs lists the operators' descriptions, sorted by name.
func (r *Registry) Specs() []dag.OperatorSpec {
	out := make([]dag.OperatorSpec, 0, len(r.byName))
	for _, op := range r.byName {
		out = append(out, op.Spec())
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}
