package merge

import "sort"

// description is what a step is to do, without what changes from attempt to
// attempt: its hash guards the idempotency key.
func (s *Spec) description() map[string]any {
	columns := map[string]string{}
	for _, c := range s.Columns {
		text := c.Source() + " " + c.Type.String()
		if c.Required {
			text += " required"
		}
		if c.Computed != nil {
			text += " computed " + c.Computed.String()
		}
		if c.Check != nil {
			text += " check " + c.Check.String()
		}
		columns[c.Name] = text
	}
	var clauses []string
	for i := range s.Clauses {
		c := &s.Clauses[i]
		text := map[bool]string{true: "matched", false: "unmatched"}[c.Matched]
		if c.BySource {
			text = "not in source"
		}
		if c.When != nil {
			text += " and " + c.When.String()
		}
		text += " then " + []string{"", "update", "delete", "insert", "nothing"}[c.Action]
		for _, n := range c.Columns {
			text += " " + n
		}
		for j := range c.Set {
			text += " " + c.Set[j].Column + "=" + c.Set[j].Value.String()
		}
		clauses = append(clauses, text)
	}
	var keys []string
	for _, k := range s.Key {
		keys = append(keys, k.Target+"="+k.Source)
	}
	sort.Strings(keys)
	out := map[string]any{
		"step": "merge", "target": s.Target, "key": keys, "version": s.Version, "columns": columns, "clauses": clauses,
		"files": s.Source.Files, "query": s.Source.Query, "parameters": s.Source.Parameters, "conn_id": s.Source.ConnID, "xcom": s.Source.XCom,
	}
	if s.Watermark != nil {
		out["watermark"] = s.Watermark.Name + " " + s.Watermark.Column
	}
	return out
}
