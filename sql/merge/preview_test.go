package merge_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/merge"
)

func (b *bench) preview(step string) *merge.Preview {
	b.t.Helper()
	spec := b.spec(step)
	p, err := b.engine().Preview(b.t.Context(), spec, b.job(spec).Source)
	require.NoError(b.t, err)
	return p
}

// TestPreviewNamesTheTraps plans a step for a table with other unique keys, and
// changes nothing.
func TestPreviewNamesTheTraps(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		collate, name := " CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", "utf8mb4_general_ci"
		if b.db.IsSQLite() {
			collate, name = " COLLATE NOCASE", "NOCASE"
		}
		b.exec("CREATE TABLE person (id INT PRIMARY KEY, mail VARCHAR(40)" + collate + " UNIQUE, phone VARCHAR(20) UNIQUE)")
		p := b.preview("source: {file: p.csv}\ntarget: person\nkey: [mail]\ncolumns: {id: {type: int}, mail: {type: varchar(40)}, phone: {type: varchar(20)}}\n" +
			"when_matched: {delete: \"source.phone = ''\", update: [phone]}\nwhen_not_matched_by_source: delete")
		require.Equal(t, []string{"mail"}, p.Key)
		require.Contains(t, p.KeyIndex, "(mail)")
		require.Len(t, p.OtherKeys, 2)
		notes := strings.Join(p.Notes, "\n")
		require.Contains(t, notes, "the key column mail may be null")
		require.Contains(t, notes, "the collation "+name)
		require.Contains(t, notes, "UNIQUE_CONFLICT")
		require.Contains(t, notes, "without a version")
		require.Equal(t, []string{
			"WHEN MATCHED AND source.phone = '' THEN DELETE", "WHEN NOT MATCHED AND source.phone = '' THEN DO NOTHING",
			"WHEN MATCHED THEN UPDATE SET phone", "WHEN NOT MATCHED THEN INSERT *", "WHEN NOT MATCHED BY SOURCE THEN DELETE",
		}, p.Clauses)
		text := p.Text()
		require.Contains(t, text, "INSERT INTO `person` (")
		require.NotContains(t, text, "REPLACE")
		require.NotContains(t, text, "ON DUPLICATE KEY")
		if b.db.IsSQLite() {
			require.Equal(t, []string{"person"}, b.table("SELECT name FROM sqlite_master WHERE type = 'table'"))
		} else {
			require.Equal(t, []string{"1"}, b.table("SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()"))
		}
	})
}

// TestBothSpellingsAreOnePlan: the statements of a MERGE statement and of its
// keys are the same.
func TestBothSpellingsAreOnePlan(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.items()
		b.exec("CREATE TABLE feed (id INT PRIMARY KEY, qty INT, note VARCHAR(20))")
		keys := b.preview("source: {query: SELECT * FROM `feed`}\ntarget: item\nkey: [id]\n" +
			"when_matched: {delete: source.qty = 0, update: update, if: source.qty > target.qty}\nwhen_not_matched: {if: source.qty <> 0}\nwhen_not_matched_by_source: {delete: target.qty < 0}")
		statement := b.preview(`
sql: |
  MERGE INTO item AS target USING feed AS source ON target.id = source.id
  WHEN MATCHED AND source.qty = 0 THEN DELETE
  WHEN NOT MATCHED AND source.qty = 0 THEN DO NOTHING
  WHEN MATCHED AND source.qty > target.qty THEN UPDATE SET *
  WHEN NOT MATCHED AND source.qty <> 0 THEN INSERT *
  WHEN NOT MATCHED BY SOURCE AND target.qty < 0 THEN DELETE
`)
		require.Equal(t, keys, statement)
		require.Greater(t, len(keys.Statements), 8)
	})
}

func TestPreviewOfATableThatIsNotThere(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		p := b.preview("source: {file: p.csv}\ntarget: made\ncreate_target: true\nkey: [id]\ncolumns: {id: {type: int}, name: {type: varchar(40), required: true}}\nwatermark: {column: id, name: w}")
		require.Contains(t, p.Statements[0].SQL, "CREATE TABLE `made`")
		require.Equal(t, "PRIMARY (id)", p.KeyIndex)
		spec := b.spec("source: {file: p.csv}\ntarget: made\nkey: [id]\ncolumns: {id: {type: int}}")
		_, err := b.engine().Preview(t.Context(), spec, b.job(spec).Source)
		require.ErrorContains(t, err, "there is no table made")
		// What the plan says is what the step does.
		b.file("p.csv", "id,name\n1,x\n")
		require.Equal(t, int64(1), b.run(b.spec("source: {file: p.csv}\ntarget: made\ncreate_target: true\nkey: [id]\ncolumns: {id: {type: int}, name: {type: varchar(40), required: true}}")).RowsInserted)
	})
}

// TestWatermarkIsMovedByAPerson: set back, then removed; the batches read again
// from there, and the check knows that it was on purpose.
func TestWatermarkIsMovedByAPerson(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE c (id INT PRIMARY KEY, at DATETIME(6))", "CREATE TABLE feed (id INT PRIMARY KEY, at DATETIME(6))",
			"INSERT INTO feed VALUES (1, '2026-03-01 00:00:01'), (2, '2026-03-02 00:00:01'), (3, '2026-03-03 00:00:01')")
		step := b.spec("source: {query: SELECT * FROM feed}\ntarget: c\nkey: [id]\nwatermark: {column: at, name: c, lookback: 0}")
		b.run(step)
		require.Equal(t, int64(1), b.run(step).RowsRead)
		marks, err := merge.Watermarks(t.Context(), b.db)
		require.NoError(t, err)
		require.Equal(t, "2026-03-03 00:00:01.000000", marks[0].Value)

		change := func(value string) (merge.Watermark, error) {
			c := merge.WatermarkChange{Name: "c", By: "cli:alice", At: time.Now()}
			if value != "" {
				c.Value = &value
			}
			return merge.ChangeWatermark(t.Context(), b.db, c)
		}
		was, err := change("2026-03-02T01:00:01+01:00")
		require.NoError(t, err)
		require.Equal(t, "2026-03-03 00:00:01.000000", was.Value)
		violations, err := merge.Check(t.Context(), b.db)
		require.NoError(t, err)
		require.Empty(t, violations)
		d := b.run(step)
		require.Equal(t, int64(2), d.RowsRead)
		require.Equal(t, int64(2), d.RowsUnchanged)
		_, err = change("yesterday")
		require.ErrorContains(t, err, "not of the form")
		_, err = change("")
		require.NoError(t, err)
		violations, err = merge.Check(t.Context(), b.db)
		require.NoError(t, err)
		require.Empty(t, violations)
		require.Equal(t, int64(3), b.run(step).RowsRead)
		require.Equal(t, []string{"2"}, b.table("SELECT COUNT(*) FROM airlock_effect WHERE idempotency_key LIKE 'watermark:c:%'"))

		// Set back by nobody, it is a violation.
		b.exec("UPDATE airlock_watermark SET value = '2026-01-01 00:00:00.000000'")
		violations, err = merge.Check(t.Context(), b.db)
		require.NoError(t, err)
		require.NotEmpty(t, violations)
		_, err = merge.ChangeWatermark(t.Context(), b.db, merge.WatermarkChange{Name: "d"})
		require.ErrorIs(t, err, merge.ErrNoWatermark)
	})
}
