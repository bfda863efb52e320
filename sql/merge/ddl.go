package merge

import (
	"context"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge/column"
)

// TablesDDL are the statements that make the tables which a merge or sql step
// keeps in a target database.
func TablesDDL(db *dialect.DB) []string {
	if db.IsSQLite() {
		return sqliteTables()
	}
	return mysqlTables()
}

func mysqlTables() []string {
	const tail = " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
	return []string{
		`CREATE TABLE IF NOT EXISTS airlock_effect (
  idempotency_key VARCHAR(700) NOT NULL PRIMARY KEY,
  fingerprint CHAR(64) NOT NULL,
  fence BIGINT NOT NULL,
  status VARCHAR(16) NOT NULL CHECK (status IN ('open', 'done')),
  rows_read BIGINT NOT NULL DEFAULT 0,
  rows_merged BIGINT NOT NULL DEFAULT 0,
  rows_unchanged BIGINT NOT NULL DEFAULT 0,
  rows_quarantined BIGINT NOT NULL DEFAULT 0,
  rows_superseded BIGINT NOT NULL DEFAULT 0,
  result LONGTEXT,
  committed_at DATETIME(6),
  expires_at DATETIME(6) NOT NULL,
  CHECK (rows_read = rows_merged + rows_unchanged + rows_quarantined + rows_superseded)
)` + tail,
		`CREATE TABLE IF NOT EXISTS airlock_watermark (
  pipeline VARCHAR(250) NOT NULL PRIMARY KEY,
  column_name VARCHAR(128) NOT NULL,
  value VARCHAR(255),
  tie_breaker VARCHAR(255),
  advanced_at DATETIME(6) NOT NULL,
  dag_id VARCHAR(250) NOT NULL,
  run_id VARCHAR(250) NOT NULL
)` + tail,
		`CREATE TABLE IF NOT EXISTS airlock_dead_letter_row (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  dag_id VARCHAR(250) NOT NULL,
  run_id VARCHAR(250) NOT NULL,
  task_id VARCHAR(250) NOT NULL,
  map_index INT NOT NULL,
  batch_id VARCHAR(64) NOT NULL,
  source VARCHAR(1024) NOT NULL,
  source_line BIGINT NOT NULL,
  byte_offset BIGINT,
  row_key VARCHAR(255),
  raw LONGBLOB NOT NULL,
  column_name VARCHAR(128),
  error_code VARCHAR(64) NOT NULL,
  error_message TEXT NOT NULL,
  status VARCHAR(16) NOT NULL,
  enqueued_at DATETIME(6) NOT NULL,
  expires_at DATETIME(6) NOT NULL,
  source_format TEXT,
  original_raw LONGBLOB,
  return_count INT NOT NULL DEFAULT 0,
  updated_at DATETIME(6),
  KEY airlock_dead_letter_row_batch (batch_id),
  KEY airlock_dead_letter_row_place (status, source_line, byte_offset),
  KEY airlock_dead_letter_row_task (dag_id, task_id, status)
)` + tail,
		`CREATE TABLE IF NOT EXISTS airlock_dead_letter_row_audit (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  drain_id VARCHAR(64),
  dead_letter_id BIGINT NOT NULL,
  decision VARCHAR(16) NOT NULL,
  idempotency_key VARCHAR(700),
  reason TEXT NOT NULL,
  actor VARCHAR(250) NOT NULL,
  decided_at DATETIME(6) NOT NULL,
  UNIQUE KEY airlock_dead_letter_row_audit_drain (drain_id, dead_letter_id),
  KEY airlock_dead_letter_row_audit_letter (dead_letter_id)
)` + tail,
	}
}

func sqliteTables() []string {
	return []string{
		`CREATE TABLE IF NOT EXISTS airlock_effect (
  idempotency_key TEXT NOT NULL PRIMARY KEY,
  fingerprint TEXT NOT NULL,
  fence INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('open', 'done')),
  rows_read INTEGER NOT NULL DEFAULT 0,
  rows_merged INTEGER NOT NULL DEFAULT 0,
  rows_unchanged INTEGER NOT NULL DEFAULT 0,
  rows_quarantined INTEGER NOT NULL DEFAULT 0,
  rows_superseded INTEGER NOT NULL DEFAULT 0,
  result TEXT,
  committed_at TEXT,
  expires_at TEXT NOT NULL,
  CHECK (rows_read = rows_merged + rows_unchanged + rows_quarantined + rows_superseded)
)`,
		`CREATE TABLE IF NOT EXISTS airlock_watermark (
  pipeline TEXT NOT NULL PRIMARY KEY,
  column_name TEXT NOT NULL,
  value TEXT,
  tie_breaker TEXT,
  advanced_at TEXT NOT NULL,
  dag_id TEXT NOT NULL,
  run_id TEXT NOT NULL
)`,
		`CREATE TABLE IF NOT EXISTS airlock_dead_letter_row (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  dag_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  map_index INTEGER NOT NULL,
  batch_id TEXT NOT NULL,
  source TEXT NOT NULL,
  source_line INTEGER NOT NULL,
  byte_offset INTEGER,
  row_key TEXT,
  raw BLOB NOT NULL,
  column_name TEXT,
  error_code TEXT NOT NULL,
  error_message TEXT NOT NULL,
  status TEXT NOT NULL,
  enqueued_at TEXT NOT NULL,
  expires_at TEXT NOT NULL,
  source_format TEXT,
  original_raw BLOB,
  return_count INTEGER NOT NULL DEFAULT 0,
  updated_at TEXT
)`,
		`CREATE INDEX IF NOT EXISTS airlock_dead_letter_row_batch ON airlock_dead_letter_row (batch_id)`,
		`CREATE INDEX IF NOT EXISTS airlock_dead_letter_row_place ON airlock_dead_letter_row (status, source_line, byte_offset)`,
		`CREATE INDEX IF NOT EXISTS airlock_dead_letter_row_task ON airlock_dead_letter_row (dag_id, task_id, status)`,
		`CREATE TABLE IF NOT EXISTS airlock_dead_letter_row_audit (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  drain_id TEXT,
  dead_letter_id INTEGER NOT NULL,
  decision TEXT NOT NULL,
  idempotency_key TEXT,
  reason TEXT NOT NULL,
  actor TEXT NOT NULL,
  decided_at TEXT NOT NULL,
  UNIQUE (drain_id, dead_letter_id)
)`,
		`CREATE INDEX IF NOT EXISTS airlock_dead_letter_row_audit_letter ON airlock_dead_letter_row_audit (dead_letter_id)`,
	}
}

func tableExists(ctx context.Context, db *dialect.DB, q sqlx.QueryerContext, name string) (bool, error) {
	schema, table := splitTable(name)
	query, args := `SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND TABLE_NAME = ?`, []any{schema, table}
	if db.IsSQLite() {
		query, args = `SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND lower(name) = lower(?)`, []any{table}
	}
	var n int
	if err := q.QueryRowxContext(ctx, query, args...).Scan(&n); err != nil {
		return false, fmt.Errorf("look for the table %s: %w", name, err)
	}
	return n > 0, nil
}

// createDDL is the CREATE TABLE of a target with the step's columns: the key
// first, then the others in the step's order.
func createDDL(db *dialect.DB, s *Spec) string {
	var lines, keys []string
	isKey := map[string]bool{}
	add := func(c *column.Column, key bool) {
		line := "  " + dialect.Quote(c.Name) + " " + columnDDL(db, c.Type, key)
		if key || c.Required {
			line += " NOT NULL"
		} else if c.Type.Kind == column.Timestamp && !db.IsSQLite() {
			line += " NULL"
		}
		lines = append(lines, line)
	}
	for _, k := range s.Key {
		for _, c := range s.Columns {
			if strings.EqualFold(c.Name, k.Target) && !isKey[c.Name] {
				add(c, true)
				isKey[c.Name] = true
				keys = append(keys, dialect.Quote(c.Name))
			}
		}
	}
	for _, c := range s.Columns {
		if !isKey[c.Name] && !c.StagedOnly {
			add(c, false)
		}
	}
	lines = append(lines, "  PRIMARY KEY ("+strings.Join(keys, ", ")+")")
	tail := ""
	if !db.IsSQLite() {
		tail = " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
	}
	return "CREATE TABLE " + quoteTable(s.Target) + " (\n" + strings.Join(lines, ",\n") + "\n)" + tail
}

// columnDDL writes a column type for the database. SQLite rounds decimals
// beyond 15 digits in a numeric column, so those are kept as texts there.
func columnDDL(db *dialect.DB, t column.Type, key bool) string {
	if db.IsSQLite() {
		switch t.Kind {
		case column.Decimal:
			if t.Precision > 15 {
				return fmt.Sprintf("DECIMAL_TEXT(%d,%d)", t.Precision, t.Scale)
			}
			return fmt.Sprintf("DECIMAL(%d,%d)", t.Precision, t.Scale)
		case column.Integer:
			return map[int]string{8: "TINYINT", 16: "SMALLINT", 24: "MEDIUMINT", 32: "INT", 64: "BIGINT"}[t.Bits]
		case column.Timestamp:
			return "TIMESTAMP"
		default:
			return strings.ToUpper(t.String())
		}
	}
	switch t.Kind {
	case column.Timestamp:
		return fmt.Sprintf("DATETIME(%d)", t.Scale)
	case column.Text:
		if t.Length == 0 || t.Length > 16000 {
			if key {
				return "VARCHAR(255)"
			}
			return "LONGTEXT"
		}
	case column.Boolean:
		return "BOOLEAN"
	case column.Double:
		if t.Single {
			return "FLOAT"
		}
	case column.Blob:
		if key {
			return "VARBINARY(255)"
		}
		return "LONGBLOB"
	}
	return strings.ToUpper(t.String())
}
