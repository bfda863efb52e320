package merge_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/merge"
)

// open are the open letters in their order.
func (b *bench) open() []merge.RowLetter {
	b.t.Helper()
	out, err := merge.RowLetters(context.Background(), b.db, merge.RowLetterFilter{Status: "quarantined", Limit: -1})
	require.NoError(b.t, err)
	return out
}

// replay decides the open letters and gives decision and reason by source line.
func (b *bench) replay(spec *merge.Spec, change ...func(*merge.Replay)) map[int64]string {
	b.t.Helper()
	b.runs++
	r := &merge.Replay{Drain: fmt.Sprintf("drain-%d", b.runs), Actor: "alice", Apply: true, MaxReturns: 3}
	for _, f := range change {
		f(r)
	}
	letters := b.open()
	lines := map[int64]int64{}
	for _, l := range letters {
		lines[l.ID] = l.SourceLine
	}
	decided, err := b.engine().Replay(context.Background(), spec, letters, r)
	require.NoError(b.t, err)
	require.Len(b.t, decided, len(letters), "one decision a letter")
	out := map[int64]string{}
	for _, d := range decided {
		out[lines[d.LetterID]] = d.Decision + ": " + d.Reason
		require.NotEmpty(b.t, d.Reason)
	}
	violations, err := merge.Check(context.Background(), b.db)
	require.NoError(b.t, err)
	require.Empty(b.t, violations)
	require.Equal(b.t, []string{"0"}, b.table("SELECT COUNT(*) FROM airlock_effect WHERE status = 'open'"))
	return out
}

func decisions(of map[int64]string) map[int64]string {
	out := map[int64]string{}
	for line, text := range of {
		out[line], _, _ = strings.Cut(text, ":")
	}
	return out
}

func (b *bench) edit(line int64, raw string) {
	b.t.Helper()
	for _, l := range b.open() {
		if l.SourceLine == line {
			require.NoError(b.t, merge.EditRow(context.Background(), b.db, l.ID, []byte(raw), merge.RowHand{Actor: "bob", Reason: "typo", At: time.Now()}))
			return
		}
	}
	b.t.Fatalf("no letter of line %d", line)
}

func TestReplayOfEditedRows(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.file("orders.csv", poison(t, "orders_poison.csv"))
		spec := b.spec(ordersStep)
		d := b.run(spec)
		require.Equal(t, int64(12), d.RowsQuarantined)
		mark := b.table("SELECT value FROM airlock_watermark")
		b.edit(6, "1004,Dune Ltd,700,EUR,2026-03-01T08:03:00Z")
		b.edit(8, "1006,\"Frédéric\nand sons\",800,EUR,2027-03-01T08:05:00Z")
		b.edit(7, "two,rows,1,EUR,2026-03-01T08:03:00Z\n3,rows,1,EUR,2026-03-01T08:03:00Z")
		dry := b.replay(spec, func(r *merge.Replay) { r.Apply = false })
		require.Equal(t, "replayed", decisions(dry)[6])
		require.Equal(t, []string{"0"}, b.table("SELECT COUNT(*) FROM orders WHERE order_id = 1004"), "a dry run writes nothing")
		require.Equal(t, []string{"3"}, b.table("SELECT COUNT(*) FROM airlock_dead_letter_row_audit"), "but the three edits")
		got := b.replay(spec)
		require.Equal(t, dry, got, "the dry run says what will be")
		require.Equal(t, "replayed", decisions(got)[8])
		require.Contains(t, got[7], "TRAILING_DATA")
		require.Contains(t, got[10], "OUT_OF_RANGE")
		require.Equal(t, []string{"1004|Dune Ltd", "1006|Frédéric\nand sons"}, b.table("SELECT order_id, customer FROM orders WHERE order_id IN (1004, 1006) ORDER BY order_id"))
		require.Equal(t, []string{"resolved|0|2"}, b.table("SELECT status, return_count, (SELECT COUNT(*) FROM airlock_dead_letter_row_audit a WHERE a.dead_letter_id = l.id) FROM airlock_dead_letter_row l WHERE source_line = 6"))
		require.Equal(t, []string{"quarantined|1|TRAILING_DATA"}, b.table("SELECT status, return_count, error_code FROM airlock_dead_letter_row WHERE source_line = 7"))
		require.Equal(t, mark, b.table("SELECT value FROM airlock_watermark"), "a replay does not move the watermark")
		// The file's own bytes are kept beside the edited ones.
		require.Equal(t, []string{"1004,Dune Ltd,700,2026-03-01T08:03:00Z"}, b.table("SELECT original_raw FROM airlock_dead_letter_row WHERE source_line = 6"))
		// The same file again brings no second letter for rows that were edited, or
		// put right and resolved.
		again := b.run(spec)
		require.Equal(t, int64(12), again.RowsQuarantined)
		require.Equal(t, int64(12), again.RowsQuarantinedAgain)
		var ids []int64
		for _, l := range b.open() {
			ids = append(ids, l.ID)
		}
		audits, err := merge.RowAudits(t.Context(), b.db, ids[0])
		require.NoError(t, err)
		require.NotEmpty(t, audits)
		require.Equal(t, "alice", audits[len(audits)-1].Actor)
	})
}

func TestReplayNeverPutsOldOverNew(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE kv (k INT PRIMARY KEY, v VARCHAR(4), at TIMESTAMP(6) NULL)")
		spec := func(limit int) *merge.Spec {
			return b.spec(fmt.Sprintf(`
source: {file: "*.csv"}
target: kv
key: [k]
version: at
columns: {k: {type: int}, v: {type: varchar(%d)}, at: {type: timestamp}}
bad_rows: {max_ratio: 1}
`, limit))
		}
		b.file("a.csv", "k,v,at\n7,v1,2026-03-01T10:00:00Z\n8,v1,2026-03-01T10:00:00Z\n9,v1,2026-03-01T10:00:00Z\n10,v1,2026-03-01T10:00:00Z\n11,v1,2026-03-01T10:00:00Z\n")
		require.Equal(t, int64(5), b.run(spec(1)).RowsQuarantined)
		b.file("a.csv", "k,v,at\n7,v2,2026-03-01T11:00:00Z\n8,v2,2026-03-01T10:00:00Z\n9,v2,2026-03-01T09:00:00Z\n10,v1,2026-03-01T10:00:00Z\n11,v2,2026-03-01T11:00:00Z\n")
		b.run(spec(2))
		b.exec("DELETE FROM kv WHERE k = 11")
		got := b.replay(spec(2))
		require.Equal(t, map[int64]string{2: "drop_duplicate", 3: "drop_duplicate", 4: "replayed", 5: "drop_duplicate", 6: "replayed"}, decisions(got))
		require.Contains(t, got[2], "2026-03-01 11:00:00")
		require.Contains(t, got[2], "2026-03-01 10:00:00")
		require.Equal(t, []string{"7|v2", "8|v2", "9|v1", "10|v1", "11|v1"}, b.table("SELECT k, v FROM kv ORDER BY k"))
		require.Equal(t, []string{"dropped|3", "resolved|2"}, b.table("SELECT status, COUNT(*) FROM airlock_dead_letter_row GROUP BY status ORDER BY status"))
		require.Empty(t, b.replay(spec(2)))
	})
}

func TestReplayWithoutAVersionAsksFirst(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE kv (k INT PRIMARY KEY, v VARCHAR(9))", "INSERT INTO kv VALUES (1, 'table'), (3, 'same'), (5, 'other')")
		step := `
source: {file: x.csv}
target: kv
key: [k]
when_not_matched_by_source: ignore
columns: {k: {type: int}, v: {type: varchar(9), pattern: "%s"}}
bad_rows: {max_ratio: 1}
`
		b.file("x.csv", "k,v\n1,letter\n2,new\n3,same\n")
		b.run(b.spec(fmt.Sprintf(step, "^z")))
		spec := b.spec(fmt.Sprintf(step, "."))
		require.Equal(t, map[int64]string{2: "deferred", 3: "replayed", 4: "drop_duplicate"}, decisions(b.replay(spec)))
		require.Equal(t, []string{"1|table", "2|new", "3|same", "5|other"}, b.table("SELECT k, v FROM kv ORDER BY k"))
		require.Equal(t, map[int64]string{2: "replayed"}, decisions(b.replay(spec, func(r *merge.Replay) { r.Overwrite = true })))
		require.Equal(t, []string{"1|letter"}, b.table("SELECT k, v FROM kv WHERE k = 1"))
	})
}

// A replay of one row must not take the others of the table for gone.
func TestReplayKeepsRowsThatTheLettersHaveNot(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE kv (k INT PRIMARY KEY, v INT)")
		step := "{source: {file: x.csv}, target: kv, key: [k], when_not_matched_by_source: delete, bad_rows: {max_ratio: 1}, columns: {k: {type: int}, v: {type: int, check: 'v < %d'}}}"
		b.file("x.csv", "k,v\n1,1\n2,50\n")
		b.run(b.spec(fmt.Sprintf(step, 9)))
		require.Equal(t, map[int64]string{3: "replayed"}, decisions(b.replay(b.spec(fmt.Sprintf(step, 99)))))
		require.Equal(t, []string{"1|1", "2|50"}, b.table("SELECT k, v FROM kv ORDER BY k"))
	})
}

// C135: a replay of all ends, and rows that came back too often are not tried.
func TestReplayOfManyEndsAndGuardsAgainstPoison(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE kv (k INT PRIMARY KEY, v INT, CHECK (v <> 13))")
		var rows strings.Builder
		rows.WriteString("k,v\n")
		const n = 450
		poison := 0
		for i := range n {
			v := 5000 + i
			if i%97 == 3 {
				v = 13 // the table's CHECK alone refuses it
				poison++
			}
			fmt.Fprintf(&rows, "%d,x%d\n", i, v)
		}
		b.file("x.csv", rows.String())
		step := "{source: {file: x.csv}, target: kv, key: [k], bad_rows: {max_ratio: 1}, columns: {k: {type: int}, v: {type: int}}}"
		spec := b.spec(step)
		require.Equal(t, int64(n), b.run(spec).RowsQuarantined)
		b.exec("UPDATE airlock_dead_letter_row SET raw = REPLACE(CAST(raw AS CHAR), 'x', '')")
		for pass := range 5 {
			var decided []merge.RowDecision
			got := decisions(b.replay(spec, func(r *merge.Replay) { r.Told = func(d merge.RowDecision) { decided = append(decided, d) } }))
			counts := map[string]int{}
			for _, d := range got {
				counts[d]++
			}
			switch pass {
			case 0:
				require.Equal(t, map[string]int{"replayed": n - poison, "rejected": poison}, counts)
				require.Len(t, decided, n)
			case 4:
				require.Equal(t, map[string]int{"quarantine": poison}, counts, "four returns are more than three")
			default:
				require.Equal(t, map[string]int{"rejected": poison}, counts)
			}
		}
		require.Equal(t, []string{fmt.Sprintf("CHECK_CONSTRAINT|4|%d", poison)}, b.table("SELECT error_code, return_count, COUNT(*) FROM airlock_dead_letter_row WHERE status = 'quarantined' GROUP BY error_code, return_count"))
		require.Equal(t, []string{fmt.Sprint(n - poison)}, b.table("SELECT COUNT(*) FROM kv"))
	})
}

func TestReplayReadsEachKindOfSource(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE j (id BIGINT PRIMARY KEY, city VARCHAR(20), day DATE, data BLOB, at DATETIME(6), n DECIMAL(6,2))",
			"CREATE TABLE src (id BIGINT, city VARCHAR(20), day DATE, data BLOB, at DATETIME, n DECIMAL(6,2))",
			"INSERT INTO src VALUES (5, 'query', '2026-03-01', X'00FF41', '2026-03-01 08:00:00', 12.5)")
		steps := map[string]string{
			"jsonl": `{source: {file: x.jsonl}, target: j, key: [id], columns: {id: {type: bigint}, city: {type: varchar(20), from: a.city, pattern: "%s"}}}`,
			"query": `{source: {query: "SELECT * FROM src"}, target: j, key: [id], columns: {id: {type: bigint}, city: {type: varchar(20), pattern: "%s"}, day: {type: date}, data: {type: blob}, at: {type: timestamp}, n: {type: "decimal(6,2)"}}}`,
			"wide":  `{source: {file: w.csv}, target: j, key: [id], columns: {id: {type: bigint}, city: {type: varchar(20), pattern: "%s"}}}`,
			"latin": `{source: {file: l.csv, encoding: latin1}, target: j, key: [id], columns: {id: {type: bigint}, city: {type: varchar(20), pattern: "%s"}}}`,
		}
		b.file("x.jsonl", `{"id": 9007199254740993, "a": {"city": "Köln"}}`+"\n")
		wide := []byte{0xFF, 0xFE}
		for _, u := range utf16.Encode([]rune("city,id\nZürich,6\n")) {
			wide = binary.LittleEndian.AppendUint16(wide, u)
		}
		b.file("w.csv", string(wide))
		b.file("l.csv", "city,id\nM\xfcnchen,7\n")
		for name, step := range steps {
			require.Equal(t, int64(1), b.run(b.spec(fmt.Sprintf(step, "^$"))).RowsQuarantined, name)
			for line, d := range b.replay(b.spec(fmt.Sprintf(step, "."))) {
				require.Contains(t, d, "replayed", "%s:%d", name, line)
			}
		}
		require.Equal(t, []string{
			"5|query|00FF41|12.5", "6|Zürich|null|null", "7|München|null|null", "9007199254740993|Köln|null|null",
		}, shortDecimal(b.table("SELECT id, city, CASE WHEN data IS NULL THEN NULL ELSE HEX(data) END, n FROM j ORDER BY id")))
		day := b.table("SELECT day, at FROM j WHERE id = 5")
		require.Contains(t, day[0], "2026-03-01")
		require.Contains(t, day[0], "08:00:00")
	})
}

func shortDecimal(rows []string) []string {
	for i := range rows {
		rows[i] = strings.Replace(rows[i], "12.50", "12.5", 1)
	}
	return rows
}

func TestReplayOfAMergeStatement(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE tgt (id INT PRIMARY KEY, n INT CHECK (n < 100))", "CREATE TABLE src (id INT, n INT, note VARCHAR(9))",
			"INSERT INTO tgt VALUES (1, 5), (2, 90)", "INSERT INTO src VALUES (1, 2, 'a'), (2, 20, 'b'), (3, 500, 'c')")
		spec := b.spec(`
sql: |
  MERGE INTO tgt AS target USING src AS source ON target.id = source.id
  WHEN MATCHED THEN UPDATE SET n = target.n + source.n
  WHEN NOT MATCHED AND source.note <> 'x' THEN INSERT (id, n) VALUES (source.id, source.n)
`)
		require.Equal(t, int64(2), b.run(spec).RowsQuarantined)
		require.Equal(t, []string{"1|7", "2|90"}, b.table("SELECT id, n FROM tgt ORDER BY id"))
		b.exec("UPDATE tgt SET n = 10 WHERE id = 2")
		got := b.replay(spec, func(r *merge.Replay) { r.Overwrite = true })
		require.Equal(t, map[int64]string{2: "replayed", 3: "rejected"}, decisions(got))
		require.Equal(t, []string{"1|7", "2|30"}, b.table("SELECT id, n FROM tgt ORDER BY id"), "added once")
		require.Equal(t, map[int64]string{3: "rejected"}, decisions(b.replay(spec, func(r *merge.Replay) { r.Overwrite = true })))
		require.Equal(t, []string{"1|7", "2|30"}, b.table("SELECT id, n FROM tgt ORDER BY id"))
	})
}

func TestLettersThatCannotBeWholeAreNotTried(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		step := "{source: {file: x.csv, max_row_bytes: 2000, final_newline: required}, target: kv, create_target: true, key: [k], bad_rows: {max_ratio: 1}, columns: {k: {type: int}, v: {type: text}}}"
		b.file("x.csv", "k,v\n1,"+strings.Repeat("x", 3000)+"\n2,half")
		b.run(b.spec(step))
		require.Equal(t, map[int64]string{2: "rejected", 3: "rejected"}, decisions(b.replay(b.spec(step))))
		require.Equal(t, []string{"0|2"}, b.table("SELECT MAX(return_count), COUNT(*) FROM airlock_dead_letter_row WHERE status = 'quarantined'"))
		b.edit(3, "2,whole")
		require.Equal(t, map[int64]string{2: "rejected", 3: "replayed"}, decisions(b.replay(b.spec(step))))
		require.Equal(t, []string{"2|whole"}, b.table("SELECT k, v FROM kv"))
	})
}
