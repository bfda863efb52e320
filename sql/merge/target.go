package merge

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge/column"
)

// target is the table that a batch goes into, as the database describes it.
type target struct {
	name    string // as the step writes it
	columns []targetColumn
	unique  []uniqueKey
	// quiet is set where it is certain that a write sets off no trigger, and that
	// a statement which fails leaves nothing behind.
	quiet bool
}

// targetColumn is one column of the target.
type targetColumn struct {
	name string
	// ddl is the column's type as CREATE TABLE takes it, with its collation.
	ddl string
	// data is the type's bare name in lower case: "varchar".
	data string
	// typ is the type as values are checked against it; known is false for one
	// that this package has no checks for.
	typ       column.Type
	known     bool
	nullable  bool
	optional  bool // has a default, counts by itself or is null when not given
	generated bool
	counts    bool // gives itself the next number
	// numeric marks a SQLite column that turns texts into numbers.
	numeric bool
}

// uniqueKey is a unique index of the target, the primary key among them.
type uniqueKey struct {
	name    string
	columns []string
	// collations of SQLite columns, "" elsewhere.
	collations []string
	// usable is false for an index over expressions, prefixes or some rows only.
	usable bool
}

func (t *target) column(name string) *targetColumn {
	for i := range t.columns {
		if t.columns[i].name == name {
			return &t.columns[i]
		}
	}
	for i := range t.columns {
		if strings.EqualFold(t.columns[i].name, name) {
			return &t.columns[i]
		}
	}
	return nil
}

func (t *target) names() []string {
	out := make([]string, len(t.columns))
	for i, c := range t.columns {
		out[i] = c.name
	}
	return out
}

// keyIndex finds the unique index over exactly the given columns.
func (t *target) keyIndex(names []string) *uniqueKey {
	for i := range t.unique {
		u := &t.unique[i]
		if !u.usable || len(u.columns) != len(names) {
			continue
		}
		all := true
		for _, n := range names {
			_, ok := fold(u.columns, n)
			all = all && ok
		}
		if all {
			return u
		}
	}
	return nil
}

// inspect reads the target's description; nil when there is no such table.
func inspect(ctx context.Context, db *dialect.DB, q sqlx.QueryerContext, name string) (*target, error) {
	t := &target{name: name}
	var err error
	if db.IsSQLite() {
		err = t.readSQLite(ctx, q)
	} else {
		err = t.readMySQL(ctx, q)
	}
	if err != nil {
		return nil, fmt.Errorf("read the columns of %s: %w", name, err)
	}
	if len(t.columns) == 0 {
		return nil, nil
	}
	return t, nil
}

func (t *target) readMySQL(ctx context.Context, q sqlx.QueryerContext) error {
	schema, table := splitTable(t.name)
	rows, err := q.QueryxContext(ctx, `SELECT COLUMN_NAME, COLUMN_TYPE, DATA_TYPE, IS_NULLABLE, COLUMN_DEFAULT, EXTRA, CHARACTER_SET_NAME, COLLATION_NAME
		FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION`, schema, table)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var c targetColumn
		var nullable, extra string
		var fallback, charset, collation sql.NullString
		if err := rows.Scan(&c.name, &c.ddl, &c.data, &nullable, &fallback, &extra, &charset, &collation); err != nil {
			return err
		}
		extra = strings.ToUpper(extra)
		c.data = strings.ToLower(c.data)
		c.nullable = nullable == "YES"
		c.generated = strings.Contains(extra, "VIRTUAL") || strings.Contains(extra, "STORED GENERATED") || strings.Contains(extra, "PERSISTENT")
		c.optional = c.nullable || fallback.Valid || strings.Contains(extra, "AUTO_INCREMENT") || strings.Contains(extra, "DEFAULT_GENERATED")
		c.counts = strings.Contains(extra, "AUTO_INCREMENT")
		c.typ, c.known = mysqlType(c.ddl, c.data)
		if charset.Valid && c.data != "json" {
			c.ddl += " CHARACTER SET " + charset.String + " COLLATE " + collation.String
		}
		t.columns = append(t.columns, c)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if len(t.columns) == 0 {
		return nil
	}
	if err := t.readMySQLTriggers(ctx, q, schema, table, false); err != nil {
		return err
	}
	return t.readMySQLKeys(ctx, q, schema, table)
}

// mysqlType reads COLUMN_TYPE; timestamps without a number have whole seconds.
func mysqlType(ddl, data string) (column.Type, bool) {
	switch data {
	case "enum", "set":
		return column.Type{Kind: column.Text}, true
	}
	typ, err := column.ParseType(ddl)
	if err != nil {
		return column.Type{}, false
	}
	switch data {
	case "datetime", "timestamp":
		if !strings.Contains(ddl, "(") {
			typ.Scale = 0
		}
	case "float":
		typ.Single = true
	}
	return typ, true
}

func (t *target) readMySQLKeys(ctx context.Context, q sqlx.QueryerContext, schema, table string) error {
	rows, err := q.QueryxContext(ctx, `SELECT INDEX_NAME, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS
		WHERE TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND TABLE_NAME = ? AND NON_UNIQUE = 0 ORDER BY INDEX_NAME = 'PRIMARY' DESC, INDEX_NAME, SEQ_IN_INDEX`, schema, table)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var index string
		var col sql.NullString
		var part sql.NullInt64
		if err := rows.Scan(&index, &col, &part); err != nil {
			return err
		}
		if n := len(t.unique); n == 0 || t.unique[n-1].name != index {
			t.unique = append(t.unique, uniqueKey{name: index, usable: true})
		}
		u := &t.unique[len(t.unique)-1]
		u.columns = append(u.columns, col.String)
		u.collations = append(u.collations, "")
		u.usable = u.usable && col.Valid && !part.Valid
	}
	return rows.Err()
}

func (t *target) readSQLite(ctx context.Context, q sqlx.QueryerContext) error {
	schema, table := splitTable(t.name)
	if schema == "" {
		schema = "main"
	}
	rows, err := q.QueryxContext(ctx, `SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?, ?) ORDER BY cid`, table, schema)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	var primary []string
	places := map[string]int{}
	for rows.Next() {
		var c targetColumn
		var notNull, pk, hidden int
		var fallback sql.NullString
		if err := rows.Scan(&c.name, &c.ddl, &notNull, &fallback, &pk, &hidden); err != nil {
			return err
		}
		c.data = strings.ToLower(c.ddl)
		c.nullable = notNull == 0
		c.generated = hidden == 2 || hidden == 3
		c.optional = c.nullable || fallback.Valid || (pk > 0 && c.data == "integer")
		c.numeric = numericAffinity(c.ddl)
		if typ, err := column.ParseType(c.ddl); err == nil {
			if typ.Kind == column.Integer {
				typ.Bits = 64 // SQLite keeps eight bytes whatever the type is called
			}
			c.typ, c.known = typ, true
		}
		if hidden == 1 {
			continue
		}
		if pk > 0 {
			primary = append(primary, c.name)
			places[c.name] = pk
		}
		t.columns = append(t.columns, c)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if err := t.readSQLiteKeys(ctx, q, schema, table); err != nil {
		return err
	}
	if len(primary) > 0 && t.keyIndex(primary) == nil {
		// An INTEGER PRIMARY KEY has no index of its own.
		t.unique = append([]uniqueKey{{name: "PRIMARY KEY", columns: primary, collations: make([]string, len(primary)), usable: true}}, t.unique...)
	}
	return nil
}

func (t *target) readSQLiteKeys(ctx context.Context, q sqlx.QueryerContext, schema, table string) error {
	rows, err := q.QueryxContext(ctx, `SELECT l.name, l.partial, x.name, x.coll, l.origin FROM pragma_index_list(?, ?) l, pragma_index_xinfo(l.name, ?) x
		WHERE l."unique" = 1 AND x.key = 1 ORDER BY l.origin = 'pk' DESC, l.name, x.seqno`, table, schema, schema)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var index, origin string
		var partial bool
		var col, coll sql.NullString
		if err := rows.Scan(&index, &partial, &col, &coll, &origin); err != nil {
			return err
		}
		if n := len(t.unique); n == 0 || t.unique[n-1].name != index {
			t.unique = append(t.unique, uniqueKey{name: index, usable: true})
		}
		u := &t.unique[len(t.unique)-1]
		u.columns = append(u.columns, col.String)
		u.collations = append(u.collations, coll.String)
		u.usable = u.usable && col.Valid && !partial
	}
	return rows.Err()
}

// numericAffinity follows SQLite's rules for a declared type.
func numericAffinity(ddl string) bool {
	d := strings.ToUpper(ddl)
	switch {
	case strings.Contains(d, "INT"):
		return true
	case strings.Contains(d, "CHAR"), strings.Contains(d, "CLOB"), strings.Contains(d, "TEXT"), strings.Contains(d, "BLOB"), d == "":
		return false
	default:
		return true
	}
}
