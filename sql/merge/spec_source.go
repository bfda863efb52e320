package merge

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/sql/merge/column"
	"github.com/airlock-dag/airlock/sql/merge/row"
	"github.com/airlock-dag/airlock/sql/merge/source"
	"github.com/airlock-dag/airlock/sql/merge/sqltext"
)

// SourceKeys are the keys of a step's source.
func SourceKeys() []string {
	return []string{
		"file", "format", "delimiter", "quote", "header", "names", "encoding", "null", "unknown_fields", "on_missing",
		"max_row_bytes", "final_newline", "query", "parameters", "conn_id", "xcom", "key",
	}
}

func (a *args) source(m map[string]any) SourceSpec {
	const path = "source"
	var s SourceSpec
	src := a.mapping(m, "", path, SourceKeys()...)
	if src == nil {
		if m[path] == nil {
			a.problem(path, "missing-key", "a merge step needs a source with a file, a query or an xcom")
		}
		return s
	}
	s.Files = a.list(src, path, "file")
	s.Query = strings.TrimSuffix(strings.TrimSpace(a.str(src, path, "query")), ";")
	s.XCom = a.str(src, path, "xcom")
	given := 0
	for _, there := range []bool{len(s.Files) > 0, s.Query != "", s.XCom != ""} {
		if there {
			given++
		}
	}
	if given != 1 {
		a.problem(path, "one-of", "exactly one of file, query and xcom is needed, found %d", given)
	}
	switch {
	case len(s.Files) > 0:
		a.fileSource(src, &s)
	case s.Query != "":
		a.querySource(src, &s)
	default:
		a.xcomSource(src, &s)
	}
	s.RejectUnknown = a.oneOf(src, path, "unknown_fields", unknownDefault(s), "ignore", "reject") == "reject"
	return s
}

// unknownDefault: a JSON line's field that nobody declared may be a misspelt
// one, so its row is quarantined; a CSV's header is named in the log.
func unknownDefault(s SourceSpec) string {
	if s.Format == "jsonl" {
		return "reject"
	}
	return "ignore"
}

func (a *args) fileSource(src map[string]any, s *SourceSpec) {
	const path = "source"
	s.Format = a.format(src, s.Files)
	for key, to := range map[string]*byte{"delimiter": &s.Delimiter, "quote": &s.Quote} {
		text := a.str(src, path, key)
		switch {
		case text == "" && key == "quote" && src[key] != nil:
			s.NoQuote = true
		case text == "", a.template(text):
		case text == "tab" || text == `\t` || text == "\t":
			*to = '\t'
		case len(text) == 1 && text[0] < 0x80 && text[0] != '\n' && text[0] != '\r':
			*to = text[0]
		default:
			a.problem(join(path, key), badValue, "one ASCII character is needed (or tab), found %q", text)
		}
	}
	if s.Format == "tsv" {
		s.Format = "csv"
		if s.Delimiter == 0 {
			s.Delimiter = '\t'
		}
	}
	s.NoHeader = !a.boolean(src, path, "header", true)
	s.Names = a.list(src, path, "names")
	if s.NoHeader && len(s.Names) == 0 && s.Format == "csv" {
		a.problem(join(path, "names"), "missing-key", "a file without a header needs the names of its columns in order")
	}
	s.Null = []string{""}
	if src["null"] != nil {
		s.Null = a.list(src, path, "null")
	}
	if enc := a.str(src, path, "encoding"); !a.template(enc) {
		var ok bool
		if s.Encoding, ok = source.ParseEncoding(enc); !ok {
			a.problem(join(path, "encoding"), badValue, "found %q; allowed are %s", enc, source.Encodings)
		}
	}
	s.OnMissing = a.oneOf(src, path, "on_missing", "fail", "skip", "empty")
	s.MaxRow = int(a.count(src, path, "max_row_bytes", 0))
	s.FinalNewline = a.oneOf(src, path, "final_newline", "optional", "required") == "required"
}

func (a *args) format(src map[string]any, files []string) string {
	guess := "csv"
	for _, f := range files {
		f = strings.ToLower(f)
		for _, packed := range []string{".gz", ".bz2", ".zst"} {
			f = strings.TrimSuffix(f, packed)
		}
		switch path.Ext(f) {
		case ".jsonl", ".ndjson":
			guess = "jsonl"
		case ".tsv":
			guess = "tsv"
		case ".parquet":
			guess = "parquet"
		}
	}
	switch f := strings.ToLower(a.str(src, "source", "format")); f {
	case "":
		return guess
	case "csv", "tsv", "jsonl", "parquet":
		return f
	case "ndjson", "json":
		return "jsonl"
	default:
		if !a.template(f) {
			a.problem("source.format", badValue, "found %q; allowed are csv, tsv, jsonl and parquet", f)
		}
		return guess
	}
}

func (a *args) querySource(src map[string]any, s *SourceSpec) {
	const path = "source"
	s.ConnID = a.str(src, path, "conn_id")
	switch p := src["parameters"].(type) {
	case nil:
	case map[string]any:
		s.Parameters = p
	default:
		if !a.template(p) {
			a.problem(join(path, "parameters"), badValue, "a mapping of names to values is needed, found %s", kindOf(p))
		}
	}
	if a.template(s.Query) {
		return
	}
	statements, err := sqltext.MySQL.Split(s.Query)
	switch {
	case err != nil:
		a.problem(join(path, "query"), "bad-sql", "%s", err)
	case len(statements) != 1:
		a.problem(join(path, "query"), "bad-sql", "one query is needed, found %d statements", len(statements))
	case !statements[0].ReturnsRows():
		a.problem(join(path, "query"), "bad-sql", "a query that gives rows is needed, found %s", statements[0].Verb)
	}
}

// xcomSource reads "task", "task.output" and "task.output['key']".
func (a *args) xcomSource(src map[string]any, s *SourceSpec) {
	const path = "source"
	s.XComKey = a.str(src, path, "key")
	if m := xcomText.FindStringSubmatch(s.XCom); m != nil {
		s.XCom = m[1]
		if m[2] != "" {
			s.XComKey = m[2]
		}
	}
}

var xcomText = regexp.MustCompile(`^(.+?)\.output(?:\[['"]([^'"]+)['"]\])?$`)

// columns reads the columns: a list in which each has a name, a list of pairs of
// name and column (which is how the loader keeps a mapping's order), or a
// mapping, whose order is lost.
func (a *args) columns(m map[string]any) []*column.Column {
	var out []*column.Column
	checks, expressions := map[*column.Column]string{}, map[*column.Column]string{}
	add := func(name, path string, v any) {
		if name == "" {
			a.problem(join(path, "name"), "missing-key", "a column needs a name")
			return
		}
		if text, short := v.(string); short {
			v = map[string]any{"type": text}
		}
		def, ok := v.(map[string]any)
		if !ok {
			a.problem(path, badValue, "a mapping such as {type: bigint} is needed, found %s", kindOf(v))
			return
		}
		c, check := a.column(name, path, def)
		if c == nil {
			a.unread = append(a.unread, name)
		} else {
			out = append(out, c)
			if check != "" {
				checks[c] = check
			}
			if text := a.str(def, path, "expression"); text != "" {
				expressions[c] = text
				if c.From != "" || c.Trim {
					a.problem(join(path, "expression"), "bad-combination", "a computed column has no from and no trim")
				}
			}
		}
	}
	switch v := m["columns"].(type) {
	case nil:
	case map[string]any:
		for _, name := range sortedKeys(v) {
			add(name, join("columns", name), v[name])
		}
	case []any:
		for i, x := range v {
			if pair, ok := x.([]any); ok && len(pair) == 2 { // a mapping in the order of its file
				name, _ := pair[0].(string)
				add(name, join("columns", name), pair[1])
				continue
			}
			path := fmt.Sprintf("columns[%d]", i)
			def, _ := x.(map[string]any)
			add(a.str(def, path, "name"), path, x)
		}
	default:
		if !a.template(v) {
			a.problem("columns", badValue, "a mapping of names to columns is needed, found %s", kindOf(v))
		}
	}
	seen := map[string]bool{}
	for _, c := range out {
		if seen[strings.ToLower(c.Name)] {
			a.problem(join("columns", c.Name), badValue, "the column is there twice")
		}
		seen[strings.ToLower(c.Name)] = true
	}
	a.expressions(out, expressions)
	for _, c := range out {
		if text := checks[c]; text != "" && !a.template(text) {
			k, err := column.ParseCheck(text, out)
			if err != nil {
				a.problem(join(join("columns", c.Name), "check"), "bad-expression", "%s", err)
			}
			c.Check = k
		}
	}
	return out
}

// expressions compiles the columns that are computed from others.
func (a *args) expressions(columns []*column.Column, texts map[*column.Column]string) {
	var sources []*column.Column
	for _, c := range columns {
		if texts[c] == "" {
			sources = append(sources, c)
		}
	}
	for _, c := range columns {
		if text := texts[c]; text != "" && !a.template(text) {
			e, err := column.ParseExpression(text, sources)
			if err != nil {
				a.problem(join(join("columns", c.Name), "expression"), "bad-expression", "%s", err)
			}
			c.Computed = e
		}
	}
}

func (a *args) column(name, path string, def map[string]any) (*column.Column, string) {
	a.known(def, path, "name", "type", "from", "required", "default", "values", "pattern", "check", "format", "timezone", "trim", "store", "expression")
	c := &column.Column{
		Name: name, From: a.str(def, path, "from"), Required: a.boolean(def, path, "required", false),
		Trim:       a.boolean(def, path, "trim", false),
		StagedOnly: !a.boolean(def, path, "store", true),
	}
	typ := a.str(def, path, "type")
	if typ == "" {
		a.problem(join(path, "type"), "missing-key", "a column needs a type: %s", column.Types)
		return nil, ""
	}
	if a.template(typ) {
		return nil, ""
	}
	var err error
	if c.Type, err = column.ParseType(typ); err != nil {
		a.problem(join(path, "type"), badValue, "%s", err)
		return nil, ""
	}
	if def["values"] != nil {
		c.Values = a.list(def, path, "values")
	}
	if p := a.str(def, path, "pattern"); p != "" && !a.template(p) {
		if c.Pattern, err = regexp.Compile(p); err != nil {
			a.problem(join(path, "pattern"), badValue, "%s", err)
		}
	}
	if z := a.str(def, path, "timezone"); z != "" && !a.template(z) {
		if c.Zone, err = time.LoadLocation(z); err != nil {
			a.problem(join(path, "timezone"), badValue, "%q is not a time zone; write it as in Europe/Berlin or UTC", z)
		}
	}
	if f := a.str(def, path, "format"); f != "" && !a.template(f) {
		if c.Format, err = column.ParseFormat(f); err != nil {
			a.problem(join(path, "format"), badValue, "%s", err)
		}
	}
	if v, there := def["default"]; there && v != nil && !a.template(v) {
		c.Default = defaultValue(v)
		probe := *c
		probe.Required, probe.Check = false, nil
		if _, f := probe.Convert(*c.Default); f != nil {
			a.problem(join(path, "default"), badValue, "%s", f.Message)
		}
	}
	return c, a.str(def, path, "check")
}

func defaultValue(v any) *row.Value {
	switch x := v.(type) {
	case string:
		return &row.Value{Kind: row.Text, Text: x}
	case bool:
		return &row.Value{Kind: row.Bool, Text: fmt.Sprint(x)}
	case float64:
		return &row.Value{Kind: row.Number, Text: strings.TrimSuffix(fmt.Sprintf("%f", x), ".000000")}
	default:
		return &row.Value{Kind: row.Number, Text: fmt.Sprint(x)}
	}
}
