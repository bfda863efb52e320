package column_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/merge/column"
	"github.com/airlock-dag/airlock/sql/merge/row"
)

func TestExpressions(t *testing.T) {
	t.Parallel()
	var columns []*column.Column
	values := map[string]any{"price": "0.10", "n": int64(3), "name": "Zoë", "ratio": 0.5, "ok": int64(1), "gone": nil, "zero": int64(0)}
	for name, typ := range map[string]string{"price": "decimal(8,2)", "n": "int", "name": "text", "ratio": "double", "ok": "boolean", "gone": "int", "zero": "int"} {
		ty, err := column.ParseType(typ)
		require.NoError(t, err)
		columns = append(columns, &column.Column{Name: name, Type: ty})
	}
	value := func(name string) (any, column.Type) {
		for _, c := range columns {
			if c.Name == name {
				return values[name], c.Type
			}
		}
		return map[string]any{"source_file": "in/o.csv", "source_line": int64(7)}[name], column.Type{Kind: column.Text}
	}
	for text, want := range map[string]row.Value{
		"price * 3":                    {Kind: row.Number, Text: "0.3"}, // and not 0.30000000000000004
		"price * n + 1":                {Kind: row.Number, Text: "1.3"},
		"n / 4":                        {Kind: row.Number, Text: "0.75"},
		"round(price / 3, 4)":          {Kind: row.Number, Text: "0.0333"},
		"round(n / 8, 2)":              {Kind: row.Number, Text: "0.38"}, // 0.375, half away from zero
		"name + '!'":                   {Kind: row.Text, Text: "Zoë!"},
		"upper(name)":                  {Kind: row.Text, Text: "ZOË"},
		"n > 2 AND ok":                 {Kind: row.Bool, Text: "true"},
		"name = 'Zoë' ? 'yes' : 'no'":  {Kind: row.Text, Text: "yes"},
		"gone + 1":                     {Kind: row.Null},
		"source_file":                  {Kind: row.Text, Text: "in/o.csv"},
		"ratio * 2":                    {Kind: row.Number, Text: "1"},
		"name in ('a', 'Zoë') ? n : 0": {Kind: row.Number, Text: "3"},
	} {
		e, err := column.ParseExpression(text, columns)
		require.NoError(t, err, text)
		got, f := e.Value("c", value)
		require.Nil(t, f, "%s: %+v", text, f)
		require.Equal(t, want, got, text)
	}
	for text, word := range map[string]string{"price / 3": "round", "n / zero": "division by zero", "[n]": "no column takes"} {
		e, err := column.ParseExpression(text, columns)
		require.NoError(t, err, text)
		_, f := e.Value("c", value)
		require.NotNil(t, f, text)
		require.Equal(t, row.NotComputable, f.Code)
		require.Contains(t, f.Message, word)
	}
	for text, word := range map[string]string{"prise * 2": "prise", "price *": "expression", "price + name": "expression"} {
		_, err := column.ParseExpression(text, columns)
		require.ErrorContains(t, err, word, text)
	}
}
