package merge_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

func TestRowLetters(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		db := sqltest.Open(t, dsn)
		none, err := merge.RowLetters(t.Context(), db, merge.RowLetterFilter{})
		require.NoError(t, err, "a database without the table has none")
		require.Empty(t, none)

		require.NoError(t, merge.EnsureTables(t.Context(), db))
		at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
		for i, code := range []string{"OUT_OF_RANGE", "MISSING", "OUT_OF_RANGE"} {
			_, err := db.Writer().ExecContext(t.Context(), `INSERT INTO airlock_dead_letter_row (dag_id, run_id, task_id, map_index, batch_id, source, source_line,
				byte_offset, row_key, raw, column_name, error_code, error_message, status, enqueued_at, expires_at)
				VALUES ('d', 'r', 't', -1, 'b', 'orders.csv', ?, ?, NULL, ?, 'amount', ?, 'it is wrong', 'quarantined', ?, ?)`,
				i+2, 100*i, []byte("1,x\n"), code, dialect.Stamp(at), dialect.Stamp(at.Add(24*time.Hour)))
			require.NoError(t, err)
		}
		all, err := merge.RowLetters(t.Context(), db, merge.RowLetterFilter{DagID: "d", TaskID: "t", Status: "quarantined"})
		require.NoError(t, err)
		require.Len(t, all, 3)
		require.Equal(t, "d/r/t", all[0].String())
		require.Equal(t, []int64{2, 3, 4}, []int64{all[0].SourceLine, all[1].SourceLine, all[2].SourceLine})
		require.Equal(t, int64(200), *all[2].ByteOffset)
		require.Nil(t, all[0].RowKey)
		require.Equal(t, "1,x\n", all[0].Raw)
		require.True(t, at.Equal(all[0].EnqueuedAt))
		require.True(t, at.Add(24*time.Hour).Equal(all[0].ExpiresAt))
		text, err := json.Marshal(all[0])
		require.NoError(t, err)
		require.Contains(t, string(text), `"task_id":"t"`)

		some, err := merge.RowLetters(t.Context(), db, merge.RowLetterFilter{ErrorCode: "OUT_OF_RANGE", Limit: 1})
		require.NoError(t, err)
		require.Len(t, some, 1)
		none, err = merge.RowLetters(t.Context(), db, merge.RowLetterFilter{BatchID: "other", RunID: "r"})
		require.NoError(t, err)
		require.Empty(t, none)
	})
}
