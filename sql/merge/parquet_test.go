package merge_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
)

type parquetOrder struct {
	ID     int64  `parquet:"id"`
	Amount int64  `parquet:"amount,decimal(2:12)"`
	At     int64  `parquet:"at,timestamp(microsecond)"`
	Local  int64  `parquet:"local,timestamp(millisecond:local)"`
	Hash   []byte `parquet:"hash"`
	Who    struct {
		Name string `parquet:"name"`
	} `parquet:"who"`
}

// A Parquet file is merged, and its bad row is put aside and comes back whole.
func TestParquetIntoATable(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		var file bytes.Buffer
		w := parquet.NewGenericWriter[parquetOrder](&file)
		orders := []parquetOrder{
			{ID: 9007199254740993, Amount: -5, At: 1772323200250000, Local: 1772323200000, Hash: []byte{0, 255}},
			{ID: 2, Amount: 123456789012, At: 1772323200000000, Local: 1772323200000, Hash: []byte("x\x00")},
		}
		orders[0].Who.Name, orders[1].Who.Name = "Zoë", "Bo"
		_, err := w.Write(orders)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.NoError(t, os.WriteFile(filepath.Join(b.dir, "o.parquet"), file.Bytes(), 0o600))
		step := func(limit string) string {
			return `
source: {file: o.parquet}
target: po
create_target: true
key: [id]
bad_rows: {max_ratio: 1}
columns:
  id: {type: bigint}
  amount: {type: "decimal(12,2)", check: "amount < ` + limit + `"}
  at: {type: timestamp}
  local: {type: timestamp, timezone: Europe/Berlin}
  hash: {type: blob}
  name: {type: varchar(20), from: who.name}
`
		}
		d := b.run(b.spec(step("1000")))
		require.Equal(t, []int64{1, 1}, []int64{d.RowsMerged, d.RowsQuarantined})
		require.Equal(t, map[string]string{"2": "CHECK_FAILED|amount"}, b.letters())
		require.Equal(t, map[int64]string{2: "replayed"}, decisions(b.replay(b.spec(step("9999999999")))))
		rows := b.table("SELECT id, name, HEX(hash), amount = 1234567890.12, amount = -0.05 FROM po ORDER BY id")
		require.Equal(t, []string{"2|Bo|7800|1|0", "9007199254740993|Zoë|00FF|0|1"}, rows)
		times := b.table("SELECT at, local FROM po WHERE id = 2")
		require.Contains(t, times[0], "00:00:00")
		require.Contains(t, times[0], "23:00:00", "a wall clock's time in Berlin, an hour before in UTC")
	})
}

// One glob takes packed and plain files alike, and each letter names its own.
func TestPackedFilesOfOneGlob(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		z, err := zstd.NewWriter(nil)
		require.NoError(t, err)
		b.file("a.jsonl.zst", string(z.EncodeAll([]byte("{\"id\":1,\"u\":{\"n\":5}}\n{\"id\":2,\"u\":{\"n\":\"x\"}}\n"), nil)))
		require.NoError(t, z.Close())
		b.file("b.jsonl", "{\"id\":3,\"u\":{\"n\":7}}\n{\"id\":\"y\",\"u\":{\"n\":7}}\n")
		d := b.run(b.spec(`{source: {file: "*.jsonl*", format: jsonl}, target: g, create_target: true, key: [id], columns: {id: {type: int}, n: {type: int, from: u.n}}}`))
		require.Equal(t, []int64{2, 2}, []int64{d.RowsMerged, d.RowsQuarantined})
		require.Equal(t, []string{"a.jsonl.zst|2|21|n", "b.jsonl|2|21|id"}, b.table("SELECT source, source_line, byte_offset, column_name FROM airlock_dead_letter_row ORDER BY source"))
		require.Len(t, d.Sources, 2)
	})
}
