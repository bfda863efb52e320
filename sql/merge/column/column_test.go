package column_test

import (
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/merge/column"
	"github.com/airlock-dag/airlock/sql/merge/row"
)

func col(t *testing.T, typ string, change ...func(*column.Column)) *column.Column {
	t.Helper()
	ty, err := column.ParseType(typ)
	require.NoError(t, err)
	c := &column.Column{Name: "c", Type: ty}
	for _, f := range change {
		f(c)
	}
	return c
}

func zone(name string) func(*column.Column) {
	return func(c *column.Column) {
		z, err := time.LoadLocation(name)
		if err != nil {
			panic(err)
		}
		c.Zone = z
	}
}

func format(text string) func(*column.Column) {
	return func(c *column.Column) {
		f, err := column.ParseFormat(text)
		if err != nil {
			panic(err)
		}
		c.Format = f
	}
}

func TestConvertKeepsOrRefuses(t *testing.T) {
	t.Parallel()
	text := func(s string) row.Value { return row.Value{Kind: row.Text, Text: s} }
	num := func(s string) row.Value { return row.Value{Kind: row.Number, Text: s} }
	for _, c := range []struct {
		col  *column.Column
		in   row.Value
		want any
		code row.Code
	}{
		{col(t, "bigint"), text("9007199254740993"), int64(9007199254740993), ""},
		{col(t, "bigint"), num("9007199254740993"), int64(9007199254740993), ""},
		{col(t, "bigint"), text("9223372036854775807"), int64(9223372036854775807), ""},
		{col(t, "bigint"), text("-9223372036854775808"), int64(-9223372036854775808), ""},
		{col(t, "bigint"), text("9223372036854775808"), nil, row.OutOfRange},
		{col(t, "bigint"), text("-9223372036854775809"), nil, row.OutOfRange},
		{col(t, "bigint unsigned"), text("18446744073709551615"), "18446744073709551615", ""},
		{col(t, "bigint unsigned"), text("-1"), nil, row.OutOfRange},
		{col(t, "smallint"), text("32767"), int64(32767), ""},
		{col(t, "smallint"), text("32768"), nil, row.OutOfRange},
		{col(t, "smallint"), text("-32769"), nil, row.OutOfRange},
		{col(t, "int"), text("007"), int64(7), ""},
		{col(t, "int"), text("1e3"), nil, row.NotAnInteger},
		{col(t, "int"), text("1,000"), nil, row.NotAnInteger},
		{col(t, "int"), text("12abc"), nil, row.NotAnInteger},
		{col(t, "int"), text("+5"), nil, row.NotAnInteger},
		{col(t, "int"), text(" 5"), nil, row.NotAnInteger},
		{col(t, "int", func(c *column.Column) { c.Trim = true }), text(" 5 "), int64(5), ""},
		{col(t, "int"), text("5.0"), nil, row.NotAnInteger},
		{col(t, "int"), num("1.5"), nil, row.NotAnInteger},
		{col(t, "int"), text(""), nil, row.NotAnInteger},
		{col(t, "int"), text("-"), nil, row.NotAnInteger},
		{col(t, "int"), row.Value{Kind: row.Bool, Text: "true"}, nil, row.WrongType},
		{col(t, "decimal(12,2)"), text("12.5"), "12.50", ""},
		{col(t, "decimal(12,2)"), text("-0.01"), "-0.01", ""},
		{col(t, "decimal(12,2)"), text("-0.00"), "0.00", ""},
		{col(t, "decimal(12,2)"), text("0001.500"), "1.50", ""},
		{col(t, "decimal(12,2)"), text("1.005"), nil, row.TooManyDecimals},
		{col(t, "decimal(12,2)"), text("9999999999.99"), "9999999999.99", ""},
		{col(t, "decimal(12,2)"), text("10000000000.00"), nil, row.OutOfRange},
		{col(t, "decimal(12,2)"), text("1e3"), nil, row.NotADecimal},
		{col(t, "decimal(12,2)"), text(".5"), nil, row.NotADecimal},
		{col(t, "decimal(12,2)"), text("5."), nil, row.NotADecimal},
		{col(t, "double"), text("1e3"), 1000.0, ""},
		{col(t, "double"), text("1e999"), nil, row.OutOfRange},
		{col(t, "double"), text("NaN"), nil, row.NotANumber},
		{col(t, "double"), text("Infinity"), nil, row.NotANumber},
		{col(t, "double"), text("0x10"), nil, row.NotANumber},
		{col(t, "varchar(3)"), text("EUR"), "EUR", ""},
		{col(t, "varchar(3)"), text("EURO"), nil, row.TooLong},
		{col(t, "varchar(3)"), text("äöü"), "äöü", ""},
		{col(t, "text"), text("  Quartz  "), "  Quartz  ", ""},
		{col(t, "text"), text("Gr\x00ove"), nil, row.NulCharacter},
		{col(t, "text"), num("1.0"), nil, row.WrongType},
		{col(t, "date"), text("2026-02-28"), "2026-02-28", ""},
		{col(t, "date"), text("2026-02-30"), nil, row.BadDate},
		{col(t, "date"), text("03/04/2026"), nil, row.BadDate},
		{col(t, "date", format("02.01.2006")), text("28.02.2026"), "2026-02-28", ""},
		{col(t, "timestamp"), text("2026-03-01T08:00:00Z"), "2026-03-01 08:00:00.000000", ""},
		{col(t, "timestamp"), text("2026-03-01T08:00:00.25+02:00"), "2026-03-01 06:00:00.250000", ""},
		{col(t, "timestamp"), text("2026-03-01T08:00:00"), nil, row.NoTimeZone},
		{col(t, "timestamp", zone("UTC")), text("2026-03-01 08:00:00"), "2026-03-01 08:00:00.000000", ""},
		{col(t, "timestamp", zone("Europe/Berlin")), text("2026-03-01 08:00:00"), "2026-03-01 07:00:00.000000", ""},
		{col(t, "timestamp", zone("Europe/Berlin")), text("2026-03-29 02:30:00"), nil, row.BadTimestamp},
		{col(t, "timestamp", zone("Europe/Berlin")), text("2026-10-25 02:30:00"), nil, row.AmbiguousTime},
		{col(t, "timestamp", zone("Europe/Berlin")), text("2026-10-25 03:00:00"), "2026-10-25 02:00:00.000000", ""},
		{col(t, "timestamp", zone("Europe/Berlin")), row.Value{Kind: row.Time, Text: "2026-07-01 12:00:00"}, "2026-07-01 10:00:00.000000", ""},
		{col(t, "timestamp"), text("2026-02-30T08:11:00Z"), nil, row.BadTimestamp},
		{col(t, "timestamp"), text("03/04/2026"), nil, row.BadTimestamp},
		{col(t, "timestamp"), text("2026-03-01T08:00:00.1234567Z"), nil, row.TooManyDecimals},
		{col(t, "timestamp(0)"), text("2026-03-01T08:00:00.5Z"), nil, row.TooManyDecimals},
		{col(t, "timestamp", zone("UTC"), format("02.01.2006 15:04")), text("01.03.2026 08:00"), "2026-03-01 08:00:00.000000", ""},
		{col(t, "boolean"), row.Value{Kind: row.Bool, Text: "true"}, int64(1), ""},
		{col(t, "boolean"), text("No"), int64(0), ""},
		{col(t, "boolean"), text("2"), nil, row.NotABoolean},
		{col(t, "json"), row.Value{Kind: row.JSON, Text: `{"k":1}`}, `{"k":1}`, ""},
		{col(t, "json"), text(`{`), nil, row.BadJSON},
		{col(t, "int", func(c *column.Column) { c.Required = true }), row.Value{Kind: row.Null}, nil, row.RequiredMissing},
		{col(t, "int"), row.Value{}, nil, ""},
		{col(t, "int", func(c *column.Column) { c.Default = &row.Value{Kind: row.Number, Text: "7"} }), row.Value{}, int64(7), ""},
		{col(t, "text", func(c *column.Column) { c.Values = []string{"new", "paid"} }), text("lost"), nil, row.NotInValues},
	} {
		got, f := c.col.Convert(c.in)
		if c.code != "" {
			require.NotNil(t, f, "%s %q gave %v", c.col.Type, c.in.Text, got)
			require.Equal(t, c.code, f.Code, "%s %q: %s", c.col.Type, c.in.Text, f.Message)
			require.Equal(t, "c", f.Column)
			continue
		}
		require.Nil(t, f, "%s %q: %+v", c.col.Type, c.in.Text, f)
		require.Equal(t, c.want, got, "%s %q", c.col.Type, c.in.Text)
	}
}

func TestTargetTypeIsASecondLimit(t *testing.T) {
	t.Parallel()
	fit := func(s string) func(*column.Column) {
		return func(c *column.Column) {
			ty, err := column.ParseType(s)
			require.NoError(t, err)
			c.Fit = &ty
		}
	}
	text := func(s string) row.Value { return row.Value{Kind: row.Text, Text: s} }
	for _, c := range []struct {
		col  *column.Column
		in   string
		code row.Code
	}{
		{col(t, "bigint", fit("smallint")), "40000", row.OutOfRange},
		{col(t, "bigint", fit("decimal(5,2)")), "1000", row.OutOfRange},
		{col(t, "bigint", fit("double")), "9007199254740993", row.PrecisionLost},
		{col(t, "decimal(12,4)", fit("decimal(12,2)")), "1.2345", row.TooManyDecimals},
		{col(t, "text", fit("varchar(2)")), "abc", row.TooLong},
		{col(t, "timestamp", fit("datetime(0)")), "2026-01-01T00:00:00.5Z", row.TooManyDecimals},
	} {
		_, f := c.col.Convert(text(c.in))
		require.NotNil(t, f, c.in)
		require.Equal(t, c.code, f.Code, f.Message)
	}
}

func TestParseType(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"INT": "int", "integer": "int", "int(11)": "int", "BIGINT UNSIGNED": "bigint unsigned", "bigint(20) unsigned": "bigint unsigned",
		"decimal(12, 2)": "decimal(12,2)", "NUMERIC": "decimal(10,0)", "varchar(80)": "varchar(80)", "TEXT": "text",
		"datetime(3)": "timestamp(3)", "timestamp": "timestamp", "bool": "boolean", "jsonb": "json", "double precision": "double",
	} {
		got, err := column.ParseType(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got.String(), in)
		again, err := column.ParseType(got.String())
		require.NoError(t, err)
		require.Equal(t, got, again, in)
	}
	for _, in := range []string{"", "varchr(3)", "decimal(0)", "decimal(4,5)", "decimal(70,1)", "timestamp(9)", "varchar(0)", "int(", "(3)"} {
		_, err := column.ParseType(in)
		require.Error(t, err, in)
	}
}

func TestCheckReadsSQLAndComparesExactly(t *testing.T) {
	t.Parallel()
	named := func(name, typ string) *column.Column { c := col(t, typ); c.Name = name; return c }
	cols := []*column.Column{
		named("amount", "decimal(30,2)"), named("fee", "decimal(30,2)"), named("n", "bigint"), named("status", "text"), named("day", "date"), named("ok", "boolean"),
	}
	types := map[string]column.Type{}
	for _, c := range cols {
		types[c.Name] = c.Type
	}
	for _, c := range []struct {
		check string
		row   map[string]any
		want  bool
	}{
		{"amount >= 0", map[string]any{"amount": "-0.01"}, false},
		{"amount >= 0", map[string]any{"amount": "0.00"}, true},
		{"amount >= 0", map[string]any{"amount": nil}, true},
		{"amount >= fee", map[string]any{"amount": "9007199254740993.01", "fee": "9007199254740993.02"}, false},
		{"amount < 9007199254740993", map[string]any{"amount": "9007199254740992.99"}, true},
		{"amount <> 0.1", map[string]any{"amount": "0.10"}, false},
		{"amount + fee <= 10", map[string]any{"amount": "9.99", "fee": "0.01"}, true},
		{"n > 0 AND n <= 10", map[string]any{"n": int64(11)}, false},
		{"n = 3 OR n = 4", map[string]any{"n": int64(4)}, true},
		{"status IN ('new', 'paid')", map[string]any{"status": "paid"}, true},
		{"NOT (status in ('new', 'paid'))", map[string]any{"status": "paid"}, false},
		{"status = 'a=b'", map[string]any{"status": "a=b"}, true},
		{"day >= '2026-01-01'", map[string]any{"day": "2025-12-31"}, false},
		{"ok = TRUE", map[string]any{"ok": int64(1)}, true},
	} {
		k, err := column.ParseCheck(c.check, cols)
		require.NoError(t, err, c.check)
		got, err := k.Passes(func(n string) (any, column.Type) { return c.row[n], types[n] })
		require.NoError(t, err, c.check)
		require.Equal(t, c.want, got, "%s with %v", c.check, c.row)
	}
	for _, bad := range []string{"amont >= 0", "amount >=", "amount", "n > 'x'", "status matches"} {
		_, err := column.ParseCheck(bad, cols)
		require.Error(t, err, bad)
	}
}
