package merge

import (
	"strings"

	"github.com/airlock-dag/airlock/sql/dialect"
)

// splitTable takes a name apart at its dot: database (may be empty) and table.
func splitTable(name string) (schema, table string) {
	if schema, table, ok := strings.Cut(name, "."); ok {
		return schema, table
	}
	return "", name
}

func quoteTable(name string) string {
	schema, table := splitTable(name)
	if schema == "" {
		return dialect.Quote(table)
	}
	return dialect.Quote(schema) + "." + dialect.Quote(table)
}
