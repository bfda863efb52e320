package adf

import (
	"fmt"
	"strings"
)

// copyActivity writes a copy as a merge step.
func (c *converter) copyActivity(w *writer, a node) {
	t := a.get("typeProperties")
	if t.n == nil {
		c.err(a.get("name"), "the copy has no typeProperties")
		return
	}
	c.known(t, "a copy", "source", "sink", "translator", "enableStaging", "stagingSettings", "parallelCopies", "dataIntegrationUnits", "enableSkipIncompatibleRow",
		"redirectIncompatibleRowSettings", "logSettings", "logStorageSettings", "preserveRules", "preserve", "validateDataConsistency", "skipErrorFile", "faultTolerance")
	source, sink := c.dataset(a, "inputs"), c.dataset(a, "outputs")
	w.line(3, "operator: merge")
	w.line(3, "conn_id: %s", quoted(id(sink.connection)))
	c.source(w, t.get("source"), source, sink)
	query := c.isQuery(t.get("source"))
	mapped := c.columns(w, t.get("translator"))
	if !mapped && !query {
		if len(c.o.Columns) == 0 {
			c.err(a.get("name"), "the copy %q has no translator with mappings, so the columns of its file are not known; give them with --columns name:type,...", a.get("name").text())
		}
		c.given(w)
	}
	w.line(3, "target: %s", quoted(sink.table))
	if sink.props.n == nil {
		c.warn(a.get("outputs"), "the file does not say which table the dataset %q is: the step writes %s over the connection %s", sink.connection, sink.table, id(sink.connection))
	}
	c.sink(w, a, t.get("sink"))
	c.tolerance(w, t)
	for _, k := range []string{"enableStaging", "preserve", "preserveRules", "skipErrorFile"} {
		if n := t.get(k); n.n != nil && strings.ToLower(n.text()) != "false" {
			c.warn(n, "%s is not converted: a merge step stages in the target itself", k)
		}
	}
}

// dataset is what is known about one end of a copy.
type dataset struct {
	props      node
	connection string
	table      string
}

func (c *converter) dataset(a node, end string) dataset {
	refs := a.get(end).items()
	if len(refs) != 1 {
		c.err(a.get("name"), "a copy has one dataset in %q, found %d", end, len(refs))
		return dataset{connection: "unknown", table: "unknown"}
	}
	name := refs[0].get("referenceName").text()
	d := dataset{props: c.datasets[name], connection: name, table: id(name)}
	if link := d.props.get("linkedServiceName").get("referenceName").text(); link != "" {
		d.connection = link
	}
	t := d.props.get("typeProperties")
	table := t.get("table").text()
	if table == "" {
		table = t.get("tableName").text()
	}
	if table != "" {
		if schema := t.get("schema").text(); schema != "" {
			table = schema + "." + table
		}
		d.table = strings.NewReplacer("[", "", "]", "").Replace(table)
	}
	return d
}

func (c *converter) isQuery(s node) bool {
	for _, k := range []string{"sqlReaderQuery", "query", "oracleReaderQuery"} {
		if s.get(k).n != nil {
			return true
		}
	}
	typ := s.get("type").text()
	return !strings.HasPrefix(typ, "Delimited") && !strings.HasPrefix(typ, "Json") && !strings.HasPrefix(typ, "Parquet")
}

func (c *converter) source(w *writer, s node, d, sink dataset) {
	w.line(3, "source:")
	switch typ := s.get("type").text(); {
	case typ == "":
		c.err(s, "the copy's source has no type")
	case typ == "BinarySource", typ == "AvroSource", typ == "OrcSource", typ == "ExcelSource", typ == "XmlSource":
		c.err(s.get("type"), "a source of type %q cannot be read by a merge step: csv, jsonl and parquet files and queries can", typ)
	case !c.isQuery(s):
		c.fileSource(w, typ, s, d)
		return
	}
	query := "SELECT * FROM " + d.table
	for _, k := range []string{"sqlReaderQuery", "query", "oracleReaderQuery"} {
		if n := s.get(k); n.n != nil {
			if query = n.text(); query == "" {
				query = n.get("value").text()
				c.warn(n, "the query is an expression of Data Factory: write its @{...} as templates")
			}
		}
	}
	w.pair(4, "query", query)
	if d.connection != sink.connection {
		w.line(4, "conn_id: %s", quoted(id(d.connection)))
	}
}

func (c *converter) fileSource(w *writer, typ string, s node, d dataset) {
	store, t := s.get("storeSettings"), d.props.get("typeProperties")
	folder, name := store.get("wildcardFolderPath").text(), store.get("wildcardFileName").text()
	loc := t.get("location")
	if folder == "" {
		folder = loc.get("folderPath").text()
	}
	if name == "" {
		name = loc.get("fileName").text()
	}
	if name == "" {
		name = "*"
	}
	if folder == "" && loc.n == nil && store.get("wildcardFileName").n == nil {
		folder = d.table
		c.warn(s, "the file does not say where the dataset %q is: the step reads the folder %s/", d.connection, folder)
	}
	file := strings.Trim(strings.ReplaceAll(folder, "**", "*")+"/"+name, "/")
	w.line(4, "file: %s", quoted(file))
	format := map[bool]string{true: "jsonl"}[strings.HasPrefix(typ, "Json")]
	switch {
	case strings.HasPrefix(typ, "Delimited"):
		format = "csv"
	case strings.HasPrefix(typ, "Parquet"):
		format = "parquet"
	}
	w.line(4, "format: %s", format)
	if format != "csv" {
		return
	}
	for _, k := range []struct{ theirs, ours string }{{"columnDelimiter", "delimiter"}, {"quoteChar", "quote"}, {"encodingName", "encoding"}} {
		if n := t.get(k.theirs); n.n != nil {
			w.line(4, "%s: %s", k.ours, quoted(n.text()))
		}
	}
	if n := t.get("escapeChar"); n.n != nil && n.text() == `\` {
		c.warn(n, "escapeChar: a merge step takes a doubled quote for a quote, and \\\" for a fault of the row")
	}
	if n := t.get("nullValue"); n.n != nil {
		w.line(4, "\"null\": [%s]", quoted(n.text()))
	}
	if n := t.get("firstRowAsHeader"); n.n == nil || strings.ToLower(n.text()) != "true" {
		if d.props.n != nil {
			w.line(4, "header: false")
			c.warn(n, "the file of the dataset %q has no header: list its columns in order under source.names", d.connection)
			w.line(4, "names: [%s]", strings.Join(c.names(), ", "))
		}
	}
}

func (c *converter) names() (out []string) {
	for _, col := range c.o.Columns {
		name, _, _ := strings.Cut(col, ":")
		out = append(out, quoted(name))
	}
	if out == nil {
		out = []string{"column_1"}
	}
	return out
}

// types of Data Factory's interim data types.
var types = map[string]string{
	"string": "text", "char[]": "text", "boolean": "boolean", "byte": "smallint", "sbyte": "smallint", "int16": "smallint", "int32": "int", "int64": "bigint", "uint32": "bigint",
	"single": "double", "double": "double", "decimal": "decimal(38,10)", "guid": "varchar(36)", "byte[]": "blob", "date": "date", "datetime": "timestamp", "datetimeoffset": "timestamp",
	"timespan": "varchar(30)",
}

// columns writes the columns that a mapping names.
func (c *converter) columns(w *writer, tr node) bool {
	mappings := tr.get("mappings").items()
	if len(mappings) == 0 {
		return false
	}
	w.line(3, "columns:")
	for _, m := range mappings {
		from, to := m.get("source"), m.get("sink")
		name := to.get("name").text()
		if name == "" {
			c.err(m, "the mapping has no sink.name")
			continue
		}
		typ := to.get("type")
		if typ.n == nil {
			typ = from.get("type")
		}
		ours, known := types[strings.ToLower(typ.text())]
		if !known {
			ours = "text"
			if typ.n != nil {
				c.warn(typ, "the type %q of the column %q is text here", typ.text(), name)
			}
		}
		if strings.HasPrefix(ours, "decimal") && to.get("precision").n != nil {
			ours = fmt.Sprintf("decimal(%s,%s)", to.get("precision").text(), zero(to.get("scale").text()))
		}
		if strings.HasPrefix(ours, "decimal") {
			ours = `"` + ours + `"`
		}
		text := "type: " + ours
		source := from.get("name").text()
		if p := from.get("path").text(); p != "" {
			source = jsonPath(p)
		}
		if source != "" && source != name {
			text += ", from: " + quoted(source)
		}
		if ours == "timestamp" {
			text += ", timezone: UTC"
		}
		w.line(4, "%s: {%s}", quoted(name), text)
	}
	return true
}

func zero(s string) string {
	if s == "" {
		return "0"
	}
	return s
}

// jsonPath turns $['user']['name'] into user.name.
func jsonPath(p string) string {
	return strings.TrimPrefix(strings.NewReplacer("['", ".", "']", "", "$", "").Replace(p), ".")
}

// given writes the columns that the command was given.
func (c *converter) given(w *writer) {
	w.line(3, "columns:")
	for _, col := range c.o.Columns {
		name, typ, ok := strings.Cut(col, ":")
		if !ok {
			typ = "text"
		}
		w.line(4, "%s: {type: %s}", quoted(name), quoted(typ))
	}
}

func (c *converter) sink(w *writer, a, s node) {
	var keys []string
	for _, k := range s.get("upsertSettings").get("keys").items() {
		keys = append(keys, quoted(k.text()))
	}
	if len(keys) == 0 {
		for _, k := range c.o.Key {
			keys = append(keys, quoted(k))
		}
	}
	if len(keys) == 0 {
		c.err(a.get("name"), "the copy %q appends, which a second run would do twice: name the columns that identify a row with --key", a.get("name").text())
		keys = []string{"id"}
	}
	w.line(3, "key: [%s]", strings.Join(keys, ", "))
	if n := s.get("preCopyScript"); n.n != nil && n.text() != "" {
		c.warn(n, "preCopyScript is not converted: put it into a sql task before this one")
	}
	if s.get("writeBehavior").text() != "upsert" && len(s.get("upsertSettings").get("keys").items()) == 0 {
		w.line(3, "when_matched: ignore  # the copy appends: a row whose key is there stays")
	}
}

// tolerance writes how many rows may be bad. The names have been right in one
// place only; the others are taken with a word about it.
func (c *converter) tolerance(w *writer, t node) {
	skip, redirect := t.get("enableSkipIncompatibleRow"), t.get("redirectIncompatibleRowSettings")
	if f := t.get("faultTolerance"); f.n != nil {
		c.warn(f, "Data Factory has no faultTolerance: enableSkipIncompatibleRow and redirectIncompatibleRowSettings stand in typeProperties itself")
		c.known(f, "faultTolerance", "enableSkipIncompatibleRow", "redirectIncompatibleRowSettings")
		if skip.n == nil {
			skip = f.get("enableSkipIncompatibleRow")
		}
		if redirect.n == nil {
			redirect = f.get("redirectIncompatibleRowSettings")
		}
	}
	c.known(redirect, "redirectIncompatibleRowSettings", "linkedServiceName", "path")
	on := c.flag(skip, "enableSkipIncompatibleRow")
	switch {
	case redirect.n != nil && !on:
		c.warn(redirect, "redirectIncompatibleRowSettings does nothing without enableSkipIncompatibleRow: true")
	case redirect.n != nil:
		c.warn(redirect, "bad rows go to airlock_dead_letter_row of the target instead of %s; see `airlock dlq rows`", zeroText(redirect.get("path").text()))
	}
	if on {
		w.line(3, "bad_rows: {max_ratio: 1}  # enableSkipIncompatibleRow: bad rows are put aside, however many")
	} else {
		w.line(3, "bad_rows: {max: 0}  # without enableSkipIncompatibleRow one bad row fails the copy")
	}
}

func zeroText(path string) string {
	if path == "" {
		return "a folder"
	}
	return "the folder " + path
}

// sqlActivity writes a script or a stored procedure as a sql step.
func (c *converter) sqlActivity(w *writer, a node) {
	t := a.get("typeProperties")
	w.line(3, "operator: sql")
	conn := a.get("linkedServiceName").get("referenceName")
	if conn.text() == "" {
		c.err(a.get("name"), "the activity %q names no linked service", a.get("name").text())
	}
	w.line(3, "conn_id: %s", quoted(id(conn.text())))
	if a.get("type").text() == "SqlServerStoredProcedure" {
		name := t.get("storedProcedureName").text()
		if name == "" {
			c.err(a.get("name"), "the activity names no stored procedure")
		}
		var args []string
		for _, k := range t.get("storedProcedureParameters").keys() {
			v := t.get("storedProcedureParameters").get(k.text()).get("value")
			if v.n != nil && v.text() == "" && len(v.keys()) > 0 {
				c.warn(v, "the parameter %s is an expression of Data Factory: write it as a template", k.text())
				v = v.get("value")
			}
			args = append(args, "'"+strings.ReplaceAll(v.text(), "'", "''")+"'")
		}
		w.pair(3, "sql", "CALL "+strings.NewReplacer("[", "", "]", "").Replace(name)+"("+strings.Join(args, ", ")+")")
		return
	}
	w.line(3, "sql:")
	for _, s := range t.get("scripts").items() {
		text := s.get("text").text()
		if text == "" {
			text = s.get("text").get("value").text()
			c.warn(s, "the script is an expression of Data Factory: write its @{...} as templates")
		}
		w.line(4, "- %s", quoted(text))
	}
	if len(t.get("scripts").items()) == 0 {
		c.err(a.get("name"), "the script activity has no scripts")
	}
}
