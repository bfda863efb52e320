package merge_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/merge"
)

// A target that an earlier version made is brought to the present in place, and
// keeps what it has.
func TestTablesOfAnEarlierVersionAreUpgraded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		later := regexp.MustCompile(`,?\n  (source_format|original_raw|return_count|updated_at) [^,\n]*`)
		for _, s := range merge.TablesDDL(b.db) {
			if strings.Contains(s, "airlock_dead_letter_row_audit") {
				continue
			}
			old := later.ReplaceAllString(s, "")
			if strings.Contains(old, "KEY airlock_dead_letter_row_batch") {
				old = strings.Replace(old, "NULL\n  KEY", "NULL,\n  KEY", 1)
			}
			b.exec(old)
		}
		b.exec(`INSERT INTO airlock_dead_letter_row (dag_id, run_id, task_id, map_index, batch_id, source, source_line, byte_offset, raw, error_code, error_message, status, enqueued_at, expires_at)
			VALUES ('d', 'r', 't', -1, 'b', 'o.csv', 2, 9, 'x', 'TOO_LONG', 'm', 'quarantined', '2026-01-01 00:00:00.000000', '2026-01-15 00:00:00.000000')`)
		require.Equal(t, []string{"x"}, rawsOf(t, b), "a table of an earlier version can be read as it is")
		require.NoError(t, merge.EnsureTables(t.Context(), b.db))
		require.NoError(t, merge.EnsureTables(t.Context(), b.db))
		require.Equal(t, []string{"x|0|null|null|null"}, b.table("SELECT raw, return_count, source_format, original_raw, updated_at FROM airlock_dead_letter_row"))
		require.Equal(t, []string{"0"}, b.table("SELECT COUNT(*) FROM airlock_dead_letter_row_audit"))
		require.Equal(t, []string{"x"}, rawsOf(t, b))
	})
}

func rawsOf(t *testing.T, b *bench) []string {
	t.Helper()
	letters, err := merge.RowLetters(t.Context(), b.db, merge.RowLetterFilter{})
	require.NoError(t, err)
	var out []string
	for _, l := range letters {
		out = append(out, l.Raw)
	}
	return out
}

// Each letter says how its source is to be read, whether its row was refused
// when it was read, by the stage or by the target.
func TestLettersKeepTheFormatOfTheirSource(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE m (k INT PRIMARY KEY, v INT CHECK (v < 900))")
		b.file("m.csv", "v,k,note\n1,x,a\n1000,2,b\n5,3,c\n\"open\n")
		d := b.run(b.spec(`
source: {file: m.csv}
target: m
key: [k]
columns: {k: {type: int}, v: {type: int}}
`))
		require.Equal(t, int64(3), d.RowsQuarantined)
		const layout = `{"format":"csv","columns":["v","k","note"]}`
		require.Equal(t, []string{"2|" + layout, "3|" + layout, "5|" + layout}, b.table("SELECT source_line, source_format FROM airlock_dead_letter_row ORDER BY source_line"))
	})
}
