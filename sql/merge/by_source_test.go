package merge_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/merge"
)

// TestRowsThatTheSourceHasNot spells the same clauses in YAML and as a
// statement.
func TestRowsThatTheSourceHasNot(t *testing.T) {
	t.Parallel()
	const file = "source: {file: i.csv}\ntarget: item\nkey: [id]\nduplicates: newest\ncolumns: {id: {type: int}, qty: {type: int}, note: {type: varchar(20)}}\n"
	const statement = "sql: |\n  MERGE INTO item AS t USING feed AS s ON t.id = s.id\n  WHEN MATCHED THEN UPDATE SET *\n  WHEN NOT MATCHED THEN INSERT *\n"
	for name, c := range map[string]struct {
		step             string
		want             []string
		updated, deleted int64
	}{
		"ignored":      {file, []string{"1|11|eins", "2|20|two", "3|30|three", "4|40|vier"}, 0, 0},
		"deleted":      {file + "when_not_matched_by_source: delete", []string{"1|11|eins", "4|40|vier"}, 0, 2},
		"condition":    {file + "when_not_matched_by_source: {delete: target.qty > 25}", []string{"1|11|eins", "2|20|two", "4|40|vier"}, 0, 1},
		"updated":      {file + "when_not_matched_by_source: {update: {note: \"'gone'\", qty: 0}}", []string{"1|11|eins", "2|0|gone", "3|0|gone", "4|40|vier"}, 2, 0},
		"both":         {file + "when_not_matched_by_source: {delete: target.qty > 25, update: {qty: target.qty + 1}, if: target.id = 2}", []string{"1|11|eins", "2|21|two", "4|40|vier"}, 1, 1},
		"in SQL":       {statement + "  WHEN NOT MATCHED BY SOURCE THEN DELETE", []string{"1|11|eins", "4|40|vier"}, 0, 2},
		"both in SQL":  {statement + "  WHEN NOT MATCHED BY SOURCE AND t.qty > 25 THEN DELETE\n  WHEN NOT MATCHED BY SOURCE AND t.id = 2 THEN UPDATE SET qty = t.qty + 1", []string{"1|11|eins", "2|21|two", "4|40|vier"}, 1, 1},
		"swap in SQL":  {statement + "  WHEN NOT MATCHED BY SOURCE AND t.qty < 25 THEN UPDATE SET qty = t.qty + 10, note = CONCAT('was ', t.qty)\n  WHEN NOT MATCHED BY SOURCE AND t.qty < 35 THEN DELETE", []string{"1|11|eins", "2|30|was 20", "4|40|vier"}, 1, 1},
		"not in a sum": {statement + "  WHEN NOT MATCHED BY SOURCE AND t.qty > 1000 THEN DELETE", []string{"1|11|eins", "2|20|two", "3|30|three", "4|40|vier"}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, b *bench) {
				b.items()
				b.exec("CREATE TABLE feed (id INT PRIMARY KEY, qty INT, note VARCHAR(20))", "INSERT INTO feed VALUES (1, 11, 'eins'), (4, 40, 'vier')")
				b.file("i.csv", "id,qty,note\n1,11,eins\n4,40,vier\n")
				d := b.run(b.spec(c.step))
				require.Equal(t, c.want, b.table("SELECT * FROM item ORDER BY id"))
				require.Equal(t, []int64{c.updated, c.deleted}, []int64{d.RowsUpdatedBySource, d.RowsDeletedBySource})
				require.Equal(t, []int64{2, 2, 1, 1}, []int64{d.RowsRead, d.RowsMerged, d.RowsInserted, d.RowsUpdated}, "they are no rows of the source")
			})
		})
	}
}

// TestUnknownSourceDeletesNothing: without all rows of the source nobody knows
// what it has not.
func TestUnknownSourceDeletesNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.items()
		step := b.spec("source: {file: i.csv}\ntarget: item\nkey: [id]\nbad_rows: {max: 5}\nduplicates: newest\nwhen_not_matched_by_source: delete\n" +
			"columns: {id: {type: int}, qty: {type: int}, note: {type: varchar(20)}}")
		b.file("i.csv", "id,qty,note\n")
		require.Zero(t, b.run(step).RowsDeletedBySource)
		b.file("i.csv", "id,qty,note\n1,11,eins\ntwo,20,two\n")
		d := b.run(step)
		require.Equal(t, int64(1), d.RowsQuarantined)
		require.Zero(t, d.RowsDeletedBySource)
		require.Contains(t, b.lines[len(b.lines)-1], "1 rows are bad")
		require.Equal(t, []string{"3"}, b.table("SELECT COUNT(*) FROM item"))
		b.file("i.csv", "id,qty,note\n1,11,eins\n")
		require.Equal(t, int64(2), b.run(step).RowsDeletedBySource)
	})
}

func TestConditionsOfUpdateAndInsert(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.items()
		b.file("i.csv", "id,qty,note,status\n1,11,eins,ok\n2,22,zwei,void\n4,40,vier,ok\n5,50,five,void\n")
		d := b.run(b.spec("source: {file: i.csv}\ntarget: item\nkey: [id]\n" + itemColumns + `
when_matched: {if: "source.status = 'ok' AND source.qty > target.qty", update: [qty]}
when_not_matched: {if: "source.status <> 'void'"}
`))
		require.Equal(t, []string{"1|11|one", "2|20|two", "3|30|three", "4|40|vier"}, b.table("SELECT * FROM item ORDER BY id"))
		require.Equal(t, []int64{1, 1, 2}, []int64{d.RowsInserted, d.RowsUpdated, d.RowsUnchanged})
	})
}

// TestKeysThatOnlyTheCollationFolds: case, blanks at the end, accents and emoji.
func TestKeysThatOnlyTheCollationFolds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		pairs := [][2]string{{"Straw", "STRAW"}, {"pad", "pad "}, {"caf\u00e9", "cafe"}, {"\U0001F363", "\U0001F37A"}}
		if b.db.IsSQLite() {
			b.exec("CREATE TABLE f (name TEXT COLLATE NOCASE PRIMARY KEY, v INT)")
			pairs = pairs[:1]
		} else {
			// The old general collation gives every emoji the same weight.
			b.exec("CREATE TABLE f (name VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci PRIMARY KEY, v INT)")
		}
		step := "source: {file: f.csv}\ntarget: f\nkey: [name]\nduplicates: newest\ncolumns: {name: {type: varchar(20)}, v: {type: int}}\n"
		for _, p := range pairs {
			b.file("f.csv", "name,v\nother,0\n"+p[0]+",1\n"+p[1]+",2\n")
			e := b.fail(b.spec(step), "MERGE_KEYS_FOLDED")
			require.Contains(t, e.Message, "lines 3 to 4")
			require.Empty(t, b.table("SELECT * FROM f"))
			d := b.run(b.spec(step + "folded_keys: same"))
			require.Equal(t, []int64{2, 1}, []int64{d.RowsInserted, d.RowsSuperseded})
			b.exec("DELETE FROM f")
		}
		// The very same key twice is no folding.
		b.file("f.csv", "name,v\nsame,1\nsame,2\n")
		require.Equal(t, int64(1), b.run(b.spec(step)).RowsSuperseded)
	})
}

// TestPaddedBinaryKeysFold: the _bin collations of MySQL and MariaDB fill up
// with blanks, SQLite does not.
func TestPaddedBinaryKeysFold(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		collate := " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
		if b.db.IsSQLite() {
			collate = ""
		}
		b.exec("CREATE TABLE f (name VARCHAR(20)" + collate + " PRIMARY KEY, v INT)")
		b.file("f.csv", "name,v\na,1\na ,2\nA,3\n")
		step := b.spec("source: {file: f.csv}\ntarget: f\nkey: [name]\nduplicates: newest\ncolumns: {name: {type: varchar(20)}, v: {type: int}}\n")
		if b.db.IsSQLite() {
			require.Equal(t, int64(3), b.run(step).RowsInserted)
			return
		}
		require.Contains(t, b.fail(step, "MERGE_KEYS_FOLDED").Message, `name "a" and "a "`)
	})
}

func TestStepsThatCannotKnowTheWholeSource(t *testing.T) {
	t.Parallel()
	for step, path := range map[string]string{
		"chunk: 10": "chunk",
		"when_not_matched_by_source: {if: 1 = 1}":             "when_not_matched_by_source",
		"when_not_matched_by_source: {delete: source.id > 1}": "when_not_matched_by_source.delete",
		"when_not_matched_by_source: gone":                    "when_not_matched_by_source",
		"when_not_matched: {if: target.id > 1}":               "when_not_matched.if",
		"watermark: {column: id, name: w}":                    "watermark",
	} {
		text := "source: {query: SELECT 1 AS id}\ntarget: t\nkey: [id]\n" + step
		if path == "chunk" || path == "watermark" {
			text += "\nwhen_not_matched_by_source: delete"
		}
		var paths []string
		_, problems := merge.ParseSpec(yamlMap(t, text))
		for _, p := range problems {
			paths = append(paths, p.Path)
		}
		require.Equal(t, []string{path}, paths, "%v", problems)
	}
}
