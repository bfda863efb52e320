package source_test

import (
	"encoding/binary"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/merge/row"
	"github.com/airlock-dag/airlock/sql/merge/source"
)

// wide writes a text as UTF-16 with a byte order mark.
func wide(order binary.AppendByteOrder, text string) string {
	out := order.AppendUint16(nil, 0xFEFF)
	for _, u := range utf16.Encode([]rune(text)) {
		out = order.AppendUint16(out, u)
	}
	return string(out)
}

// zst packs bytes; a negative cut leaves so many off the end.
func zst(t testing.TB, data []byte, cut int) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	out := w.EncodeAll(data, nil)
	require.NoError(t, w.Close())
	return out[:len(out)+cut]
}

func TestUTF16KeepsBytesAndPlaces(t *testing.T) {
	t.Parallel()
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		file := wide(order, "id,name\r\n1,\"Zoë\r\n🚚\"\r\n2,x,y\r\n3,Ünal\r\n")
		lone := strings.Index(file, wide(order, "Ünal")[2:])
		// Half a surrogate pair in row 3 costs that row alone.
		half := order.AppendUint16(nil, 0xD83D)
		file = file[:lone] + string(half) + file[lone:] + wide(order, "4,ok\r\n")[2:]
		r, err := source.NewCSV(strings.NewReader(file), "w.csv", source.CSVOptions{}, source.Wanted{All: true})
		require.NoError(t, err)
		require.Equal(t, []string{"id", "name"}, r.Columns())
		rows := drain(t, r)
		require.Len(t, rows, 4)
		require.Equal(t, []string{"1", "Zoë\r\n🚚"}, texts(rows[0]))
		require.Equal(t, row.TooManyFields, rows[1].code)
		require.Equal(t, row.InvalidUTF8, rows[2].code)
		require.Equal(t, []string{"4", "ok"}, texts(rows[3]))
		require.Equal(t, []int64{2, 4, 5, 6}, []int64{rows[0].line, rows[1].line, rows[2].line, rows[3].line})
		for _, g := range rows {
			require.Equal(t, g.raw, file[g.offset:g.offset+int64(len(g.raw))], "the file's own bytes stand at the offset")
		}
		require.Equal(t, wide(order, "2,x,y")[2:], rows[1].raw)
	}
}

func TestUTF16ThatIsCut(t *testing.T) {
	t.Parallel()
	file := wide(binary.LittleEndian, "a,b\n1,2\n3,4")
	rows := csvOf(t, file[:len(file)-1], source.CSVOptions{})
	require.Len(t, rows, 2)
	require.Equal(t, row.InvalidUTF8, rows[1].code)
	require.True(t, strings.HasSuffix(file[:len(file)-1], rows[1].raw))
	r, err := source.NewJSONL(strings.NewReader(wide(binary.BigEndian, "{\"a\":\"é\"}\n{\"a\":1")), "x.jsonl", source.JSONLOptions{}, source.Wanted{Names: []string{"a"}})
	require.NoError(t, err)
	rows = drain(t, r)
	require.Equal(t, []string{"é"}, texts(rows[0]))
	require.Equal(t, row.UnfinishedRow, rows[1].code)
	require.Equal(t, int64(2+2*len(`{"a":"e"}`)+2), rows[1].offset)
}

func TestEncodingsThatAreSaid(t *testing.T) {
	t.Parallel()
	bare := wide(binary.LittleEndian, "a,b\n1,é\n")[2:]
	require.Equal(t, []string{"1", "é"}, texts(csvOf(t, bare, source.CSVOptions{Encoding: source.UTF16LE})[0]))
	require.Equal(t, []string{"1", "é"}, texts(csvOf(t, "\xff\xfe"+bare, source.CSVOptions{Encoding: source.UTF16})[0]))
	require.Equal(t, []string{"\u20ac", "\u201cx\u201d"}, texts(csvOf(t, "a,b\n\x80,\x93x\x94\n", source.CSVOptions{Encoding: source.Windows1252})[0]))
	rows := csvOf(t, "a,b\n1,\x81\n2,x\n", source.CSVOptions{Encoding: source.Windows1252})
	require.Equal(t, row.InvalidUTF8, rows[0].code)
	require.Equal(t, []string{"2", "x"}, texts(rows[1]))
	j, err := source.NewJSONL(strings.NewReader("{\"a\":\"\xe9\"}\n"), "x.jsonl", source.JSONLOptions{Encoding: source.Latin1}, source.Wanted{Names: []string{"a"}})
	require.NoError(t, err)
	jrows := drain(t, j)
	require.Equal(t, []string{"é"}, texts(jrows[0]))
	require.Equal(t, "{\"a\":\"\xe9\"}", jrows[0].raw)
	for name, want := range map[string]source.Encoding{"UTF8": source.UTF8, "latin_1": source.Latin1, "CP1252": source.Windows1252, "utf-16le": source.UTF16LE, "utf-16": source.UTF16} {
		got, ok := source.ParseEncoding(name)
		require.True(t, ok, name)
		require.Equal(t, want, got)
	}
	_, ok := source.ParseEncoding("ebcdic")
	require.False(t, ok)
}

func TestEncodingsThatDoNotFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		say  source.Encoding
		word string
	}{
		{"\xff\xfe\x00\x00a\x00\x00\x00", "", "UTF-32"},
		{"a\x00,\x00", "", "utf-16-le"},
		{"\x00a\x00,", source.UTF8, "utf-16-be"},
		{"\xff\xfea\x00", source.UTF8, "UTF-16 (little endian)"},
		{"\xfe\xff\x00a", source.UTF16LE, "UTF-16 (big endian)"},
		{"\xef\xbb\xbfa,b\n", source.Latin1, "UTF-8"},
		{"\xef\xbb\xbfa,b\n", source.UTF16, "UTF-8"},
		{"a,b\n", source.UTF16, "byte order mark"},
		{"\xe9t\xe9\n", "", "windows-1252"},
		{"\x81\n", source.Windows1252, "no characters"},
	} {
		_, err := source.NewCSV(strings.NewReader(c.text), "in.csv", source.CSVOptions{Encoding: c.say}, source.Wanted{All: true})
		require.ErrorIs(t, err, source.ErrEncoding, "%q", c.text)
		require.ErrorContains(t, err, c.word)
		require.ErrorContains(t, err, "in.csv")
	}
}

func TestZstandard(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.csv.zst"), append(zst(t, []byte("a,b\n1,2\n"), 0), zst(t, []byte("3,4\n"), 0)...))
	files, err := source.Glob(dir, "*.zst")
	require.NoError(t, err)
	r := source.NewFiles(files, openCSV)
	rows := drain(t, r)
	require.Len(t, rows, 2)
	require.Equal(t, "3,4", rows[1].raw)
	require.Equal(t, int64(8), rows[1].offset, "places are those of the unpacked file")
	sum, err := source.SumFile(t.Context(), files[0])
	require.NoError(t, err)
	require.Equal(t, []source.FileSum{{Name: "a.csv.zst", SHA256: sum}}, r.Sums())
}

func TestPathsIntoNestedObjects(t *testing.T) {
	t.Parallel()
	want := source.Wanted{Names: []string{"id", "user.name", "user.tags[1]", "user.address.city", "a.b", "user.address"}, RejectUnknown: true}
	r, err := source.NewJSONL(strings.NewReader(`{"id":1,"user":{"name":"Ada","tags":["x","y"],"address":{"city":"Köln","zip":9007199254740993}},"a.b":5,"a":{"b":6}}
{"id":2,"user":null}
{"id":3,"user":{"name":"B","address":{"city":1,"city":2}}}
{"id":4,"user":{"name":"\ud83d"}}
{"id":5,"usr":{"name":"x"}}
{"id":6,"user":[{"name":"x"}],"a":{"b":true}}
`), "n.jsonl", source.JSONLOptions{}, want)
	require.NoError(t, err)
	rows := drain(t, r)
	require.Equal(t, []string{"1", "Ada", "y", "Köln", "5", `{"city":"Köln","zip":9007199254740993}`}, texts(rows[0]))
	require.Equal(t, row.JSON, rows[0].values[5].Kind)
	for _, i := range []int{1, 2, 3, 4, 5} {
		require.Equal(t, row.Missing, rows[1].values[i].Kind)
	}
	require.Equal(t, row.DuplicateKey, rows[2].code)
	require.Equal(t, row.BadJSON, rows[3].code)
	require.Equal(t, row.UnknownField, rows[4].code)
	require.Equal(t, row.Missing, rows[5].values[1].Kind)
	require.Equal(t, row.Value{Kind: row.Bool, Text: "true"}, rows[5].values[4])
}
