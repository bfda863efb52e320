package load

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/airlock-dag/airlock/dag"
)

// readParams reads the DAG's params: plain values, and Param objects with a
// JSON schema.
func (b *builder) readParams() {
	n, path := b.val("params")
	if n == nil {
		return
	}
	if n.kind != mapNode {
		b.rep.err(n, path, codeWrongType, "params must be a mapping, not "+describe(n), "")
		return
	}
	b.d.Params = map[string]any{}
	for _, f := range n.fields {
		value, has, schema := b.readParam(f, join(path, f.name))
		if has {
			b.d.Params[f.name] = value
		}
		if schema != nil {
			if b.d.ParamSchemas == nil {
				b.d.ParamSchemas = map[string]json.RawMessage{}
			}
			b.d.ParamSchemas[f.name] = schema
		}
	}
}

// taskParams reads the params of one task; their schemas are checked and not
// kept, for a task's params cannot be given at trigger time.
func (b *builder) taskParams(n *node, path string) map[string]any {
	if n.kind != mapNode {
		b.rep.err(n, path, codeWrongType, "params must be a mapping, not "+describe(n), "")
		return nil
	}
	out := map[string]any{}
	for _, f := range n.fields {
		if value, has, _ := b.readParam(f, join(path, f.name)); has {
			out[f.name] = value
		}
	}
	return out
}

// isParam tells whether a mapping is a Param object.
func isParam(n *node) bool {
	t := n.get("__type__")
	return t != nil && className(t.text) == "Param"
}

func (b *builder) readParam(f field, path string) (value any, has bool, schema json.RawMessage) {
	if !isParam(f.val) {
		v, ok := b.rep.any(f.val, path)
		return v, ok, nil
	}
	doc := map[string]any{}
	for _, k := range f.val.fields {
		p := join(path, k.name)
		switch k.name {
		case "__type__":
		case "__args__":
			if k.val.kind != listNode || len(k.val.items) > 2 {
				b.rep.err(k.val, p, codeBadParam, "a Param takes a default and a description", "")
				continue
			}
			for i, item := range k.val.items {
				v, ok := b.rep.any(item, index(p, i))
				if i == 0 {
					value, has = v, ok
				} else if ok && v != nil {
					doc["description"] = v
				}
			}
		case "default":
			value, has = b.rep.any(k.val, p)
		default:
			if v, ok := b.rep.any(k.val, p); ok && !(v == nil && k.name == "description") {
				doc[k.name] = v
			}
		}
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		b.rep.err(f.val, path, codeBadParam, "the schema cannot be kept: "+err.Error(), "")
		return value, has, nil
	}
	b.checkParam(f, path, doc, value, has)
	return value, has, raw
}

// checkParam checks the schema, and the default where runs start without
// anybody to give a value.
func (b *builder) checkParam(f field, path string, doc map[string]any, value any, has bool) {
	schema, err := compileSchema(doc)
	if err != nil {
		b.rep.err(f.val, path, codeBadParam, "the param's schema is not valid: "+schemaMessage(err), "JSON Schema 2020-12")
		return
	}
	if b.d.Schedule.Kind == dag.ScheduleNone {
		return
	}
	if !has {
		b.rep.err(f.key, path, codeBadParam, "the param has no default, and scheduled runs have nobody to give a value", "add default")
		return
	}
	if err := schema.Validate(value); err != nil {
		at := f.val.get("default")
		if at == nil {
			at = f.key
		}
		b.rep.err(at, path, codeBadParam, "the default does not fit the param's schema: "+schemaMessage(err), "")
	}
}

// noLoader refuses references to other documents.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, errors.New("references to other documents (" + url + ") are not followed")
}

func compileSchema(doc map[string]any) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(noLoader{})
	const name = "param.json"
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	return c.Compile(name)
}

// schemaMessage takes the heart of the validator's text, which is a headline
// and one line a fault.
func schemaMessage(err error) string {
	var out []string
	for _, line := range strings.Split(err.Error(), "\n") {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "- at '': "); ok {
			out = append(out, rest)
		} else if rest, ok := strings.CutPrefix(line, "- "); ok {
			out = append(out, rest)
		}
	}
	if len(out) == 0 {
		return err.Error()
	}
	return strings.Join(out, "; ")
}
