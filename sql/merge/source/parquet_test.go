package source_test

import (
	"bytes"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/merge/row"
	"github.com/airlock-dag/airlock/sql/merge/source"
)

type lineItem struct {
	SKU string `parquet:"sku"`
	N   int32  `parquet:"n,optional"`
}

type parquetRow struct {
	ID      int64    `parquet:"id"`
	Big     uint64   `parquet:"big"`
	Name    *string  `parquet:"name,optional"`
	Amount  int64    `parquet:"amount,decimal(2:18)"`
	Wide    [16]byte `parquet:"wide,decimal(4:38)"`
	Day     int32    `parquet:"day,date"`
	At      int64    `parquet:"at,timestamp(microsecond)"`
	Local   int64    `parquet:"local,timestamp(millisecond:local)"`
	Ok      bool     `parquet:"ok"`
	Ratio   float64  `parquet:"ratio"`
	Raw     []byte   `parquet:"raw"`
	Address *struct {
		City string  `parquet:"city"`
		Geo  []int32 `parquet:"geo,list"`
	} `parquet:"address,optional"`
	Items []lineItem       `parquet:"items"`
	Attrs map[string]int64 `parquet:"attrs"`
}

// twosComplement is a number in sixteen bytes.
func twosComplement(n *big.Int) (out [16]byte) {
	if n.Sign() < 0 {
		n = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), 128))
	}
	n.FillBytes(out[:])
	return out
}

func parquetFile(t testing.TB, rows []parquetRow, perGroup int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[parquetRow](&b)
	for len(rows) > 0 {
		n := min(perGroup, len(rows))
		_, err := w.Write(rows[:n])
		require.NoError(t, err)
		require.NoError(t, w.Flush())
		rows = rows[n:]
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestParquetKeepsEveryDigit(t *testing.T) {
	t.Parallel()
	name := "Zoë"
	wideNumber, _ := new(big.Int).SetString("-12345678901234567890123456789012345", 10)
	first := parquetRow{
		ID: 9007199254740993, Big: 1<<64 - 1, Name: &name, Amount: -5, Wide: twosComplement(wideNumber), Day: 20513, At: -1, Local: 1772323200250,
		Ok: true, Ratio: 12.5, Raw: []byte{0, 255}, Items: []lineItem{{"a", 1}, {"b", 0}}, Attrs: map[string]int64{"k": 7},
	}
	first.Address = &struct {
		City string  `parquet:"city"`
		Geo  []int32 `parquet:"geo,list"`
	}{"Köln", []int32{5, 6}}
	file := parquetFile(t, []parquetRow{first, {ID: 2}, {ID: 3}}, 2)
	want := source.Wanted{Names: []string{
		"id", "big", "name", "amount", "wide", "day", "at", "local", "ok", "ratio", "raw", "address.city", "address.geo[1]", "items", "attrs", "address", "items[0].sku", "gone",
	}, Optional: map[string]bool{"gone": true}}
	r, err := source.NewParquet(bytes.NewReader(file), int64(len(file)), "p.parquet", 0, want)
	require.NoError(t, err)
	rows := drain(t, r)
	require.NoError(t, r.Close())
	require.Len(t, rows, 3, "both row groups are read")
	require.Equal(t, []row.Value{
		{Kind: row.Number, Text: "9007199254740993"}, {Kind: row.Number, Text: "18446744073709551615"}, {Kind: row.Text, Text: "Zoë"},
		{Kind: row.Number, Text: "-0.05"}, {Kind: row.Number, Text: "-1234567890123456789012345678901.2345"},
		{Kind: row.Text, Text: time.Unix(20513*86400, 0).UTC().Format(time.DateOnly)},
		{Kind: row.Text, Text: "1969-12-31T23:59:59.999999Z"}, {Kind: row.Text, Text: "2026-03-01T00:00:00.25"},
		{Kind: row.Bool, Text: "true"}, {Kind: row.Number, Text: "12.5"}, {Kind: row.Bytes, Text: "\x00\xff"},
		{Kind: row.Text, Text: "Köln"}, {Kind: row.Number, Text: "6"},
		{Kind: row.JSON, Text: `[{"sku":"a","n":1},{"sku":"b","n":null}]`}, {Kind: row.JSON, Text: `{"k":7}`},
		{Kind: row.JSON, Text: `{"city":"Köln","geo":[5,6]}`}, {Kind: row.Text, Text: "a"}, {},
	}, rows[0].values)
	require.Equal(t, int64(-1), rows[0].offset)
	require.Equal(t, []int64{1, 2, 3}, []int64{rows[0].line, rows[1].line, rows[2].line})
	require.Equal(t, row.Null, rows[1].values[2].Kind)
	require.Equal(t, row.Missing, rows[1].values[11].Kind)
	require.Equal(t, row.Value{Kind: row.JSON, Text: "[]"}, rows[1].values[13])
	require.Equal(t, row.Null, rows[1].values[15].Kind)
	require.JSONEq(t, `{"id":2,"big":0,"name":null,"amount":0.00,"wide":0.0000,"day":"1970-01-01","at":"1970-01-01T00:00:00Z","local":"1970-01-01T00:00:00",
		"ok":false,"ratio":0,"raw":{"$hex":""},"address":null,"items":[],"attrs":{}}`, rows[1].raw)
}

func TestParquetFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	file := parquetFile(t, []parquetRow{{ID: 1}, {ID: 2}}, 1)
	open := func(b []byte, want source.Wanted) error {
		r, err := source.NewParquet(bytes.NewReader(b), int64(len(b)), "p.parquet", 0, want)
		for err == nil {
			_, err = r.Next(t.Context())
		}
		return err
	}
	require.ErrorIs(t, open(file, source.Wanted{Names: []string{"nope"}}), source.ErrHeader)
	require.ErrorIs(t, open(file, source.Wanted{Names: []string{"id"}, RejectUnknown: true}), source.ErrHeader)
	require.ErrorIs(t, open(file[:len(file)-9], source.Wanted{Names: []string{"id"}}), source.ErrDamaged)
	require.ErrorIs(t, open([]byte("a,b\n1,2\n"), source.Wanted{All: true}), source.ErrDamaged)
	require.ErrorIs(t, open(nil, source.Wanted{All: true}), source.ErrDamaged)
	require.ErrorContains(t, open(nil, source.Wanted{All: true}), "p.parquet")
}

func TestParquetFilesHaveTheirHash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a.parquet", "b.parquet"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), parquetFile(t, []parquetRow{{ID: 1}, {ID: 2}}, 5), 0o600))
	}
	files, err := source.Glob(dir, "*.parquet")
	require.NoError(t, err)
	r := source.NewFiles(files, nil)
	r.Parquet = openParquet
	require.Len(t, drain(t, r), 4)
	for i, f := range files {
		sum, err := source.SumFile(t.Context(), f)
		require.NoError(t, err)
		require.Equal(t, source.FileSum{Name: f.Name, SHA256: sum}, r.Sums()[i])
	}
}

func openParquet(r io.ReaderAt, size int64, name string) (source.Reader, error) {
	return source.NewParquet(r, size, name, 0, source.Wanted{All: true})
}
