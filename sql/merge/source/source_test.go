package source_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/merge/row"
	"github.com/airlock-dag/airlock/sql/merge/source"
)

// got is a record that outlives the next read.
type got struct {
	line, offset int64
	raw          string
	values       []row.Value
	code         row.Code
}

func drain(t testing.TB, r source.Reader) []got {
	t.Helper()
	var out []got
	for {
		rec, err := r.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		g := got{line: rec.Line, offset: rec.Offset, raw: rec.Raw, values: append([]row.Value(nil), rec.Values...)}
		if rec.Fault != nil {
			g.code = rec.Fault.Code
			require.NotEmpty(t, rec.Fault.Message)
		}
		out = append(out, g)
	}
}

func csvOf(t testing.TB, text string, opt source.CSVOptions) []got {
	t.Helper()
	r, err := source.NewCSV(strings.NewReader(text), "x.csv", opt, source.Wanted{All: true})
	require.NoError(t, err)
	return drain(t, r)
}

func texts(g got) []string {
	var out []string
	for _, v := range g.values {
		s := v.Text
		if v.Kind == row.Null {
			s = "<null>"
		}
		out = append(out, s)
	}
	return out
}

func TestCSVPoisonFile(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../testdata/orders_poison.csv")
	require.NoError(t, err)
	r, err := source.NewCSV(bytes.NewReader(data), "orders_poison.csv", source.CSVOptions{Null: []string{""}}, source.Wanted{All: true})
	require.NoError(t, err)
	require.Equal(t, []string{"order_id", "customer", "amount_cents", "currency", "updated_at"}, r.Columns(), "the byte order mark is no part of the first name")
	rows := drain(t, r)
	require.Len(t, rows, 19, "the empty line is no row")
	byID := map[string]got{}
	for _, g := range rows {
		require.Equal(t, g.raw, string(data[g.offset:g.offset+int64(len(g.raw))]), "raw bytes stand at the offset")
		require.Equal(t, int64(bytes.Count(data[:g.offset], []byte("\n")))+1, g.line, "line is the physical one")
		id, _, _ := strings.Cut(g.raw, ",")
		byID[id] = g
	}
	require.Equal(t, []string{"1002", "Bolt & Sons\nrear entrance", "900", "EUR", "2026-03-01T08:01:00Z"}, texts(byID["1002"]))
	require.Equal(t, int64(5), byID["1003"].line)
	require.Equal(t, `Cafe "Drei"`, texts(byID["1003"])[1])
	require.Equal(t, row.TooFewFields, byID["1004"].code)
	require.Equal(t, row.TooManyFields, byID["1005"].code)
	require.Equal(t, row.InvalidUTF8, byID["1006"].code)
	require.Equal(t, "<null>", texts(byID[""])[0])
	require.Equal(t, "  Quartz  ", texts(byID["1016"])[1], "spaces are data")
	require.Equal(t, "9007199254740993", texts(byID["1017"])[2], "the last row has no line end and is a row")
}

func TestCSVBrokenQuotesCostOneRow(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../testdata/orders_bare_quote.csv")
	require.NoError(t, err)
	rows := csvOf(t, string(data), source.CSVOptions{})
	require.Len(t, rows, 5)
	require.Equal(t, `pipe 5" steel`, texts(rows[1])[1], "a quote inside a field without quotes is data")
	require.Equal(t, "bracket, left", texts(rows[2])[1])
	require.Equal(t, row.BadQuote, rows[3].code)
	require.Equal(t, "P-5", texts(rows[4])[0])

	rows = csvOf(t, "a,b\n1,x\n2,\"open\n3,y\n4,z\n", source.CSVOptions{})
	require.Len(t, rows, 4)
	require.Equal(t, row.BadQuote, rows[1].code)
	require.Equal(t, `2,"open`, rows[1].raw)
	require.Equal(t, int64(3), rows[1].line)
	require.Equal(t, []string{"3", "y"}, texts(rows[2]))
	require.Equal(t, []string{"4", "z"}, texts(rows[3]))

	rows = csvOf(t, "a,b\n1,x\n2,\"open\n3,\"y\"\n4,z\n", source.CSVOptions{})
	require.Equal(t, row.BadQuote, rows[1].code)
	require.Equal(t, []string{"3", "y"}, texts(rows[2]))
	require.Len(t, rows, 4)

	// Beyond the limit: the quote is taken for broken, and the rest still comes.
	long := "a,b\n1,\"" + strings.Repeat("line\n", 3000) + "\n2,ok\n"
	rows = csvOf(t, long, source.CSVOptions{MaxRow: 1000})
	require.Equal(t, row.BadQuote, rows[0].code)
	require.Equal(t, []string{"2", "ok"}, texts(rows[len(rows)-1]))
}

func TestCSVShapes(t *testing.T) {
	t.Parallel()
	opt := source.CSVOptions{Null: []string{"", "NULL"}}
	rows := csvOf(t, "a;b\nNULL;\"NULL\"\n;\"\"\n", source.CSVOptions{Delimiter: ';', Null: opt.Null})
	require.Equal(t, []string{"<null>", "NULL"}, texts(rows[0]), "a text in quotes is a text")
	require.Equal(t, []string{"<null>", ""}, texts(rows[1]))
	require.Empty(t, csvOf(t, "", opt))
	require.Empty(t, csvOf(t, "\n\n", opt))
	require.Empty(t, csvOf(t, "a,b", opt))
	rows = csvOf(t, "a,b\n1,2\n3,", opt)
	require.Equal(t, []string{"3", "<null>"}, texts(rows[1]))
	rows = csvOf(t, "a,b\n1,2\n3", opt)
	require.Equal(t, row.UnfinishedRow, rows[1].code)
	rows = csvOf(t, "a,b\n1,2\n3,\"four", opt)
	require.Equal(t, row.UnfinishedRow, rows[1].code)
	rows = csvOf(t, "a,b\n1,2\n3,4", source.CSVOptions{FinalNewline: true})
	require.Equal(t, row.UnfinishedRow, rows[1].code)
	rows = csvOf(t, "a\n\xe9t\xe9\n", source.CSVOptions{Encoding: source.Latin1})
	require.Equal(t, []string{"été"}, texts(rows[0]))
	require.Equal(t, "\xe9t\xe9", rows[0].raw)
	rows = csvOf(t, "1,2\n", source.CSVOptions{NoHeader: true, Names: []string{"x", "y"}})
	require.Equal(t, []string{"1", "2"}, texts(rows[0]))
	rows = csvOf(t, "a,b\n"+strings.Repeat("x", 5000)+",1\n2,3\n", source.CSVOptions{MaxRow: 1000})
	require.Equal(t, row.LineTooLong, rows[0].code)
	require.Equal(t, []string{"2", "3"}, texts(rows[1]))
	big := strings.Repeat("y", 1<<20)
	rows = csvOf(t, "a,b\n1,\""+big+"\n"+big+"\"\n2,"+big+"\n", opt)
	require.Equal(t, big+"\n"+big, texts(rows[0])[1])
	require.Equal(t, big, texts(rows[1])[1])
}

func TestCSVReadsTheSameInAnyPortions(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../testdata/orders_poison.csv")
	require.NoError(t, err)
	want := csvOf(t, string(data), source.CSVOptions{})
	r, err := source.NewCSV(iotest.OneByteReader(bytes.NewReader(data)), "x", source.CSVOptions{}, source.Wanted{All: true})
	require.NoError(t, err)
	require.Equal(t, want, drain(t, r))
}

func TestHeaderMistakesConcernTheFile(t *testing.T) {
	t.Parallel()
	open := func(text string, want source.Wanted) error {
		_, err := source.NewCSV(strings.NewReader(text), "in.csv", source.CSVOptions{}, want)
		return err
	}
	err := open("a,b\n", source.Wanted{Names: []string{"a", "c"}})
	require.ErrorIs(t, err, source.ErrHeader)
	require.ErrorContains(t, err, `in.csv: no column "c"`)
	require.NoError(t, open("a,b\n", source.Wanted{Names: []string{"a", "c"}, Optional: map[string]bool{"c": true}}))
	require.ErrorIs(t, open("a,a\n", source.Wanted{All: true}), source.ErrHeader)
	require.ErrorIs(t, open("a,b\n", source.Wanted{Names: []string{"a"}, RejectUnknown: true}), source.ErrHeader)
}

func TestJSONLines(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../testdata/events_poison.jsonl")
	require.NoError(t, err)
	want := source.Wanted{Names: []string{"event_id", "device", "bytes", "at"}, RejectUnknown: true}
	r, err := source.NewJSONL(bytes.NewReader(data), "events.jsonl", source.JSONLOptions{}, want)
	require.NoError(t, err)
	rows := drain(t, r)
	codes := map[int64]row.Code{}
	for _, g := range rows {
		codes[g.line] = g.code
		require.Equal(t, g.raw, string(data[g.offset:g.offset+int64(len(g.raw))]))
	}
	require.Equal(t, map[int64]row.Code{
		1: "", 2: "", 4: row.BadJSON, 5: row.DuplicateKey, 6: row.NotAnObject, 7: "", 8: "", 9: "",
		10: row.InvalidUTF8, 11: "", 12: "", 13: "", 14: row.UnknownField, 15: row.TrailingData, 16: row.UnfinishedRow,
	}, codes)
	require.Equal(t, row.Value{Kind: row.Number, Text: "9007199254740993"}, rows[0].values[0])
	require.Equal(t, row.Value{Kind: row.Number, Text: "9007199254740992"}, rows[1].values[0])
	require.Equal(t, row.Null, rows[5].values[0].Kind)
	require.Equal(t, row.Missing, rows[6].values[0].Kind)
}

func TestJSONObjects(t *testing.T) {
	t.Parallel()
	one := func(line string) got {
		r, err := source.NewJSONL(strings.NewReader(line+"\n"), "x", source.JSONLOptions{MaxRow: 4000}, source.Wanted{Names: []string{"a", "b"}})
		require.NoError(t, err)
		rows := drain(t, r)
		require.Len(t, rows, 1)
		return rows[0]
	}
	g := one(` { "a" : "x\"y\u00e9\ud83d\ude00" , "b":{"k":[1,"}"],"l":"\\"}, "c":[ ] } `)
	require.Equal(t, "x\"yé😀", g.values[0].Text)
	require.Equal(t, row.Value{Kind: row.JSON, Text: `{"k":[1,"}"],"l":"\\"}`}, g.values[1])
	require.Equal(t, row.Value{Kind: row.Bool, Text: "true"}, one(`{"a":true,"b":-1.50e+3}`).values[0])
	require.Equal(t, row.Value{Kind: row.Number, Text: "-1.50e+3"}, one(`{"a":true,"b":-1.50e+3}`).values[1])
	require.Equal(t, row.BadJSON, one(`{"a":"\ud83d"}`).code, "half a surrogate pair would be replaced in silence")
	require.Equal(t, row.BadJSON, one(`{"a":"\ude00x"}`).code)
	require.Equal(t, row.DuplicateKey, one(`{"a":1,"\u0061":2}`).code)
	require.Equal(t, row.NotAnObject, one(`7`).code)
	require.Equal(t, row.LineTooLong, one(`{"a":"`+strings.Repeat("x", 5000)+`"}`).code)
}

func TestVeryLongLineDoesNotEndTheFile(t *testing.T) {
	t.Parallel()
	text := `{"a":1}` + "\n" + `{"a":"` + strings.Repeat("x", 1_100_000) + `"}` + "\n" + `{"a":3}` + "\n"
	r, err := source.NewJSONL(strings.NewReader(text), "x", source.JSONLOptions{}, source.Wanted{Names: []string{"a"}})
	require.NoError(t, err)
	rows := drain(t, r)
	require.Len(t, rows, 3)
	require.Len(t, rows[1].values[0].Text, 1_100_000)
	require.Equal(t, "3", rows[2].values[0].Text)
}

func TestList(t *testing.T) {
	t.Parallel()
	open := func(text string) ([]got, error) {
		r, err := source.NewList([]byte(text), "xcom", source.Wanted{Names: []string{"a"}})
		if err != nil {
			return nil, err
		}
		return drain(t, r), nil
	}
	rows, err := open(`[{"a":9007199254740993},{"a":"x","z":1}, 5]`)
	require.NoError(t, err)
	require.Len(t, rows, 3)
	require.Equal(t, "9007199254740993", rows[0].values[0].Text)
	require.Equal(t, row.NotAnObject, rows[2].code)
	rows, err = open(`{"a":1}`)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	for _, none := range []string{"", "null", "[]"} {
		rows, err = open(none)
		require.NoError(t, err)
		require.Empty(t, rows)
	}
	for _, bad := range []string{"7", `"x"`, "[1", "{"} {
		_, err = open(bad)
		require.ErrorIs(t, err, source.ErrHeader, bad)
	}
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

func gz(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func openCSV(r io.Reader, name string) (source.Reader, error) {
	return source.NewCSV(r, name, source.CSVOptions{}, source.Wanted{Names: []string{"a"}})
}

func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "o-2.csv"), []byte("a\n3\n"))
	write(t, filepath.Join(dir, "o-1.csv"), gz(t, "a\n1\n2\n"))
	write(t, filepath.Join(dir, "o-3.csv"), nil)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "o-4.csv"), 0o700))
	files, err := source.Glob(dir, "o-*.csv")
	require.NoError(t, err)
	require.Len(t, files, 3, "folders are left out")
	r := source.NewFiles(files, openCSV)
	var names []string
	for {
		rec, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		names = append(names, fmt.Sprintf("%s:%d=%s", rec.Source, rec.Line, rec.Raw))
	}
	require.Equal(t, []string{"o-1.csv:2=1", "o-1.csv:3=2", "o-2.csv:2=3"}, names)
	sums := r.Sums()
	require.Len(t, sums, 3)
	for i, f := range files {
		sum, err := source.SumFile(t.Context(), f)
		require.NoError(t, err)
		require.Equal(t, source.FileSum{Name: f.Name, SHA256: sum}, sums[i])
	}
	_, err = source.Glob(dir, "none-*.csv")
	require.ErrorIs(t, err, source.ErrNotFound)
	_, err = source.Glob(dir, "none.csv")
	require.ErrorIs(t, err, source.ErrNotFound)
}

func TestPipesAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe.csv"), 0o600))
	for _, pattern := range []string{"pipe.csv", "*.csv", "/dev/null"} {
		_, err := source.Glob(dir, pattern)
		require.ErrorIs(t, err, source.ErrNotAFile, pattern)
	}
}

func TestASumEndsWithItsContext(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.csv")
	write(t, path, make([]byte, 1<<20))
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("over")
	cancel(why)
	_, err := source.SumFile(ctx, source.File{Path: path, Name: "a.csv"})
	require.ErrorIs(t, err, why)
}

func TestFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	long := gz(t, "a\n"+strings.Repeat("123456789\n", 100000))
	for _, c := range []struct {
		name string
		data []byte
		want error
	}{
		{"cut.csv.gz", long[:len(long)-20], source.ErrTruncated},
		{"not.csv.gz", []byte("a\n1\n"), source.ErrEncoding},
		{"a.zst", []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0, 0}, source.ErrTruncated},
		{"cut.csv.zst", zst(t, []byte("a\n"+strings.Repeat("123456789\n", 100000)), -5), source.ErrTruncated},
		{"bad.csv.zst", append(zst(t, []byte("a\n1\n"), 0), "rest"...), source.ErrDamaged},
		{"not.csv.zst", []byte("a\n1\n"), source.ErrEncoding},
		{"sum.csv.gz", append(bytes.Clone(long[:len(long)-8]), make([]byte, 8)...), source.ErrDamaged},
		{"a.xz", []byte{0xfd, '7', 'z', 'X', 'Z', 0}, source.ErrEncoding},
		{"a.parquet", []byte("PAR1xxxx"), source.ErrEncoding},
		{"wide.csv", []byte("\xff\xfe\x00\x00a\x00\x00\x00"), source.ErrEncoding},
	} {
		write(t, filepath.Join(dir, c.name), c.data)
		r := source.NewFiles([]source.File{{Path: filepath.Join(dir, c.name), Name: c.name}}, openCSV)
		var err error
		for err == nil {
			_, err = r.Next(t.Context())
		}
		require.ErrorIs(t, err, c.want, c.name)
		require.ErrorContains(t, err, c.name)
		require.NoError(t, r.Close())
	}
}

func TestFileWrittenWhileRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.csv")
	write(t, path, []byte("a\n1\n2\n"))
	r := source.NewFiles([]source.File{{Path: path, Name: "x.csv"}}, openCSV)
	_, err := r.Next(t.Context())
	require.NoError(t, err)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("3\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	for err == nil {
		_, err = r.Next(t.Context())
	}
	require.ErrorIs(t, err, source.ErrChanged)
}
