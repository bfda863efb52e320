package load

import "regexp"

var macroName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// readMacros reads user_defined_macros: names that the DAG's templates see. A
// text among them is the path of a Python function, as in dag-factory; all other
// values are themselves.
func (b *builder) readMacros() {
	n, path := b.val("user_defined_macros")
	if n == nil {
		return
	}
	if n.kind != mapNode {
		b.rep.err(n, path, codeWrongType, "user_defined_macros must be a mapping, not "+describe(n), "")
		return
	}
	b.d.Macros = map[string]any{}
	for _, f := range n.fields {
		if !macroName.MatchString(f.name) {
			b.rep.err(f.key, join(path, f.name), codeBadID, quote(f.name)+" cannot be a name in templates", "allowed: letters, digits and _")
			continue
		}
		if v, ok := b.macro(f.val, join(path, f.name)); ok {
			b.d.Macros[f.name] = v
		}
	}
}

func (b *builder) macro(n *node, path string) (any, bool) {
	if n.kind == mapNode {
		if t := n.get("__type__"); t != nil {
			b.rep.err(t, path, codeType, "objects of "+quote(t.text)+" are not supported in templates", "write a number, a list or a mapping")
			return nil, false
		}
		out, ok := map[string]any{}, true
		for _, f := range n.fields {
			v, good := b.macro(f.val, join(path, f.name))
			out[f.name], ok = v, ok && good
		}
		return out, ok
	}
	v, ok := b.rep.any(n, path)
	if text, is := v.(string); ok && is {
		b.rep.err(n, path, codeType, quote(text)+" is the path of a Python function, and Airlock's templates run no Python",
			"write the value itself when it is a number, a list or a mapping; put a text under params; let a python task compute the rest")
		return nil, false
	}
	return v, ok
}
