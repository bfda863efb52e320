package column

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Kind is the family of a column type.
type Kind uint8

// Kinds of column types.
const (
	Integer Kind = iota + 1
	Decimal
	Double
	Text
	Date
	Timestamp
	Boolean
	JSON
	Blob
)

// Type is a column type with its limits.
type Type struct {
	Kind Kind
	// Bits is the size of an Integer: 8, 16, 24, 32 or 64.
	Bits     int
	Unsigned bool
	// Precision and Scale of a Decimal: all digits, and those after the point.
	// For a Timestamp Scale is the number of digits of the second's fraction.
	Precision, Scale int
	// Length is the greatest number of characters of a Text, 0 for no limit.
	Length int
	// Single marks a Double of four bytes.
	Single bool
	// Fixed marks a Text of fixed length (char).
	Fixed bool
}

var typeText = regexp.MustCompile(`^\s*([a-z0-9_ ]+?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*(unsigned)?(?:\s+zerofill)?\s*$`)

// Types lists the names of types for messages.
const Types = "smallint, int, bigint, decimal(p,s), double, varchar(n), text, date, timestamp, boolean, json, blob"

// ParseType reads a type as SQL writes it: "decimal(12,2)", "varchar(80)".
func ParseType(text string) (Type, error) {
	m := typeText.FindStringSubmatch(strings.ToLower(text))
	if m == nil {
		return Type{}, fmt.Errorf("type %q is not known; there are %s", text, Types)
	}
	name, unsigned := strings.TrimSpace(m[1]), m[4] != ""
	if rest, ok := strings.CutSuffix(name, " unsigned"); ok {
		name, unsigned = rest, true
	}
	a, b := -1, -1
	if m[2] != "" {
		a, _ = strconv.Atoi(m[2])
	}
	if m[3] != "" {
		b, _ = strconv.Atoi(m[3])
	}
	t, ok := baseType(name)
	if !ok {
		return Type{}, fmt.Errorf("type %q is not known; there are %s", text, Types)
	}
	t.Unsigned = unsigned
	return t.limited(name, a, b)
}

func baseType(name string) (Type, bool) {
	switch name {
	case "tinyint", "int1":
		return Type{Kind: Integer, Bits: 8}, true
	case "smallint", "int2":
		return Type{Kind: Integer, Bits: 16}, true
	case "mediumint", "int3", "year":
		return Type{Kind: Integer, Bits: 24}, true
	case "int", "integer", "int4":
		return Type{Kind: Integer, Bits: 32}, true
	case "bigint", "int8", "long":
		return Type{Kind: Integer, Bits: 64}, true
	case "decimal", "numeric", "dec", "fixed", "decimal_text":
		return Type{Kind: Decimal, Precision: 10}, true
	case "double", "double precision":
		return Type{Kind: Double}, true
	case "float", "real", "float8":
		return Type{Kind: Double}, true
	case "float4":
		return Type{Kind: Double, Single: true}, true
	case "char", "character", "nchar":
		return Type{Kind: Text, Length: 1, Fixed: true}, true
	case "varchar", "character varying", "nvarchar", "string", "text", "tinytext", "mediumtext", "longtext", "clob", "enum", "set", "uuid":
		return Type{Kind: Text}, true
	case "date":
		return Type{Kind: Date}, true
	case "timestamp", "datetime", "timestamptz", "timestamp with time zone", "timestamp without time zone":
		return Type{Kind: Timestamp, Scale: 6}, true
	case "boolean", "bool":
		return Type{Kind: Boolean}, true
	case "json", "jsonb":
		return Type{Kind: JSON}, true
	case "blob", "tinyblob", "mediumblob", "longblob", "binary", "varbinary", "bytea":
		return Type{Kind: Blob}, true
	}
	return Type{}, false
}

// limited applies the numbers in parentheses.
func (t Type) limited(name string, a, b int) (Type, error) {
	switch t.Kind {
	case Decimal:
		if a >= 0 {
			t.Precision, t.Scale = a, max(b, 0)
		}
		if t.Precision < 1 || t.Precision > 65 || t.Scale > 30 || t.Scale > t.Precision {
			return Type{}, fmt.Errorf("decimal(%d,%d): the precision goes from 1 to 65, the scale from 0 to 30 and not beyond the precision", t.Precision, t.Scale)
		}
	case Text:
		if a > 0 {
			t.Length = a
		}
		if (name == "varchar" || name == "nvarchar") && a == 0 {
			return Type{}, fmt.Errorf("varchar(0) holds nothing; give a length of 1 or more")
		}
	case Timestamp:
		if a >= 0 {
			if a > 6 {
				return Type{}, fmt.Errorf("timestamp(%d): there are at most 6 digits after the second", a)
			}
			t.Scale = a
		}
	}
	return t, nil
}

// String writes the type as ParseType reads it.
func (t Type) String() string {
	switch t.Kind {
	case Integer:
		name := map[int]string{8: "tinyint", 16: "smallint", 24: "mediumint", 32: "int", 64: "bigint"}[t.Bits]
		if t.Unsigned {
			name += " unsigned"
		}
		return name
	case Decimal:
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	case Double:
		if t.Single {
			return "float4"
		}
		return "double"
	case Text:
		switch {
		case t.Fixed:
			return fmt.Sprintf("char(%d)", t.Length)
		case t.Length > 0:
			return fmt.Sprintf("varchar(%d)", t.Length)
		}
		return "text"
	case Date:
		return "date"
	case Timestamp:
		if t.Scale != 6 {
			return fmt.Sprintf("timestamp(%d)", t.Scale)
		}
		return "timestamp"
	case Boolean:
		return "boolean"
	case JSON:
		return "json"
	case Blob:
		return "blob"
	default:
		return "any"
	}
}

// IntegerRange gives the least and greatest value of an Integer type; hi is
// unsigned so that it holds every type.
func (t Type) IntegerRange() (lo int64, hi uint64) {
	if t.Unsigned {
		return 0, ^uint64(0) >> (64 - t.Bits)
	}
	return -1 << (t.Bits - 1), 1<<(t.Bits-1) - 1
}
