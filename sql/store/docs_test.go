package store_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/sqltest"
)

// The questions in the manual work as they stand, on every dialect.
func TestQuestionsOfTheManual(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/dead-letters.md")
	require.NoError(t, err)
	blocks := strings.Split(string(page), "```sql\n")[1:]
	require.GreaterOrEqual(t, len(blocks), 6)
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		s := open(t, dsn)
		for _, block := range blocks {
			query, _, _ := strings.Cut(block, "```")
			rows, err := s.DB().Reader().QueryContext(t.Context(), query)
			require.NoError(t, err, query)
			require.NoError(t, rows.Close())
			require.NoError(t, rows.Err())
		}
		// Each column that the manual names is there.
		var columns []string
		for line := range strings.SplitSeq(string(page), "\n") {
			cells := strings.Split(line, "|")
			if len(cells) == 4 && strings.HasPrefix(line, "| `") {
				for name := range strings.SplitSeq(cells[1], ",") {
					columns = append(columns, strings.Trim(name, " `"))
				}
			}
		}
		require.Len(t, columns, 29)
		_, err := s.DB().Reader().ExecContext(t.Context(), "SELECT "+strings.Join(columns, ", ")+" FROM dead_letter")
		require.NoError(t, err)
	})
}
