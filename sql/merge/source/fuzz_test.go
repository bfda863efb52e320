package source_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/merge/source"
)

func FuzzCSV(f *testing.F) {
	for _, name := range []string{"orders_poison.csv", "orders_bare_quote.csv"} {
		data, err := os.ReadFile("../testdata/" + name)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte("a,b\n\"x\"\"y\",\"\n\"\r\n1,2"))
	f.Add([]byte(wide(binary.LittleEndian, "a,b\n1,\"é\n\"\n2,🚚\n") + "\x00\xd8\n\x00x"))
	f.Add([]byte(wide(binary.BigEndian, "a\n1\n2")))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := source.NewCSV(bytes.NewReader(data), "f", source.CSVOptions{MaxRow: 64}, source.Wanted{All: true})
		if err != nil {
			return
		}
		body := bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
		shift := int64(len(data) - len(body))
		next := int64(0)
		wide := bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff"))
		for {
			rec, err := r.Next(context.Background())
			if err != nil {
				require.ErrorIs(t, err, io.EOF)
				return
			}
			require.GreaterOrEqual(t, rec.Offset, next, "rows do not overlap")
			require.Equal(t, rec.Raw, string(data[rec.Offset:rec.Offset+int64(len(rec.Raw))]))
			if !wide {
				require.Equal(t, int64(bytes.Count(data[:rec.Offset], []byte("\n")))+1, rec.Line)
			}
			require.GreaterOrEqual(t, rec.Offset, shift)
			next = rec.Offset + int64(len(rec.Raw))
			if rec.Fault == nil {
				require.Len(t, rec.Values, len(r.Columns()))
			}
		}
	})
}

func FuzzJSONL(f *testing.F) {
	data, err := os.ReadFile("../testdata/events_poison.jsonl")
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte(`{"a":"\ud83d\ude00","b":[{"c":"]"}]}`))
	f.Add([]byte(`{"a":{"b":{"b":1},"c":[]},"b":[{"c":"\"","d":-1.5e3},null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := source.NewJSONL(bytes.NewReader(data), "f", source.JSONLOptions{MaxRow: 200}, source.Wanted{Names: []string{"a", "device", "b[0].c", "a.b"}, RejectUnknown: len(data)%2 == 0})
		if err != nil {
			return
		}
		for {
			rec, err := r.Next(context.Background())
			if err != nil {
				require.ErrorIs(t, err, io.EOF)
				return
			}
			require.Equal(t, rec.Raw, string(data[rec.Offset:rec.Offset+int64(len(rec.Raw))]))
		}
	})
}

func FuzzList(f *testing.F) {
	f.Add([]byte(`[{"a":1},{"a":{"b":"x"}},5,null,[{"a":2}]]`))
	f.Add([]byte(`{"a":"one object"}`))
	f.Add([]byte(" null "))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := source.NewList(data, "f", source.Wanted{Names: []string{"a", "a.b"}})
		if err != nil {
			require.ErrorIs(t, err, source.ErrHeader)
			return
		}
		for n := int64(1); ; n++ {
			rec, err := r.Next(context.Background())
			if err != nil {
				require.ErrorIs(t, err, io.EOF)
				return
			}
			require.Equal(t, n, rec.Line)
			require.True(t, json.Valid([]byte(rec.Raw)))
		}
	})
}

// A file that is damaged anywhere gives rows or an error, never a crash.
func FuzzParquet(f *testing.F) {
	name := "x"
	f.Add(parquetFile(f, []parquetRow{{ID: 1, Name: &name, Items: []lineItem{{"a", 1}}}, {ID: 2}, {ID: 3}}, 2))
	f.Add([]byte("PAR1PAR1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := source.NewParquet(bytes.NewReader(data), int64(len(data)), "f", 0, source.Wanted{All: true})
		for n := 0; err == nil && n < 1000; n++ {
			var rec, rerr = r.Next(context.Background())
			if err = rerr; err == nil {
				require.True(t, json.Valid([]byte(rec.Raw)), rec.Raw)
				require.Len(t, rec.Values, len(r.Columns()))
			}
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, source.ErrHeader) {
			require.ErrorIs(t, err, source.ErrDamaged)
		}
	})
}
