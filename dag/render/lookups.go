package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nikolalohinski/gonja/v2/exec"

	"github.com/airlock-dag/airlock/dag"
)

// decode reads JSON with its numbers as they are.
func decode(raw json.RawMessage) (any, error) {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return normal(v), nil
}

// variables is "var": var.value.NAME and var.json.NAME, each with get.
func (r *Renderer) variables() *object {
	value := func(raw string) (any, error) { return raw, nil }
	parsed := func(raw string) (any, error) { return decode(json.RawMessage(raw)) }
	return r.object("var", map[string]any{"value": r.variableSet("var.value", value), "json": r.variableSet("var.json", parsed)}, "")
}

func (r *Renderer) variableSet(kind string, read func(string) (any, error)) *object {
	o := &object{kind: kind, fail: r.keep}
	find := func(name string) (any, bool, error) {
		raw, ok := r.vars()[name]
		if !ok {
			return nil, false, nil
		}
		v, err := read(raw)
		if err != nil {
			return nil, false, fmt.Errorf("the variable %q does not hold JSON", name)
		}
		return v, true, nil
	}
	get := func(va *exec.VarArgs) (any, error) {
		name := textArg(va, 0, "key", "")
		v, ok, err := find(name)
		switch {
		case err != nil:
			return nil, r.keep(err)
		case ok:
			return v, nil
		}
		if len(va.Args) > 1 {
			return toGo(va.Args[1]), nil
		}
		for _, key := range []string{"default_var", "default"} {
			if d, ok := va.KwArgs[key]; ok {
				return toGo(d), nil
			}
		}
		return nil, r.keep(noVariable(name))
	}
	o.attr = func(name string) (any, bool, error) {
		if name == "get" {
			return fn(get), true, nil
		}
		v, ok, err := find(name)
		if err == nil && !ok {
			err = noVariable(name)
		}
		return v, ok, err
	}
	return o
}

func noVariable(name string) error {
	return fmt.Errorf("there is no variable %q; add it with: airlock variables set %s VALUE", name, name)
}

// connections is "conn": conn.NAME and conn.get(NAME).
func (r *Renderer) connections() *object {
	find := func(id string) (any, error) {
		if r.in.Connection == nil {
			return nil, fmt.Errorf("the connection %q cannot be read here", id)
		}
		c, err := r.in.Connection(id)
		if err != nil {
			return nil, err
		}
		return r.connectionObject(c), nil
	}
	return &object{kind: "conn", fail: r.keep, attr: func(name string) (any, bool, error) {
		if name != "get" {
			v, err := find(name)
			return v, err == nil, err
		}
		return fn(func(va *exec.VarArgs) (any, error) {
			v, err := find(textArg(va, 0, "key", ""))
			if err == nil {
				return v, nil
			}
			if len(va.Args) > 1 && dag.CodeOf(err) == dag.ErrNotFound {
				return toGo(va.Args[1]), nil
			}
			return nil, r.keep(err)
		}), true, nil
	}}
}

// connectionObject prints as its id: the password is in one attribute only.
func (r *Renderer) connectionObject(c dag.Connection) *object {
	extra := mapping(c.Extra)
	text := func() string {
		raw, err := json.Marshal(extra)
		if err != nil {
			return "{}"
		}
		return string(raw)
	}
	return r.object("connection", map[string]any{
		"conn_id": c.ID, "conn_type": c.Type, "description": c.Description, "host": c.Host, "port": c.Port,
		"login": c.Login, "password": c.Password, "schema": c.Schema, "extra_dejson": extra, "extra": text(),
	}, c.ID)
}

// xcomPull is ti.xcom_pull: one id gives one value, a list a list.
func (r *Renderer) xcomPull(va *exec.VarArgs) (any, error) {
	arg := func(at int, name string) any {
		if at < len(va.Args) {
			return toGo(va.Args[at])
		}
		if v, ok := va.KwArgs[name]; ok {
			return toGo(v)
		}
		return nil
	}
	if r.in.XCom == nil {
		return nil, r.keep(errors.New("XComs cannot be read here"))
	}
	dagID, _ := arg(1, "dag_id").(string)
	if dagID == "" && r.in.TI != nil {
		dagID = r.in.TI.DagID
	}
	key, _ := arg(2, "key").(string)
	if key == "" {
		key = dag.XComReturnValue
	}
	one := func(id string, indexes []int) (any, error) {
		v, err := r.in.XCom([]string{id}, key, dagID, indexes)
		if err != nil {
			return nil, r.keep(err)
		}
		if v == nil {
			if d, ok := va.KwArgs["default"]; ok {
				return toGo(d), nil
			}
		}
		v = normal(v)
		return v, r.budget.spend(sizeOf(v))
	}
	pull := func(id string) (any, error) {
		switch m := toGo(va.KwArgs["map_indexes"]).(type) {
		case int:
			return one(id, []int{m})
		case []any:
			out := make([]any, len(m))
			for i := range m {
				n, ok := m[i].(int)
				if !ok {
					return nil, r.keep(errors.New("map_indexes takes a whole number or a list of them"))
				}
				v, err := one(id, []int{n})
				if err != nil {
					return nil, err
				}
				out[i] = v
			}
			return out, nil
		default:
			return one(id, nil)
		}
	}
	switch ids := arg(0, "task_ids").(type) {
	case string:
		return pull(ids)
	case nil:
		if r.in.TI == nil {
			return nil, r.keep(errors.New("xcom_pull needs task_ids"))
		}
		return pull(r.in.TI.TaskID)
	case []any:
		out := make([]any, len(ids))
		for i, id := range ids {
			v, err := pull(pyStr(id))
			if err != nil {
				return nil, err
			}
			out[i] = v
		}
		return out, nil
	default:
		return nil, r.keep(fmt.Errorf("task_ids is a %s; it takes a task id or a list of them", typeName(ids)))
	}
}
