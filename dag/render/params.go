package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/airlock-dag/airlock/dag"
)

// MergeParams gives the params of a run: the run's conf beats the task's
// params, which beat the DAG's. Params with a JSON schema are checked against
// it; every one that fails is named. conf is the run's JSON object, empty for
// none. The error is a *dag.Error of code invalid.
func MergeParams(d *dag.DAG, t *dag.Task, conf json.RawMessage) (map[string]any, error) {
	out := map[string]any{}
	if d != nil {
		for k, v := range d.Params {
			out[k] = normal(v)
		}
	}
	if t != nil {
		for k, v := range t.Params {
			out[k] = normal(v)
		}
	}
	if len(bytes.TrimSpace(conf)) > 0 {
		v, err := decode(conf)
		given, isMap := v.(map[string]any)
		if err != nil || v != nil && !isMap {
			return nil, invalidParams("write it as a JSON object: {\"name\": \"value\"}", errors.New("the run's conf is not a JSON object"))
		}
		for k, x := range given {
			out[k] = x
		}
	}
	if d == nil {
		return out, nil
	}
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(d.ParamSchemas)) {
		value, given := out[name]
		if !given {
			wrong = append(wrong, fmt.Sprintf("%s is not set", name))
			continue
		}
		if err := checkParam(name, d.ParamSchemas[name], value); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	if len(wrong) > 0 {
		return nil, invalidParams("give right values in the run's conf", errors.New(strings.Join(wrong, "; ")))
	}
	return out, nil
}

// InstanceParams gives the params that a task instance sees: those of its run,
// and over them the values of its mapped group, whose instances differ by
// nothing else. payload is the instance's JSON object, empty for none.
func InstanceParams(d *dag.DAG, t *dag.Task, conf, payload json.RawMessage) (map[string]any, error) {
	out, err := MergeParams(d, t, conf)
	if err != nil || d == nil || t == nil || len(payload) == 0 || d.MappedGroup(t) == nil {
		return out, err
	}
	v, err := decode(payload)
	values, isMap := v.(map[string]any)
	if err != nil || !isMap {
		return nil, invalidParams("write it as a JSON object: {\"name\": \"value\"}", errors.New("the values of the mapped group are not a JSON object"))
	}
	for k, x := range values {
		out[k] = x
	}
	return out, nil
}

func invalidParams(hint string, err error) error {
	return &dag.Error{Code: dag.ErrInvalid, Op: "params", Hint: hint, Err: err}
}

// checkParam checks one value against its JSON schema (2020-12).
func checkParam(name string, schema json.RawMessage, value any) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return fmt.Errorf("the schema of %s is not JSON", name)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(noSchemas{})
	where := "mem:///param"
	if err := c.AddResource(where, doc); err != nil {
		return fmt.Errorf("the schema of %s: %w", name, err)
	}
	compiled, err := c.Compile(where)
	if err != nil {
		return fmt.Errorf("the schema of %s: %w", name, err)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := compiled.Validate(instance); err != nil {
		return fmt.Errorf("%s is %s: %s", name, short(raw), schemaMessage(err))
	}
	return nil
}

// noSchemas keeps a schema from reading files or the network.
type noSchemas struct{}

// Load implements jsonschema.URLLoader.
func (noSchemas) Load(url string) (any, error) {
	return nil, fmt.Errorf("a schema of a param cannot refer to %s", url)
}

// schemaMessage is the innermost reasons of a failed check, without places.
func schemaMessage(err error) string {
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return err.Error()
	}
	var reasons []string
	var walk func(*jsonschema.ValidationError)
	walk = func(v *jsonschema.ValidationError) {
		if len(v.Causes) == 0 {
			text := v.Error()
			if i := strings.LastIndex(text, "': "); i >= 0 {
				text = text[i+3:]
			}
			reasons = append(reasons, strings.TrimSpace(text))
		}
		for _, c := range v.Causes {
			walk(c)
		}
	}
	walk(v)
	slices.Sort(reasons)
	return strings.Join(slices.Compact(reasons), ", ")
}

func short(raw []byte) string {
	const limit = 80
	if len(raw) > limit {
		return strings.ToValidUTF8(string(raw[:limit]), "") + "..."
	}
	return string(raw)
}

// list is names for a person: "a, b", or "none".
func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
