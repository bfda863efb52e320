package merge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/merge"
)

// TestUpsertsOnlyWhereNothingElseHappens merges the same batch into tables that
// can go the short way and into tables that cannot: the outcome is the same, and
// triggers fire for rows that change only.
func TestUpsertsOnlyWhereNothingElseHappens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, table string
		more        []string
		short       bool
	}{
		{name: "plain", table: "(id INT PRIMARY KEY, v VARCHAR(20), ver INT)", short: true},
		{name: "check", table: "(id INT PRIMARY KEY, v VARCHAR(20) CHECK (v <> 'refused'), ver INT)", short: true},
		{name: "other key", table: "(id INT PRIMARY KEY, v VARCHAR(20), ver INT, UNIQUE (v, id))"},
		{name: "number", table: "(id INT PRIMARY KEY, v VARCHAR(20), ver INT, n INT NOT NULL AUTO_INCREMENT, KEY (n))"},
		{name: "enum", table: "(id INT PRIMARY KEY, v ENUM('old','kept','newer','same','new','more','refused'), ver INT)"},
		{name: "trigger", table: "(id INT PRIMARY KEY, v VARCHAR(20), ver INT)", more: []string{
			"CREATE TABLE heard (what VARCHAR(20))",
			"CREATE TRIGGER hear_i BEFORE INSERT ON u FOR EACH ROW INSERT INTO heard VALUES (CONCAT('insert ', NEW.id))",
			"CREATE TRIGGER hear_u BEFORE UPDATE ON u FOR EACH ROW INSERT INTO heard VALUES (CONCAT('update ', NEW.id))",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, b *bench) {
				if b.db.IsSQLite() {
					return
				}
				b.exec(append([]string{"CREATE TABLE u " + c.table, "INSERT INTO u (id, v, ver) VALUES (1, 'old', 1), (2, 'kept', 9), (3, 'same', 2), (4, 'same', NULL)"}, c.more...)...)
				b.file("u.csv", "id,v,ver\n1,newer,2\n2,old,3\n3,same,2\n4,Same,\n5,new,1\n6,refused,1\n7,more,1\n7,new,0\n8,x,y\n")
				spec := b.spec("{source: {file: u.csv, \"null\": ['']}, target: u, key: [id], version: ver, bad_rows: {max_ratio: 1}, columns: {id: {type: int}, v: {type: varchar(20)}, ver: {type: int}}}")
				preview, err := b.engine().Preview(t.Context(), spec, b.job(spec).Source)
				require.NoError(t, err)
				require.Equal(t, c.short, strings.Contains(preview.Text(), "ON DUPLICATE KEY UPDATE"))
				d := b.run(spec)
				refused := int64(0)
				want := []string{"1|newer|2", "2|kept|9", "3|same|2", "4|Same|null", "5|new|1", "6|refused|1", "7|more|1"}
				if c.name == "check" {
					refused, want = 1, append(want[:5], want[6])
				}
				if c.name == "enum" {
					want[3] = "4|same|null"
				}
				require.Equal(t, want, b.table("SELECT id, v, COALESCE(ver, 'null') FROM u ORDER BY id"))
				unchanged := int64(1)
				if c.name == "enum" {
					unchanged = 2 // an enumeration knows one spelling
				}
				require.Equal(t, []int64{9, 6 - unchanged - refused, 3 - refused, 3 - unchanged, unchanged, 2, 1 + refused},
					[]int64{d.RowsRead, d.RowsMerged, d.RowsInserted, d.RowsUpdated, d.RowsUnchanged, d.RowsSuperseded, d.RowsQuarantined})
				if c.name == "trigger" {
					require.Equal(t, []string{"insert 5", "insert 6", "insert 7", "update 1", "update 4"}, b.table("SELECT what FROM heard ORDER BY what"))
				}
			})
		})
	}
}

// TestUpsertNeedsToSeeTriggers merges as a user who may not make triggers: it
// cannot see them, so that each may be there.
func TestUpsertNeedsToSeeTriggers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		if b.db.IsSQLite() {
			return
		}
		b.exec("CREATE TABLE u (id INT PRIMARY KEY, v INT)")
		var schema string
		require.NoError(t, b.raw.QueryRow("SELECT DATABASE()").Scan(&schema))
		user := "u" + schema[max(0, len(schema)-20):]
		b.exec("CREATE USER "+user+"@'%'", "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, CREATE TEMPORARY TABLES, DROP, INDEX, ALTER ON `"+schema+"`.* TO "+user+"@'%'")
		t.Cleanup(func() { b.exec("DROP USER " + user + "@'%'") })
		low := newBench(t, strings.Replace(b.dsn, "root@", user+"@", 1))
		spec := low.spec("{source: {file: u.csv}, target: u, key: [id], columns: {id: {type: int}, v: {type: int}}}")
		low.file("u.csv", "id,v\n1,1\n2,2\n")
		preview := func() string {
			p, err := low.engine().Preview(t.Context(), spec, low.job(spec).Source)
			require.NoError(t, err)
			return p.Text()
		}
		require.NotContains(t, preview(), "ON DUPLICATE KEY UPDATE")
		require.Equal(t, int64(2), low.run(spec).RowsInserted)
		b.exec("GRANT TRIGGER ON `" + schema + "`.u TO " + user + "@'%'")
		require.Contains(t, preview(), "ON DUPLICATE KEY UPDATE")
	})
}

// TestRefusedRowsOfALongUpsert has the database refuse a row at each end and in
// the middle of a batch that is longer than a range.
func TestRefusedRowsOfALongUpsert(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE u (id INT PRIMARY KEY, v INT CHECK (v < 900))", "INSERT INTO u VALUES (2, 1), (4, 2), (12000, 5)")
		const n = 12000
		var text strings.Builder
		text.WriteString("id,v\n")
		for i := 1; i <= n; i++ {
			v := i % 7
			if i == 1 || i == 6000 || i == 10000 || i == n {
				v = 900 + i
			}
			fmt.Fprintf(&text, "%d,%d\n", i, v)
		}
		b.file("u.csv", text.String())
		d := b.run(b.spec("{source: {file: u.csv}, target: u, key: [id], bad_rows: {max_ratio: 1}, columns: {id: {type: int}, v: {type: int}}}"))
		// 2 and 4 were there: 2 % 7 is another value than 1, 4 % 7 than 2.
		require.Equal(t, []int64{n, n - 4, n - 6, 2, 4}, []int64{d.RowsRead, d.RowsMerged, d.RowsInserted, d.RowsUpdated, d.RowsQuarantined})
		require.Equal(t, []string{"2|4", "6001|10001|12001"}, []string{
			b.table("SELECT MIN(source_line), COUNT(*) FROM airlock_dead_letter_row")[0],
			strings.Join(b.table("SELECT source_line FROM airlock_dead_letter_row WHERE source_line > 2 ORDER BY source_line"), "|"),
		})
		require.Equal(t, []string{"12000|5"}, b.table("SELECT id, v FROM u WHERE id IN (1, 6000, 10000, 12000)"))
		violations, err := merge.Check(t.Context(), b.db)
		require.NoError(t, err)
		require.Empty(t, violations)
	})
}
