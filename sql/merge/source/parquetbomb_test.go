package source_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/merge/row"
	"github.com/airlock-dag/airlock/sql/merge/source"
)

// crafted is a Parquet file of one column, written byte by byte.
type crafted struct {
	element format.SchemaElement
	codec   format.CompressionCodec
	// dictionary is a page of texts before the others.
	dictionary bool
	header     format.PageHeader
	body       []byte
	change     func(*format.FileMetaData)
}

func pack(t testing.TB, v any) []byte {
	t.Helper()
	b, err := thrift.Marshal(new(thrift.CompactProtocol), v)
	require.NoError(t, err)
	return b
}

func framed(footer []byte, front []byte) []byte {
	b := append(append([]byte("PAR1"), front...), footer...)
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(footer))), "PAR1"...)
}

func (c crafted) file(t testing.TB) []byte {
	t.Helper()
	var pages []byte
	first := int64(4)
	if c.dictionary {
		word := append(binary.LittleEndian.AppendUint32(nil, 1), 'a')
		h := format.PageHeader{Type: format.DictionaryPage, UncompressedPageSize: int32(len(word)), CompressedPageSize: int32(len(word))}
		h.DictionaryPageHeader.Valid, h.DictionaryPageHeader.V = true, format.DictionaryPageHeader{NumValues: 1, Encoding: format.Plain}
		pages = append(pack(t, &h), word...)
	}
	data := first + int64(len(pages))
	if c.header.CompressedPageSize == 0 {
		c.header.CompressedPageSize = int32(len(c.body))
	}
	if c.header.UncompressedPageSize == 0 {
		c.header.UncompressedPageSize = int32(len(c.body))
	}
	pages = append(append(pages, pack(t, &c.header)...), c.body...)
	c.element.Name = "c"
	root := format.SchemaElement{Name: "root"}
	root.NumChildren.Valid, root.NumChildren.V = true, 1
	column := format.ColumnChunk{FileOffset: first, MetaData: format.ColumnMetaData{
		Type: c.element.Type.V, PathInSchema: thrift.Slice[string]{"c"}, Codec: c.codec, NumValues: int64(c.header.DataPageHeader.V.NumValues),
		Encoding: thrift.Slice[format.Encoding]{c.header.DataPageHeader.V.Encoding}, TotalCompressedSize: int64(len(pages)), TotalUncompressedSize: int64(len(pages)), DataPageOffset: data,
	}}
	if c.dictionary {
		column.MetaData.DictionaryPageOffset = first
	}
	meta := format.FileMetaData{Version: 1, Schema: thrift.Slice[format.SchemaElement]{root, c.element}, NumRows: 10, RowGroups: thrift.Slice[format.RowGroup]{{
		Columns: thrift.Slice[format.ColumnChunk]{column}, NumRows: 10, TotalByteSize: int64(len(pages)),
	}}}
	if c.change != nil {
		c.change(&meta)
	}
	return framed(pack(t, &meta), pages)
}

func dataPage(encoding format.Encoding, values int32) format.PageHeader {
	h := format.PageHeader{Type: format.DataPage}
	h.DataPageHeader.Valid = true
	h.DataPageHeader.V = format.DataPageHeader{NumValues: values, Encoding: encoding, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE}
	return h
}

func element(typ format.Type, repetition format.FieldRepetitionType) format.SchemaElement {
	var e format.SchemaElement
	e.Type.Valid, e.Type.V = true, typ
	e.RepetitionType.Valid, e.RepetitionType.V = true, repetition
	return e
}

// run is a run of n equal values of one byte.
func run(n uint64, value byte) []byte { return append(binary.AppendUvarint(nil, n<<1), value) }

// levels are runs with their length before them.
func levels(runs ...[]byte) []byte {
	b := bytes.Join(runs, nil)
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func packed(t testing.TB, w io.WriteCloser, b *bytes.Buffer, size int) []byte {
	t.Helper()
	zeros := make([]byte, 1<<20)
	for range size >> 20 {
		_, err := w.Write(zeros)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

// readAll reads a file to its end or its error and gives the memory it took in
// all, in bytes.
func readAll(file []byte) (rows int, took uint64, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p, err := source.NewParquet(bytes.NewReader(file), int64(len(file)), "bomb.parquet", 0, source.Wanted{All: true})
	for err == nil {
		if _, err = p.Next(context.Background()); err == nil {
			rows++
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	runtime.ReadMemStats(&after)
	return rows, after.TotalAlloc - before.TotalAlloc, err
}

// TestParquetBombs: small files that ask for gigabytes are refused, and little
// memory is taken. It measures the process, so no other test runs beside it.
//
//nolint:paralleltest // see above
func TestParquetBombs(t *testing.T) {
	text := element(format.ByteArray, format.Required)
	number := element(format.Int32, format.Required)
	const lots = 1<<31 - 1
	var gz, zs bytes.Buffer
	zw, err := zstd.NewWriter(&zs)
	require.NoError(t, err)
	gzipped, zstandard := packed(t, gzip.NewWriter(&gz), &gz, 512<<20), packed(t, zw, &zs, 512<<20)
	var prefixes, suffixes []int32
	for i := range 2000 {
		prefixes, suffixes = append(prefixes, 1<<20), append(suffixes, 0)
		if i == 0 {
			prefixes[0], suffixes[0] = 0, 1<<20
		}
	}
	shared, err := new(delta.BinaryPackedEncoding).EncodeInt32(nil, prefixes)
	require.NoError(t, err)
	ends, err := new(delta.BinaryPackedEncoding).EncodeInt32(nil, suffixes)
	require.NoError(t, err)
	shared = append(append(shared, ends...), make([]byte, 1<<20)...)
	nested := func(m *format.FileMetaData) {
		deep := format.SchemaElement{Name: "d"}
		deep.NumChildren.Valid, deep.NumChildren.V = true, 1
		deep.RepetitionType.Valid = true
		leaf := m.Schema[1]
		for m.Schema = m.Schema[:1]; len(m.Schema) < 10000; {
			m.Schema = append(m.Schema, deep)
		}
		m.Schema = append(m.Schema, leaf)
	}
	largePage, farPage, manyValues := dataPage(format.Plain, 10), dataPage(format.Plain, 10), dataPage(format.Plain, lots)
	largePage.UncompressedPageSize, farPage.CompressedPageSize = lots, 1<<30
	short := dataPage(format.Plain, 10)
	short.UncompressedPageSize = 40
	binaryNumbers := binary.AppendUvarint([]byte{128, 1, 4}, lots) // blocks of 128 in 4, so many numbers, the first is 0
	binaryNumbers = append(binaryNumbers, 0)
	for name, c := range map[string]struct {
		file []byte
		says string
	}{
		"page size":          {crafted{element: number, codec: format.Gzip, header: largePage, body: []byte{1}}.file(t), "it has 2147483647 bytes"},
		"page beyond column": {crafted{element: number, header: farPage, body: []byte{1}}.file(t), "the column has 1 left"},
		"values":             {crafted{element: text, header: manyValues, body: []byte{1}}.file(t), "2147483647 values"},
		"places":             {crafted{element: text, dictionary: true, header: dataPage(format.RLEDictionary, 10), body: append([]byte{1}, bytes.Repeat(run(lots, 0), 8)...)}.file(t), "more than the 10 values"},
		"levels": {crafted{element: element(format.Int32, format.Optional), header: dataPage(format.Plain, 10),
			body: levels(bytes.Repeat(run(lots, 0), 8))}.file(t), "more than the 10 values"},
		"one row": {crafted{element: element(format.Int32, format.Repeated), dictionary: false, header: dataPage(format.Plain, 9<<20),
			body: append(levels(run(1, 0), run(9<<20-1, 1)), levels(run(9<<20, 0))...)}.file(t), "a row has more than"},
		"booleans":  {crafted{element: element(format.Boolean, format.Required), header: dataPage(format.RLE, 10), body: levels(run(lots, 1), run(lots, 1))}.file(t), "more than the 10 values"},
		"gzip":      {crafted{element: number, codec: format.Gzip, header: short, body: gzipped}.file(t), "more than the 40 bytes"},
		"zstandard": {crafted{element: number, codec: format.Zstd, header: short, body: zstandard}.file(t), "more than the 40 bytes"},
		"snappy":    {crafted{element: number, codec: format.Snappy, header: short, body: []byte{0xff, 0xff, 0xff, 0xff, 0x07, 0}}.file(t), "more than the 40 bytes"},
		"numbers":   {crafted{element: number, header: dataPage(format.DeltaBinaryPacked, 10), body: binaryNumbers}.file(t), "is said to have 10 values"},
		"prefixes":  {crafted{element: text, header: dataPage(format.DeltaByteArray, 2000), body: shared}.file(t), "its texts have 2097152000 bytes"},
		"nested":    {crafted{element: number, header: dataPage(format.Plain, 10), body: make([]byte, 40), change: nested}.file(t), "nested deeper"},
		"far away": {crafted{element: number, header: dataPage(format.Plain, 10), body: make([]byte, 40), change: func(m *format.FileMetaData) {
			m.RowGroups[0].Columns[0].MetaData.TotalCompressedSize = 1 << 40
		}}.file(t), "1099511627776 bytes are said"},
		"list in the footer": {framed(append([]byte{0x15, 2, 0x19, 0xfc}, 0xff, 0xff, 0xff, 0xff, 7), nil), "2147483647 items"},
		"text in the footer": {framed(append([]byte{0x18}, 0xff, 0xff, 0xff, 0xff, 7), nil), "2147483647 bytes and 0 are left"},
	} {
		t.Run(name, func(t *testing.T) {
			_, took, err := readAll(c.file)
			require.Error(t, err)
			require.True(t, errors.Is(err, source.ErrTooLarge) || errors.Is(err, source.ErrDamaged), err.Error())
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, "bomb.parquet: ")
			require.Less(t, took, uint64(64<<20))
		})
	}
	rows, _, err := readAll(crafted{element: number, header: dataPage(format.Plain, 10), body: make([]byte, 40)}.file(t))
	require.NoError(t, err)
	require.Equal(t, 10, rows, "the same, as it should be")
}

// TestParquetRowTooLong: one long row costs that row.
func TestParquetRowTooLong(t *testing.T) {
	t.Parallel()
	type long struct {
		ID   int64    `parquet:"id"`
		Text string   `parquet:"text"`
		List []string `parquet:"list"`
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[long](&b)
	_, err := w.Write([]long{{1, "a", nil}, {2, strings.Repeat("x", 5000), nil}, {3, "b", strings.Split(strings.Repeat("y ", 500), " ")}, {4, "c", []string{"z"}}})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	p, err := source.NewParquet(bytes.NewReader(b.Bytes()), int64(b.Len()), "long.parquet", 1000, source.Wanted{All: true})
	require.NoError(t, err)
	var got []string
	for {
		rec, err := p.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if rec.Fault == nil {
			got = append(got, rec.Raw)
			continue
		}
		require.Equal(t, row.LineTooLong, rec.Fault.Code)
		got = append(got, "too long: "+rec.Raw)
	}
	require.Equal(t, []string{`{"id":1,"text":"a","list":[]}`, `too long: {"id":2,"list":[]}`, `too long: {"id":3,"text":"b"}`, `{"id":4,"text":"c","list":["z"]}`}, got)
}

// TestParquetOfEveryKindPasses: what the library writes is not taken for a bomb.
func TestParquetOfEveryKindPasses(t *testing.T) {
	t.Parallel()
	type many struct {
		A int64    `parquet:"a,delta"`
		B string   `parquet:"b,dict"`
		C string   `parquet:"c,delta"`
		D []int32  `parquet:"d,list"`
		E *float64 `parquet:"e,optional"`
		F bool     `parquet:"f"`
		G int32    `parquet:"g,delta"`
		H []byte   `parquet:"h,delta"`
	}
	const n = 20000
	rows := make([]many, n)
	for i := range rows {
		rows[i] = many{A: int64(i * i), B: strings.Repeat("b", i%3), C: strings.Repeat("c", i%50), F: i%2 == 0, G: int32(-i), H: []byte{byte(i)}}
		for j := range i % 4 {
			rows[i].D = append(rows[i].D, int32(j))
		}
		if v := float64(i); i%3 == 0 {
			rows[i].E = &v
		}
	}
	for at, codec := range []parquet.WriterOption{
		parquet.Compression(&parquet.Uncompressed), parquet.Compression(&parquet.Snappy), parquet.Compression(&parquet.Gzip),
		parquet.Compression(&parquet.Zstd), parquet.Compression(&parquet.Brotli),
	} {
		for version := 1; version <= 2; version++ {
			var b bytes.Buffer
			w := parquet.NewGenericWriter[many](&b, codec, parquet.DataPageVersion(version), parquet.PageBufferSize(16<<10))
			_, err := w.Write(rows)
			require.NoError(t, err)
			require.NoError(t, w.Close())
			p, err := source.NewParquet(bytes.NewReader(b.Bytes()), int64(b.Len()), "many.parquet", 0, source.Wanted{All: true})
			require.NoError(t, err)
			count := 0
			for {
				rec, err := p.Next(t.Context())
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err, "codec %d, pages of version %d", at, version)
				require.Nil(t, rec.Fault)
				count++
			}
			require.Equal(t, n, count)
		}
	}
}

// TestParquetLZ4IsRefused: the library would give other values than the file has.
func TestParquetLZ4IsRefused(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[lineItem](&b, parquet.Compression(&parquet.Lz4Raw))
	_, err := w.Write([]lineItem{{"a", 1}})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	_, _, err = readAll(b.Bytes())
	require.ErrorIs(t, err, source.ErrEncoding)
	require.ErrorContains(t, err, "row group 1, column sku, page 1: it is packed with LZ4")
}
