package source

import (
	"encoding/binary"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/airlock-dag/airlock/sql/merge/row"
)

// parquetText gives the values of a column as they are meant: by the column's
// logical type where it has one.
func parquetText(t parquet.Type) func(parquet.Value) row.Value {
	if l := t.LogicalType(); l != nil {
		switch l := l.Value.(type) {
		case *format.DecimalType:
			return func(v parquet.Value) row.Value { return number(decimalText(unscaled(v), int(l.Scale))) }
		case *format.DateType:
			return func(v parquet.Value) row.Value {
				return text(time.Unix(int64(v.Int32())*86400, 0).UTC().Format("2006-01-02"))
			}
		case *format.TimestampType:
			return timestampText(l)
		case *format.TimeType:
			return timeOfDay(l)
		case *format.IntType:
			if !l.IsSigned {
				return unsignedText(t.Kind())
			}
		case *format.JsonType:
			return func(v parquet.Value) row.Value { return row.Value{Kind: row.JSON, Text: string(v.ByteArray())} }
		case *format.StringType, *format.EnumType:
			return func(v parquet.Value) row.Value { return text(string(v.ByteArray())) }
		case *format.UUIDType:
			return uuidText
		}
	}
	switch t.Kind() {
	case parquet.Boolean:
		return func(v parquet.Value) row.Value {
			return row.Value{Kind: row.Bool, Text: strconv.FormatBool(v.Boolean())}
		}
	case parquet.Int32:
		return func(v parquet.Value) row.Value { return number(strconv.FormatInt(int64(v.Int32()), 10)) }
	case parquet.Int64:
		return func(v parquet.Value) row.Value { return number(strconv.FormatInt(v.Int64(), 10)) }
	case parquet.Int96:
		return int96Text
	case parquet.Float:
		return func(v parquet.Value) row.Value { return number(plainFloat(float64(v.Float()), 32)) }
	case parquet.Double:
		return func(v parquet.Value) row.Value { return number(plainFloat(v.Double(), 64)) }
	default:
		return func(v parquet.Value) row.Value { return row.Value{Kind: row.Bytes, Text: string(v.ByteArray())} }
	}
}

func text(s string) row.Value   { return row.Value{Kind: row.Text, Text: s} }
func number(s string) row.Value { return row.Value{Kind: row.Number, Text: s} }

// unscaled is the integer behind a decimal.
func unscaled(v parquet.Value) *big.Int {
	switch v.Kind() {
	case parquet.Int32:
		return big.NewInt(int64(v.Int32()))
	case parquet.Int64:
		return big.NewInt(v.Int64())
	}
	b := v.ByteArray()
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 { // two's complement
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return n
}

func decimalText(n *big.Int, scale int) string {
	s := new(big.Int).Abs(n).String()
	if scale > 0 {
		if len(s) <= scale {
			s = strings.Repeat("0", scale-len(s)+1) + s
		}
		s = s[:len(s)-scale] + "." + s[len(s)-scale:]
	}
	if n.Sign() < 0 {
		s = "-" + s
	}
	return s
}

func unsignedText(k parquet.Kind) func(parquet.Value) row.Value {
	if k == parquet.Int32 {
		return func(v parquet.Value) row.Value { return number(strconv.FormatUint(uint64(v.Uint32()), 10)) }
	}
	return func(v parquet.Value) row.Value { return number(strconv.FormatUint(v.Uint64(), 10)) }
}

// unit is the length of a count of time.
func unit(u format.TimeUnit) time.Duration {
	if u.Value == nil {
		return time.Microsecond
	}
	return u.Value.Duration()
}

// timestampText writes an instant with its zone, and a wall clock's time without.
func timestampText(l *format.TimestampType) func(parquet.Value) row.Value {
	layout := "2006-01-02T15:04:05.999999999"
	if l.IsAdjustedToUTC {
		layout += "Z"
	}
	perSecond := int64(time.Second / unit(l.Unit))
	return func(v parquet.Value) row.Value {
		n := v.Int64()
		seconds := n / perSecond
		rest := n % perSecond
		if rest < 0 {
			seconds, rest = seconds-1, rest+perSecond
		}
		return text(time.Unix(seconds, rest*int64(time.Second)/perSecond).UTC().Format(layout))
	}
}

func timeOfDay(l *format.TimeType) func(parquet.Value) row.Value {
	u := unit(l.Unit)
	return func(v parquet.Value) row.Value {
		n := v.Int64()
		if v.Kind() == parquet.Int32 {
			n = int64(v.Int32())
		}
		return text(time.Unix(0, 0).UTC().Add(time.Duration(n) * u).Format("15:04:05.999999999"))
	}
}

// int96Text is the old form of a timestamp: nanoseconds of a Julian day, UTC.
func int96Text(v parquet.Value) row.Value {
	i := v.Int96()
	nanos := int64(binary.LittleEndian.Uint64(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, i[0]), i[1])))
	const unixDay = 2440588
	return text(time.Unix((int64(i[2])-unixDay)*86400, nanos).UTC().Format("2006-01-02T15:04:05.999999999Z"))
}

func uuidText(v parquet.Value) row.Value {
	b := v.ByteArray()
	if len(b) != 16 {
		return row.Value{Kind: row.Bytes, Text: string(b)}
	}
	const hex = "0123456789abcdef"
	out := make([]byte, 0, 36)
	for i, c := range b {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			out = append(out, '-')
		}
		out = append(out, hex[c>>4], hex[c&15])
	}
	return text(string(out))
}

// plainFloat writes a float without an exponent where it is a whole number or
// has few decimals, so that a column of SQLite that holds 12.5 is a decimal.
func plainFloat(f float64, bits int) string {
	if a := math.Abs(f); (a < 1e21 && a > 1e-7) || f == 0 {
		return strconv.FormatFloat(f, 'f', -1, bits)
	}
	return strconv.FormatFloat(f, 'g', -1, bits)
}
