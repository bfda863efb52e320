package merge_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge"
)

func lockWaitOfOneSecond(t *testing.T, dsn string) *dialect.DB {
	t.Helper()
	db, err := dialect.Open(t.Context(), dsn, dialect.Options{LockWait: time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

const itemColumns = "columns: {id: {type: int}, qty: {type: int}, note: {type: varchar(20)}, status: {type: varchar(10), store: false}}"

func (b *bench) items() {
	b.exec("CREATE TABLE item (id INT PRIMARY KEY, qty INT, note VARCHAR(20))", "INSERT INTO item VALUES (1, 10, 'one'), (2, 20, 'two'), (3, 30, 'three')")
}

func TestWhenMatched(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		when                                  string
		want                                  []string
		inserted, updated, deleted, unchanged int64
	}{
		"update":           {"", []string{"1|11|eins", "2|20|two", "3|30|three", "4|40|vier", "5|0|"}, 2, 1, 0, 1},
		"columns":          {"when_matched: [qty]", []string{"1|11|one", "2|20|two", "3|30|three", "4|40|vier", "5|0|"}, 2, 1, 0, 1},
		"ignore":           {"when_matched: ignore", []string{"1|10|one", "2|20|two", "3|30|three", "4|40|vier", "5|0|"}, 2, 0, 0, 2},
		"no insert":        {"when_not_matched: ignore", []string{"1|11|eins", "2|20|two", "3|30|three"}, 0, 1, 0, 3},
		"delete":           {"when_matched: {delete: \"source.status = 'void'\"}", []string{"1|11|eins", "3|30|three", "4|40|vier"}, 1, 1, 1, 1},
		"delete only":      {"when_matched: {delete: \"source.status = 'void'\", update: ignore}", []string{"1|10|one", "3|30|three", "4|40|vier"}, 1, 0, 1, 2},
		"delete by target": {"when_matched: {delete: \"target.qty > 15\"}", []string{"1|11|eins", "3|30|three", "4|40|vier", "5|0|"}, 2, 1, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, b *bench) {
				b.items()
				b.file("i.csv", "id,qty,note,status\n1,11,eins,ok\n2,20,two,void\n4,40,vier,ok\n5,0,\"\",void\n")
				d := b.run(b.spec("source: {file: i.csv}\ntarget: item\nkey: [id]\n" + itemColumns + "\n" + c.when))
				require.Equal(t, c.want, b.table("SELECT * FROM item ORDER BY id"))
				require.Equal(t, []int64{c.inserted, c.updated, c.deleted, c.unchanged}, []int64{d.RowsInserted, d.RowsUpdated, d.RowsDeleted, d.RowsUnchanged})
				before := b.table("SELECT * FROM item ORDER BY id")
				if name != "delete by target" {
					d = b.run(b.spec("source: {file: i.csv}\ntarget: item\nkey: [id]\n" + itemColumns + "\n" + c.when))
					require.Zero(t, d.RowsMerged)
					require.Equal(t, before, b.table("SELECT * FROM item ORDER BY id"))
				}
			})
		})
	}
}

func TestMergeStatement(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE silver (order_id BIGINT PRIMARY KEY, status VARCHAR(10), amount DECIMAL(12,2), modified_at DATETIME(6))",
			"CREATE TABLE stage_orders (order_id BIGINT, status VARCHAR(10), amount DECIMAL(12,2), modified_at DATETIME(6), extra INT)",
			"INSERT INTO silver VALUES (1, 'new', 1.00, '2026-01-01 10:00:00'), (2, 'new', 2.00, '2026-01-01 10:00:00'), (3, 'new', 3.00, '2026-01-01 10:00:00')",
			`INSERT INTO stage_orders VALUES (1, 'paid', 1.50, '2026-01-01 11:00:00', 1), (2, 'old', 0, '2026-01-01 09:00:00', 1),
			(3, 'void', 3, '2026-01-01 11:00:00', 1), (4, 'new', 4.25, '2026-01-01 11:00:00', 1), (NULL, 'bad', 0, '2026-01-01 11:30:00', 1), (5, 'skip', 0, '2026-01-01 11:00:00', 0)`)
		spec := b.spec(`
sql: |
  MERGE INTO silver AS target
  USING stage_orders AS source
  ON target.order_id = source.order_id
  WHEN MATCHED AND source.status = 'void' THEN DELETE
  WHEN MATCHED AND source.modified_at >= target.modified_at THEN UPDATE SET *
  WHEN NOT MATCHED AND source.extra > 0 THEN INSERT *
watermark: {column: modified_at, name: silver}
`)
		d := b.run(spec)
		require.Equal(t, []string{"1|paid|1.5", "2|new|2", "4|new|4.25"}, trimZeros(b.table("SELECT order_id, status, amount FROM silver ORDER BY order_id")))
		require.Equal(t, []int64{6, 1, 1, 1, 2, 1}, []int64{d.RowsRead, d.RowsInserted, d.RowsUpdated, d.RowsDeleted, d.RowsUnchanged, d.RowsQuarantined})
		require.Equal(t, "2026-01-01 11:30:00.000000", *d.WatermarkTo)
		d = b.run(spec)
		require.Equal(t, int64(0), d.RowsInserted+d.RowsUpdated)
	})
}

func trimZeros(lines []string) []string {
	for i, l := range lines {
		for len(l) > 0 && l[len(l)-1] == '0' {
			l = l[:len(l)-1]
		}
		if l != "" && l[len(l)-1] == '.' {
			l = l[:len(l)-1]
		}
		lines[i] = l
	}
	return lines
}

func TestMergeStatementComputes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE totals (day DATE PRIMARY KEY, a INT NOT NULL, b INT NOT NULL, n INT NOT NULL)", "INSERT INTO totals VALUES ('2026-01-01', 1, 2, 0)",
			"CREATE TABLE delta (d DATE, plus INT)", "INSERT INTO delta VALUES ('2026-01-01', 5), ('2026-01-02', 7)")
		// a and b swap: both are computed from the row as it was.
		spec := b.spec(`
sql: |
  MERGE INTO totals t USING (SELECT d, plus FROM delta) s ON t.day = s.d
  WHEN MATCHED THEN UPDATE SET a = t.b, b = t.a, n = t.n + s.plus
  WHEN NOT MATCHED THEN INSERT (day, a, b, n) VALUES (s.d, 0, 0, s.plus)
`)
		job := b.job(spec)
		for range 3 { // the effect key makes it once
			_, err := b.engine().Run(t.Context(), job)
			require.NoError(t, err)
		}
		require.Equal(t, []string{"2|1|5", "0|0|7"}, b.table("SELECT a, b, n FROM totals ORDER BY day"))
		b.fail(b.spec("chunk: 1\nsql: MERGE INTO totals t USING delta s ON t.day = s.d WHEN MATCHED THEN UPDATE SET n = t.n + s.plus"), "MERGE_EXPRESSION")
	})
}

func TestStepsThatDoNotFitTheTarget(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.items()
		b.exec("CREATE TABLE plain (id INT, v INT)", "CREATE TABLE strict_ (id INT PRIMARY KEY, v INT NOT NULL)", "CREATE TABLE src (id INT, qty INT)")
		b.file("i.csv", "id,qty,note,status\n1,11,eins,ok\n1,12,zwei,ok\n")
		head := "source: {file: i.csv}\nkey: [id]\n"
		te := b.fail(b.spec(head+"target: nowhere\n"+itemColumns), "MERGE_TARGET_MISSING")
		require.Equal(t, dag.ClassConfiguration, te.Class)
		require.Contains(t, te.Hint, "CREATE TABLE `nowhere`")
		te = b.fail(b.spec(head+"target: item\ncolumns: {id: {type: int}, qy: {type: int, from: qty}}"), "MERGE_TARGET_COLUMNS")
		require.Contains(t, te.Hint, `"qty"`)
		b.fail(b.spec(head+"target: strict_\ncolumns: {id: {type: int}}"), "MERGE_TARGET_COLUMNS")
		b.fail(b.spec(head+"target: item\ncolumns: {id: {type: int}, qty: {type: varchar(5)}}"), "MERGE_TARGET_COLUMNS")
		te = b.fail(b.spec(head+"target: plain\ncolumns: {id: {type: int}, v: {type: int, from: qty}}"), "MERGE_KEY_NOT_UNIQUE")
		require.Contains(t, te.Hint, "CREATE UNIQUE INDEX")
		te = b.fail(b.spec(head+"target: item\n"+itemColumns), "MERGE_DUPLICATE_KEYS")
		require.Contains(t, te.Message, "i.csv:2: id=1")
		b.fail(b.spec("source: {file: gone-*.csv}\ntarget: item\nkey: [id]\n"+itemColumns), "MERGE_SOURCE_NOT_FOUND")
		b.fail(b.spec(head+"target: item\ncolumns: {id: {type: int}, qty: {type: int, from: quantity}}"), "MERGE_SOURCE_COLUMNS")
		te = b.fail(b.spec("sql: MERGE INTO item t USING src s ON t.id = s.id WHEN MATCHED THEN UPDATE SET qty = qty + 1"), "MERGE_EXPRESSION")
		require.Contains(t, te.Message, "line 1, column")
		require.Equal(t, []string{"1|10|one", "2|20|two", "3|30|three"}, b.table("SELECT * FROM item ORDER BY id"))
		require.Equal(t, []string{"0"}, b.table("SELECT COUNT(*) FROM airlock_dead_letter_row"))
	})
}

func TestVeryLongFieldsAndDefaults(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		long := make([]byte, 1<<20)
		for i := range long {
			long[i] = 'x'
		}
		b.file("d.csv", "id,body\n1,\""+string(long)+"\n\"\n2,\n")
		d := b.run(b.spec(`
source: {file: d.csv}
target: doc
create_target: true
key: [id]
columns: {id: {type: int}, body: {type: text, default: none}, lang: {type: varchar(5), default: en}}
`))
		require.Equal(t, int64(2), d.RowsInserted)
		require.Equal(t, []string{"1048577|en", "4|en"}, b.table("SELECT LENGTH(body), lang FROM doc ORDER BY id"))
	})
}

func TestParseSpecReportsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	_, problems := merge.ParseSpec(map[string]any{
		"source":  map[string]any{"file": "x.csv", "query": "SELECT 1", "formt": "csv"},
		"columns": map[string]any{"id": map[string]any{"type": "bigit"}, "a": map[string]any{"type": "int", "check": "b > 1"}, "t": map[string]any{"type": "timestamp", "timezone": "Mars"}},
		"key":     []any{"idd"}, "when_matched": "replace", "watermark": map[string]any{"column": "a"}, "bad_rows": map[string]any{"max_ratio": 5.0}, "duplicates": "old",
	})
	paths := map[string]bool{}
	for _, p := range problems {
		paths[p.Path] = true
	}
	for _, want := range []string{"target", "source", "source.formt", "columns.id.type", "columns.a.check", "columns.t.timezone", "when_matched", "watermark.name", "bad_rows.max_ratio", "duplicates", "key"} {
		require.True(t, paths[want], "%s is not among %v", want, problems)
	}
	// Values with templates are looked at when the step runs.
	_, problems = merge.ParseSpec(map[string]any{
		"source": map[string]any{"file": "{{ params.x }}", "format": "{{ params.f }}"}, "target": "{{ params.t }}", "key": "{{ params.k }}",
		"columns": map[string]any{"id": map[string]any{"type": "{{ params.type }}"}},
	})
	require.Empty(t, problems)
	_, problems = merge.ParseSpec(map[string]any{"sql": "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE", "target": "t"})
	require.Len(t, problems, 2)
}
