package merge_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/merge"
)

// TestQueriesOfThePage runs every query of docs/row-letters.md as it stands, and
// holds its table of columns against the database's.
func TestQueriesOfThePage(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/row-letters.md")
	require.NoError(t, err)
	page := string(raw)
	each(t, func(t *testing.T, b *bench) {
		b.file("orders.csv", poison(t, "orders_poison.csv"))
		spec := b.spec(ordersStep)
		b.run(spec)
		b.replay(spec)
		n := 0
		for _, block := range strings.Split(page, "```sql")[1:] {
			kind, rest, _ := strings.Cut(block, "\n")
			query, _, _ := strings.Cut(rest, "```")
			if kind = strings.TrimSpace(kind); kind != "" && (kind == "sqlite") != b.db.IsSQLite() {
				continue
			}
			n++
			rows := b.table(strings.TrimSuffix(strings.TrimSpace(query), ";"))
			if !strings.Contains(query, "return_count > 1") && !strings.Contains(query, "expires_at <") {
				require.NotEmpty(t, rows, query)
			}
		}
		require.Equal(t, 9, n)
		letters, err := merge.RowLetters(t.Context(), b.db, merge.RowLetterFilter{Limit: 1})
		require.NoError(t, err)
		require.Len(t, letters, 1)
		query := "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'airlock_dead_letter_row'"
		if b.db.IsSQLite() {
			query = "SELECT name FROM pragma_table_info('airlock_dead_letter_row')"
		}
		for _, name := range b.table(query) {
			require.Contains(t, page, "`"+name+"`", "the page lacks a column")
		}
	})
}
