package merge_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWatermarksOfEachKind: timestamps of files stay in the present unless the
// step allows the future, numbers and their tie breakers compare as numbers, and
// texts as texts.
func TestWatermarksOfEachKind(t *testing.T) {
	t.Parallel()
	const step = "source: {file: w.csv}\ntarget: w\nkey: [id]\nduplicates: newest\ncolumns: {id: {type: int}, n: {type: int}, s: {type: varchar(20)}, at: {type: timestamp, timezone: Europe/Berlin}, day: {type: date}}\n"
	for name, c := range map[string]struct{ watermark, value, tie string }{
		"number":    {"{column: n, name: w, tie_breaker: id}", "10", "10"},
		"text":      {"{column: s, name: w}", "b", "null"},
		"timestamp": {"{column: at, name: w, allow_future: true}", "2999-01-01 11:00:00.000000", "null"},
		"date":      {"{column: day, name: w, allow_future: true}", "2999-01-01", "null"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, b *bench) {
				b.exec("CREATE TABLE w (id INT PRIMARY KEY, n INT, s VARCHAR(20), at DATETIME(6), day DATE)")
				b.file("w.csv", "id,n,s,at,day\n9,10,a,2026-01-01 12:00:00,2026-01-01\n10,10,b,2999-01-01 12:00:00,2999-01-01\n2,9,B,2026-01-02 12:00:00,2026-01-02\n")
				b.run(b.spec(step + "watermark: " + c.watermark))
				require.Equal(t, []string{c.value + "|" + c.tie}, b.table("SELECT value, tie_breaker FROM airlock_watermark"))
			})
		})
	}
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE w (id INT PRIMARY KEY, n INT, s VARCHAR(20), at DATETIME(6), day DATE)")
		b.file("w.csv", "id,n,s,at,day\n10,10,b,2999-01-01 12:00:00,2999-01-01\n")
		for _, column := range []string{"at", "day"} {
			d := b.run(b.spec(step + "watermark: {column: " + column + ", name: w" + column + "}"))
			require.Less(t, *d.WatermarkTo, "2900", "the present")
		}
		e := b.fail(b.spec("source: {file: w.csv}\ntarget: w\nkey: [id]\ncolumns: {id: {type: int}, n: {type: 'decimal(9,2)', store: false}}\nwatermark: {column: n, name: x}"), "MERGE_WATERMARK")
		require.Contains(t, e.Message, "decimal(9,2)")
	})
}

// TestInitialValueIsReadAsItsType: a date alone and a zone are understood, and
// what is neither is said before anything is read.
func TestInitialValueIsReadAsItsType(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE feed (id INT PRIMARY KEY, at DATETIME(6))", "CREATE TABLE w (id INT PRIMARY KEY, at DATETIME(6))",
			"INSERT INTO feed VALUES (1, '2026-01-01 12:00:00'), (2, '2026-01-02 12:00:00'), (3, '2026-01-03 12:00:00')")
		step := "source: {query: SELECT * FROM feed}\ntarget: w\nkey: [id]\nwatermark: {column: at, name: %s, initial: \"%s\"}"
		for initial, rows := range map[string]int64{"2026-01-02": 2, "2026-01-02T13:00:00+01:00": 2, "2026-01-02 12:00:01": 1} {
			require.Equal(t, rows, b.run(b.spec(fmt.Sprintf(step, "w"+initial[8:], initial))).RowsRead, initial)
		}
		require.Contains(t, b.fail(b.spec(fmt.Sprintf(step, "x", "soon")), "MERGE_WATERMARK").Message, `cannot begin at "soon"`)
	})
}
