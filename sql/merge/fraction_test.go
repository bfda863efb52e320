package merge_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/sqltest"
)

// TestComputedFractionsAreCut: a time with a finer fraction than its column has
// is cut, on MySQL and on MariaDB, whatever the server's own mode says. A value
// that a row brings itself is refused instead.
func TestComputedFractionsAreCut(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		b := newBench(t, dsn)
		b.exec("CREATE TABLE f (id INT PRIMARY KEY, whole DATETIME, milli DATETIME(3))",
			"CREATE TABLE feed (id INT PRIMARY KEY, seen DATETIME(6))",
			"INSERT INTO f VALUES (1, NULL, NULL)",
			"INSERT INTO feed VALUES (1, '2026-12-31 23:59:59.999999'), (2, '2026-12-31 23:59:59.999999')")
		const step = `
sql: |
  MERGE INTO f AS t USING feed AS s ON t.id = s.id
  WHEN MATCHED THEN UPDATE SET whole = s.seen, milli = s.seen
  WHEN NOT MATCHED THEN INSERT (id, whole, milli) VALUES (s.id, s.seen, s.seen)
`
		b.run(b.spec(step))
		require.Equal(t, []string{"1|2026-12-31T23:59:59|2026-12-31T23:59:59.999", "2|2026-12-31T23:59:59|2026-12-31T23:59:59.999"},
			b.table("SELECT id, whole, milli FROM f ORDER BY id"))
		require.Equal(t, int64(2), b.run(b.spec(step)).RowsUnchanged)

		b.file("f.csv", "id,whole\n3,2026-12-31 23:59:59.5\n4,2026-12-31 23:59:59.000\n")
		d := b.run(b.spec("{source: {file: f.csv}, target: f, key: [id], columns: {id: {type: int}, whole: {type: timestamp, timezone: UTC}}}"))
		require.Equal(t, []int64{1, 1}, []int64{d.RowsInserted, d.RowsQuarantined})
		require.Equal(t, map[string]string{"2": "TOO_MANY_DECIMALS|whole"}, b.letters())
	})
}

// TestTextsOfEveryCharacterSetAreLoadedExactly: what LOAD DATA LOCAL would bend
// in silence is found, and its row alone is refused.
func TestTextsOfEveryCharacterSetAreLoadedExactly(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		b := newBench(t, dsn)
		b.exec("CREATE TABLE c (id INT PRIMARY KEY, old VARCHAR(20) CHARACTER SET latin1, new VARCHAR(40) CHARACTER SET utf8mb4, few ENUM('a', 'b'), raw BLOB)")
		b.file("c.csv", "id,old,new,few,raw\n1,caf\u00e9,\"tab\tline\nback\\slash \\N\",a,\\N\n2,\u732b,cat,b,x\n3,ok,\U0001F363,c,y\n4,,\"\",,\"\"\n5,NULL,'quoted',b,\\0\n")
		d := b.run(b.spec("{source: {file: c.csv}, target: c, key: [id], bad_rows: {max: 2}, columns: {id: {type: int}, old: {type: varchar(20)}, new: {type: varchar(40)}, few: {type: varchar(5)}, raw: {type: blob}}}"))
		require.Equal(t, []int64{3, 2}, []int64{d.RowsInserted, d.RowsQuarantined})
		require.Equal(t, []string{
			"1|caf\u00e9|tab\tline\nback\\slash \\N|a|\\N",
			"4|null||null|",
			"5|NULL|'quoted'|b|\\0",
		}, b.table("SELECT id, old, new, few, raw FROM c ORDER BY id"))
		letters := b.letters()
		require.Equal(t, "REJECTED_BY_DATABASE|old", letters["4"])
		require.Equal(t, "REJECTED_BY_DATABASE|few", letters["5"])
	})
}
