package render

// String renders a template to text. A text without tags comes back as it is.
// The error is a *dag.Error of code invalid that names the template's line and
// what is wrong.
func (r *Renderer) String(tpl string) (string, error) {
	if !IsTemplate(tpl) {
		return tpl, nil
	}
	var out string
	err := r.run(tpl, func(c *compiled) (err error) {
		out, err = r.execute(c)
		return err
	})
	return out, err
}

// Value renders every text in a value of JSON types, through maps and lists.
// Keys of maps are not templates. The value itself is left alone.
func (r *Renderer) Value(v any) (any, error) {
	return r.each(v, func(s string) (any, error) { return r.String(s) })
}

// Native renders like Value but keeps the types: "{{ [1, 2] }}" gives a list
// and "{{ params.n }}" a number, as render_template_as_native_obj does. A text
// that results is read as a literal where it is one, so "1{{ 2 }}" is 12. Dates
// become texts in ISO form.
func (r *Renderer) Native(v any) (any, error) {
	return r.each(v, r.native)
}

func (r *Renderer) native(tpl string) (any, error) {
	if !IsTemplate(tpl) {
		// A text with no tag is a template all the same to Jinja's native mode,
		// and would be read as a literal; it is left as the author wrote it.
		return tpl, nil
	}
	var out any
	err := r.run(tpl, func(c *compiled) (err error) {
		if c.single != nil {
			out, err = r.eval(c, c.single)
		} else {
			out, err = r.execute(c)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if text, ok := out.(string); ok {
		if lit, ok := literal(text); ok {
			return lit, nil
		}
		return text, nil
	}
	return plain(out), nil
}

// plain makes JSON types of a native result.
func plain(v any) any {
	switch v := v.(type) {
	case nil, bool, int, float64, string:
		return v
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
		return v
	case map[string]any:
		for k := range v {
			v[k] = plain(v[k])
		}
		return v
	case *moment:
		return v.iso("T")
	case *span:
		return float64(v.d.Microseconds()) / 1e6
	default:
		return pyStr(v)
	}
}

func (r *Renderer) each(v any, text func(string) (any, error)) (any, error) {
	switch v := v.(type) {
	case string:
		return text(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			x, err := r.each(v[i], text)
			if err != nil {
				return nil, err
			}
			out[i] = x
		}
		return out, nil
	case []string:
		out := make([]any, len(v))
		for i := range v {
			x, err := text(v[i])
			if err != nil {
				return nil, err
			}
			out[i] = x
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			x, err := r.each(v[k], text)
			if err != nil {
				return nil, err
			}
			out[k] = x
		}
		return out, nil
	default:
		return v, nil
	}
}
