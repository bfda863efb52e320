package merge

import (
	"context"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge/column"
	"github.com/airlock-dag/airlock/sql/merge/mergesql"
	"github.com/airlock-dag/airlock/sql/merge/source"
)

// Preview is what a step would do to a target as it is now. Nothing is changed
// to make it.
type Preview struct {
	Database string   `json:"database"`
	Target   string   `json:"target"`
	Source   string   `json:"source"`
	Key      []string `json:"key"`
	// KeyIndex is the unique index that the key rests on, OtherKeys are those
	// that a row may run into.
	KeyIndex  string   `json:"key_index"`
	OtherKeys []string `json:"other_keys,omitempty"`
	Version   string   `json:"version,omitempty"`
	Watermark string   `json:"watermark,omitempty"`
	// Columns tell of each staged column where it goes.
	Columns []string `json:"columns"`
	// Clauses are tried in their order.
	Clauses []string `json:"clauses"`
	// Notes are what to know about this key on this table.
	Notes      []string           `json:"notes,omitempty"`
	Statements []PreviewStatement `json:"statements"`
}

// PreviewStatement is one statement and what it is for.
type PreviewStatement struct {
	Purpose string `json:"purpose"`
	SQL     string `json:"sql"`
}

// Preview plans a step: it looks at the target and, for a query, at the columns
// that it gives, and reads no rows. The errors are those that the step itself
// would end with before it reads.
func (e *Engine) Preview(ctx context.Context, spec *Spec, src Source) (*Preview, error) {
	conn, err := e.DB.Writer().Connx(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	t, err := inspect(ctx, e.DB, conn, spec.Target)
	if err != nil {
		return nil, err
	}
	out := &Preview{Database: e.DB.String(), Target: spec.Target, Source: src.Describe()}
	if t == nil {
		if len(spec.Columns) == 0 || !spec.CreateTarget {
			b := &batch{e: e, job: &Job{Spec: spec}, conn: conn}
			_, err := b.ensureTarget(ctx)
			return nil, err
		}
		t = planned(e.DB, spec)
		if !e.DB.IsSQLite() {
			schema, table := splitTable(spec.Target)
			if err := t.readMySQLTriggers(ctx, conn, schema, table, true); err != nil {
				return nil, err
			}
		}
		out.add("make the table, which is not there", createDDL(e.DB, spec))
	}
	columns, err := previewColumns(ctx, e, spec, t, src)
	if err != nil {
		return nil, err
	}
	p, err := newPlan(e.DB, spec, t, columns)
	if err != nil {
		return nil, err
	}
	out.describe(p)
	if q, ok := src.(*QuerySource); ok {
		if err := out.reads(ctx, e, conn, spec, t, q); err != nil {
			return nil, err
		}
	}
	out.statements(p)
	return out, nil
}

// previewColumns asks a query for its columns without its rows.
func previewColumns(ctx context.Context, e *Engine, spec *Spec, t *target, src Source) ([]planColumn, error) {
	q, ok := src.(*QuerySource)
	if len(spec.Columns) > 0 || !ok {
		return declared(spec), nil
	}
	empty := *q
	empty.Spec.Query = "SELECT * FROM (" + q.Spec.Query + ") AS airlock_p WHERE 1 = 0"
	reader, err := empty.Open(ctx, source.Wanted{All: true}, Bounds{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = reader.Close() }()
	b := &batch{e: e, job: &Job{Spec: spec, Source: src}}
	return b.discover(reader, t)
}

// planned is the table that create_target would make.
func planned(db *dialect.DB, spec *Spec) *target {
	t := &target{name: spec.Target}
	key := uniqueKey{name: "PRIMARY", usable: true}
	for _, c := range spec.Columns {
		if c.StagedOnly {
			continue
		}
		isKey := false
		for _, k := range spec.Key {
			isKey = isKey || strings.EqualFold(k.Target, c.Name)
		}
		tc := targetColumn{name: c.Name, ddl: columnDDL(db, c.Type, isKey), typ: c.Type, known: true, nullable: !isKey && !c.Required}
		tc.optional = tc.nullable
		tc.data, _, _ = strings.Cut(strings.ToLower(tc.ddl), "(")
		t.columns = append(t.columns, tc)
		if isKey {
			key.columns, key.collations = append(key.columns, c.Name), append(key.collations, "")
		}
	}
	t.unique = []uniqueKey{key}
	return t
}

func (v *Preview) add(purpose, sql string) {
	v.Statements = append(v.Statements, PreviewStatement{purpose, sql})
}

func (v *Preview) describe(p *plan) {
	var names []string
	for _, k := range p.keys {
		names = append(names, k.target)
		text := k.target
		if k.stage != k.target {
			text += " = source." + k.stage
		}
		v.Key = append(v.Key, text)
		tc := p.target.column(k.target)
		if tc.nullable {
			v.Notes = append(v.Notes, fmt.Sprintf("the key column %s may be null: rows of the source without it are quarantined (NULL_IN_KEY), rows of the table without it are never matched", k.target))
		}
		if note := foldNote(p, tc, k); note != "" {
			v.Notes = append(v.Notes, note)
		}
	}
	index := p.target.keyIndex(names)
	v.KeyIndex = fmt.Sprintf("%s (%s)", index.name, strings.Join(index.columns, ", "))
	for i := range p.target.unique {
		if u := &p.target.unique[i]; u != index {
			v.OtherKeys = append(v.OtherKeys, fmt.Sprintf("%s (%s)", u.name, strings.Join(u.columns, ", ")))
		}
	}
	if len(v.OtherKeys) > 0 {
		v.Notes = append(v.Notes, "a row that runs into another unique key is quarantined (UNIQUE_CONFLICT); the row that holds it is left alone")
	}
	v.Version = p.version
	if p.version == "" {
		v.Notes = append(v.Notes, "without a version an old batch that is merged late writes over newer rows")
	}
	if w := p.spec.Watermark; w != nil {
		v.Watermark = w.Name + " of " + w.Column
	}
	for i := range p.cols {
		c := &p.cols[i]
		text := c.Source() + " " + c.Type.String() + " -> " + c.Name + " " + c.ddl
		if c.target == nil {
			text = c.Source() + " " + c.Type.String() + ", for conditions only"
		}
		v.Columns = append(v.Columns, text)
	}
	for i := range p.spec.Clauses {
		v.Clauses = append(v.Clauses, p.spec.Clauses[i].String())
	}
}

// foldNote tells of a key that the collation may take for another.
func foldNote(p *plan, tc *targetColumn, k planKey) string {
	if !tc.known || tc.typ.Kind != column.Text {
		return ""
	}
	_, collation, found := strings.Cut(tc.ddl, " COLLATE ")
	if p.db.IsSQLite() {
		collation, found = k.collation, k.collation != ""
	}
	if !found || strings.EqualFold(collation, "BINARY") || collation == "utf8mb4_0900_bin" || strings.HasSuffix(collation, "nopad_bin") || collation == "binary" {
		return ""
	}
	what := "may fail the batch (MERGE_KEYS_FOLDED)"
	if p.spec.FoldKeys {
		what = "are one key (folded_keys: same)"
	}
	return fmt.Sprintf("the key column %s has the collation %s: texts of one batch that differ and that it takes for the same %s", tc.name, collation, what)
}

// String is the clause as a MERGE statement has it.
func (c *Clause) String() string {
	text := "WHEN " + map[bool]string{true: "MATCHED", false: "NOT MATCHED"}[c.Matched]
	if c.BySource {
		text += " BY SOURCE"
	}
	if c.When != nil {
		text += " AND " + c.When.String()
	}
	text += " THEN "
	var sets []string
	for i := range c.Set {
		sets = append(sets, c.Set[i].Column+" = "+c.Set[i].Value.String())
	}
	switch {
	case c.Action == mergesql.Nothing:
		return text + "DO NOTHING"
	case c.Action == mergesql.Delete:
		return text + "DELETE"
	case c.Action == mergesql.Insert && c.All:
		return text + "INSERT *"
	case c.Action == mergesql.Insert:
		return text + "INSERT " + strings.Join(sets, ", ")
	case len(c.Columns) > 0:
		return text + "UPDATE SET " + strings.Join(c.Columns, ", ")
	case c.All:
		return text + "UPDATE SET *"
	default:
		return text + "UPDATE SET " + strings.Join(sets, ", ")
	}
}

// reads adds the query with the bounds that the next batch would have.
func (v *Preview) reads(ctx context.Context, e *Engine, conn *sqlx.Conn, spec *Spec, t *target, q *QuerySource) error {
	var bounds Bounds
	if spec.Watermark != nil {
		there, err := tableExists(ctx, e.DB, conn, "airlock_watermark")
		if err != nil {
			return err
		}
		if there {
			b := &batch{e: e, job: &Job{Spec: spec, Source: q}, conn: conn}
			if bounds, err = b.bounds(ctx, t); err != nil {
				return err
			}
		}
	}
	text, args, err := q.bound(bounds)
	if err != nil {
		return err
	}
	purpose := "read the source"
	if len(args) > 0 {
		purpose += fmt.Sprintf(", with %v", args)
	}
	v.add(purpose, text)
	return nil
}

func (v *Preview) statements(p *plan) {
	v.add("the stage: the columns as the table has them", p.stageDDL())
	for _, s := range p.unseenDDL() {
		v.add("for rows of the table that the source has not", s)
	}
	s := newStager(context.Background(), p, nil, nil)
	how := fmt.Sprintf("fill the stage, up to %d rows in a statement", s.perInsert)
	if !p.db.IsSQLite() {
		how += "; by LOAD DATA LOCAL where the server allows it"
	}
	v.add(how, s.insertSQL(1))
	v.add("begin; the effect must still be this attempt's", "SELECT fingerprint, fence, status, result FROM airlock_effect WHERE idempotency_key = ?"+p.db.ForUpdate())
	if p.upserts() {
		v.add(fmt.Sprintf("write up to %d rows; where the database refuses one of them, its neighbours are sorted and written by the statements below", statementRows), p.upsertSQL())
	}
	if reset := p.resetSQL(); reset != "" {
		v.add("sort the rows as if none were matched", reset+" WHERE "+seqRange)
	}
	if p.locks && !p.db.IsSQLite() {
		v.add("lock the rows whose values are read", p.lockSQL())
	}
	v.add("sort the matched rows: superseded, unchanged, or a clause's", p.matchSQL()+" AND "+seqRange)
	for _, c := range p.computed {
		v.add("compute a value from the row as it is", p.updateStage(dialect.Quote(c.name)+" = "+c.expr, fmt.Sprintf("%s.airlock_act = %d AND %s", stageAlias, c.act, seqRange)))
	}
	for _, r := range p.matched {
		if r.action == mergesql.Update && p.computes(r) {
			v.add("take out what would change nothing", p.sameSQL(r)+" AND "+seqRange)
		}
	}
	for _, action := range []mergesql.Action{mergesql.Delete, mergesql.Update, mergesql.Insert} {
		for _, r := range append(append([]rule(nil), p.matched...), p.unmatched...) {
			if r.action == action {
				v.add(fmt.Sprintf("clause %d", r.act), p.applySQL(r))
			}
		}
	}
	if len(p.notInSource) > 0 {
		v.add("look for rows of the table that the source has not", p.findUnseenSQL())
		for _, r := range p.notInSource {
			if r.action != mergesql.Nothing {
				v.add(fmt.Sprintf("clause %d", r.act), p.unseenSQL(r))
			}
		}
	}
	v.add("the bad rows", "INSERT INTO airlock_dead_letter_row ... SELECT ... FROM "+p.bad())
	if p.spec.Watermark != nil {
		v.add("the watermark", "UPDATE airlock_watermark SET value = ?, tie_breaker = ?, advanced_at = ?, dag_id = ?, run_id = ? WHERE pipeline = ?")
	}
	v.add("the effect, and commit", "UPDATE airlock_effect SET status = 'done', rows_read = ?, ... WHERE idempotency_key = ?")
}

// Text is the preview for people.
func (v *Preview) Text() string {
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-12s%s\n", name, text)
		}
	}
	list := func(name string, texts []string) {
		for i, text := range texts {
			if i > 0 {
				name = ""
			}
			line(name, text)
		}
	}
	line("target", v.Target+" in "+v.Database)
	line("source", v.Source)
	line("key", strings.Join(v.Key, ", ")+", by the index "+v.KeyIndex)
	list("other keys", v.OtherKeys)
	line("version", v.Version)
	line("watermark", v.Watermark)
	list("columns", v.Columns)
	list("clauses", v.Clauses)
	list("note", v.Notes)
	for _, s := range v.Statements {
		fmt.Fprintf(&b, "\n-- %s\n%s;\n", s.Purpose, s.SQL)
	}
	return b.String()
}
