package merge

import (
	"context"
	"fmt"
	"strings"

	"github.com/airlock-dag/airlock/sql/dialect"
)

// laterColumn is a column that a table got after it had been made in somebody's
// database.
type laterColumn struct{ table, name, mysql, sqlite string }

// laterColumns are added to tables that lack them. Each is null or has a default,
// so that an older binary goes on writing to the table.
func laterColumns() []laterColumn {
	const letters = "airlock_dead_letter_row"
	return []laterColumn{
		{letters, "source_format", "TEXT", "TEXT"},
		{letters, "original_raw", "LONGBLOB", "BLOB"},
		{letters, "return_count", "INT NOT NULL DEFAULT 0", "INTEGER NOT NULL DEFAULT 0"},
		{letters, "updated_at", "DATETIME(6)", "TEXT"},
	}
}

// ownTables are the tables that Airlock keeps in a target.
func ownTables() []string {
	return []string{"airlock_effect", "airlock_watermark", "airlock_dead_letter_row", "airlock_dead_letter_row_audit"}
}

// EnsureTables makes the tables that are not there, and gives those that an
// earlier version made the columns that they lack. On MySQL and MariaDB this
// commits, so it is done before any transaction begins.
func EnsureTables(ctx context.Context, db *dialect.DB) error {
	ddl, err := missingDDL(ctx, db)
	if err != nil || len(ddl) == 0 {
		return err
	}
	for _, s := range ddl {
		_, err := db.Writer().ExecContext(ctx, s)
		if err == nil || alreadyThere(err) {
			continue
		}
		if dialect.ClassOf(err) == dialect.ClassConfig {
			return problem(codeTargetTables, "the tables of Airlock in %s are missing or of an earlier version, and may not be changed: %s", db, err).
				hint("let the user make and alter tables, or run these once:\n%s;", strings.Join(ddl, ";\n"))
		}
		return fmt.Errorf("make the tables of Airlock in %s: %w", db, err)
	}
	return nil
}

// missingDDL is what must be run to bring a target to the present; nothing when
// it is there.
func missingDDL(ctx context.Context, db *dialect.DB) ([]string, error) {
	have, err := ownColumns(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("look for the tables of Airlock in %s: %w", db, err)
	}
	var ddl []string
	for _, t := range ownTables() {
		if have[t] == nil {
			ddl = TablesDDL(db)
			break
		}
	}
	for _, c := range laterColumns() {
		if have[c.table] == nil || have[c.table][c.name] {
			continue
		}
		typ := c.mysql
		if db.IsSQLite() {
			typ = c.sqlite
		}
		ddl = append(ddl, "ALTER TABLE "+c.table+" ADD COLUMN "+c.name+" "+typ)
	}
	return ddl, nil
}

// ownColumns are the columns of Airlock's tables by table.
func ownColumns(ctx context.Context, db *dialect.DB) (map[string]map[string]bool, error) {
	query := "SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ("
	if db.IsSQLite() {
		query = "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name IN ("
	}
	var args []any
	for _, t := range ownTables() {
		args = append(args, t)
	}
	rows, err := db.Writer().QueryxContext(ctx, query+dialect.Marks(len(args))+")", args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	out := map[string]map[string]bool{}
	for rows.Next() {
		var table, column string
		if err := rows.Scan(&table, &column); err != nil {
			return nil, err
		}
		table = strings.ToLower(table)
		if out[table] == nil {
			out[table] = map[string]bool{}
		}
		out[table][strings.ToLower(column)] = true
	}
	return out, rows.Err()
}

// alreadyThere tells whether another process added the column meanwhile.
func alreadyThere(err error) bool {
	const duplicateColumn = 1060 // of MySQL and MariaDB
	n, _ := dialect.Number(err)
	return n == duplicateColumn || strings.Contains(err.Error(), "duplicate column name")
}
