package dag

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// EncodeDAG is a DAG as a version stores it, and the SHA-256 in hexadecimal
// that names the version. Two DAGs of one hash are the same in every respect.
func EncodeDAG(d *DAG) (content json.RawMessage, hash string, err error) {
	content, err = encodeExact(d)
	if err != nil {
		return nil, "", fmt.Errorf("DAG %s as JSON: %w", d.ID, err)
	}
	return content, hashHex(content), nil
}

// DecodeDAG reads what EncodeDAG wrote; see UnmarshalJSON for numbers.
func DecodeDAG(content []byte) (*DAG, error) {
	var d DAG
	if err := json.Unmarshal(content, &d); err != nil {
		return nil, fmt.Errorf("DAG from JSON: %w", err)
	}
	return &d, nil
}

// Hash is EncodeDAG's hash.
func (d *DAG) Hash() string {
	_, hash, err := EncodeDAG(d)
	if err != nil {
		// Only a value that no loader makes (a channel, an infinite number) cannot
		// be written; such a DAG still gets a name of its own.
		return hashHex([]byte(fmt.Sprintf("%+v", *d)))
	}
	return hash
}

// UnmarshalJSON reads a DAG as it was stored. Numbers of args and params come
// back as the loader makes them: float64 where that holds the number exactly,
// else json.Number.
func (d *DAG) UnmarshalJSON(data []byte) error {
	type plain DAG // without this method
	var p plain
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.UseNumber()
	if err := dec.Decode(&p); err != nil {
		return err
	}
	*d = DAG(p)
	exactMap(d.Params)
	exactMap(d.Macros)
	exactCallbacks(d.Callbacks)
	for i := range d.Tasks {
		t := &d.Tasks[i]
		exactMap(t.Args)
		exactMap(t.Params)
		exactCallbacks(t.Callbacks)
		exactExpand(t.Expand)
	}
	for i := range d.Groups {
		exactExpand(d.Groups[i].Expand)
	}
	return nil
}

func exactExpand(e *Expand) {
	if e == nil {
		return
	}
	exactMap(e.Partial)
	for _, src := range e.Args {
		exactList(src.Literal)
	}
	if e.Kwargs != nil {
		exactList(e.Kwargs.Literal)
	}
}

func exactCallbacks(c Callbacks) {
	for _, list := range [][]Callback{c.OnExecute, c.OnSuccess, c.OnFailure, c.OnRetry, c.OnSkipped} {
		for _, cb := range list {
			exactMap(cb.Args)
		}
	}
}

func exactMap(m map[string]any) {
	for k, v := range m {
		m[k] = exactNumber(v)
	}
}

func exactList(list []any) {
	for i, v := range list {
		list[i] = exactNumber(v)
	}
}

// exactNumber turns json.Number into float64 where no digit is lost.
func exactNumber(v any) any {
	switch v := v.(type) {
	case map[string]any:
		exactMap(v)
	case []any:
		exactList(v)
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return v
		}
		const exact = 1 << 53
		if i, err := strconv.ParseInt(v.String(), 10, 64); err == nil && i <= exact && i >= -exact {
			return f
		}
		if strings.ContainsAny(v.String(), ".eE") {
			return f
		}
		return v
	}
	return v
}
