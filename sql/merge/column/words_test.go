package column_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/merge/column"
	"github.com/airlock-dag/airlock/sql/merge/row"
)

// A person who corrects a file learns what stands there and what should.
func TestFaultsTellWhatWasFound(t *testing.T) {
	t.Parallel()
	text := func(s string) row.Value { return row.Value{Kind: row.Text, Text: s} }
	for value, want := range map[string]string{
		"2026-11-31": `"2026-11-31" is a day that there is not`,
		"31.11.2026": `"31.11.2026" is not a date; the form is YYYY-MM-DD, or give the column a format`,
	} {
		_, f := col(t, "date").Convert(text(value))
		require.NotNil(t, f, value)
		require.Equal(t, want, f.Message)
	}
	_, f := col(t, "timestamp").Convert(text("noon"))
	require.NotNil(t, f)
	require.Equal(t, `"noon" is not a timestamp; the form is YYYY-MM-DDTHH:MM:SSZ, or give the column a format`, f.Message)

	columns := []*column.Column{}
	types := map[string]column.Type{}
	for name, typ := range map[string]string{"amount": "decimal(12,2)", "n": "int", "status": "varchar(8)"} {
		c := col(t, typ, func(c *column.Column) { c.Name = name })
		columns, types[name] = append(columns, c), c.Type
	}
	values := map[string]any{"amount": "-4.00", "n": int64(3), "status": "lost"}
	check, err := column.ParseCheck("amount >= 0 AND amount < n OR status = 'new'", columns)
	require.NoError(t, err)
	value := func(name string) (any, column.Type) { return values[name], types[name] }
	require.Equal(t, &row.Fault{
		Code: row.CheckFailed, Column: "amount",
		Message: `the row does not meet: amount >= 0 AND amount < n OR status = 'new' (amount is -4.00, n is 3, status is "lost")`,
	}, check.Failure("amount", value, nil))
}
