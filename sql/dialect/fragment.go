package dialect

import "strings"

// Quote makes an identifier safe to stand in SQL, in the backquotes that all
// three databases read. A backquote inside is doubled.
func Quote(ident string) string {
	return "`" + strings.ReplaceAll(ident, "`", "``") + "`"
}

// QuoteAll quotes and joins identifiers with commas.
func QuoteAll(idents []string) string {
	q := make([]string, len(idents))
	for i, s := range idents {
		q[i] = Quote(s)
	}
	return strings.Join(q, ", ")
}

// Marks is n question marks with commas: "?,?,?".
func Marks(n int) string {
	if n <= 0 {
		return ""
	}
	return strings.Repeat("?,", n-1) + "?"
}

// Rows is n bracketed groups of marks for a multi-row INSERT: "(?,?),(?,?)".
func Rows(n, columns int) string {
	if n <= 0 || columns <= 0 {
		return ""
	}
	row := "(" + Marks(columns) + ")"
	return strings.Repeat(row+",", n-1) + row
}

// ForUpdate ends a SELECT that locks the rows it finds. SQLite has no row
// locks: there the transaction itself holds the one write lock.
func (d *DB) ForUpdate() string {
	if d.kind == SQLite {
		return ""
	}
	return " FOR UPDATE"
}

// SkipLocked ends a SELECT that locks the rows it finds and passes over those
// that others hold; empty on SQLite.
func (d *DB) SkipLocked() string {
	if d.kind == SQLite {
		return ""
	}
	return " FOR UPDATE SKIP LOCKED"
}

// ForceIndex follows a table's name: the index that must serve the query.
func (d *DB) ForceIndex(name string) string {
	if d.kind == SQLite {
		return " INDEXED BY " + Quote(name)
	}
	return " FORCE INDEX (" + Quote(name) + ")"
}

// StraightJoin joins the table before it with the one after it, in that order.
func (d *DB) StraightJoin() string {
	if d.kind == SQLite {
		return " CROSS JOIN "
	}
	return " STRAIGHT_JOIN "
}

// Upsert is the end of an INSERT that overwrites the columns in set when the
// unique key exists. The key's columns are named for SQLite; the other two look
// at every unique key of the table.
func (d *DB) Upsert(key, set []string) string {
	parts := make([]string, len(set))
	if d.kind == SQLite {
		for i, c := range set {
			parts[i] = Quote(c) + " = excluded." + Quote(c)
		}
		if len(set) == 0 {
			return " ON CONFLICT (" + QuoteAll(key) + ") DO NOTHING"
		}
		return " ON CONFLICT (" + QuoteAll(key) + ") DO UPDATE SET " + strings.Join(parts, ", ")
	}
	for i, c := range set {
		// VALUES(col) is the form that both MySQL 8 and MariaDB read.
		parts[i] = Quote(c) + " = VALUES(" + Quote(c) + ")"
	}
	if len(set) == 0 {
		parts = []string{Quote(key[0]) + " = " + Quote(key[0])}
	}
	return " ON DUPLICATE KEY UPDATE " + strings.Join(parts, ", ")
}
