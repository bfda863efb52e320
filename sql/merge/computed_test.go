package merge_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/merge"
)

func TestComputedColumns(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.file("a-1.csv", "sku,price,n\nx,0.10,3\ny,9999999.99,3\nz,,1\n")
		b.file("a-2.csv", "sku,price,n\nw,1.25,0\n")
		spec := b.spec(`
source: {file: "a-*.csv"}
target: t
create_target: true
key: [id]
bad_rows: {max_ratio: 1}
columns:
  id: {type: varchar(20), expression: "upper(sku) + '-1'"}
  sku: {type: varchar(9)}
  price: {type: "decimal(9,2)"}
  n: {type: int}
  total: {type: "decimal(9,2)", expression: "price * n", check: "total < 1000"}
  each: {type: "decimal(14,4)", expression: "round(price / (n + 1), 4)"}
  inverse: {type: "decimal(9,4)", expression: "round(10 / n, 1)"}
  file: {type: varchar(50), expression: source_file}
  line: {type: int, expression: source_line}
`)
		d := b.run(spec)
		require.Equal(t, int64(2), d.RowsQuarantined)
		require.Equal(t, map[string]string{"3": "OUT_OF_RANGE|total", "2": "NOT_COMPUTABLE|inverse"}, b.letters())
		require.Equal(t, []string{"X-1|x|a-1.csv|2", "Z-1|z|a-1.csv|4"}, b.table("SELECT id, sku, file, line FROM t ORDER BY id"))
		require.Equal(t, []string{"1|1|1", "0|0|1"}, b.table("SELECT total = 0.3, `each` = 0.025, inverse IN (3.3, 10) FROM t WHERE id = 'X-1' UNION ALL SELECT total IS NOT NULL, `each` IS NOT NULL, inverse IN (3.3, 10) FROM t WHERE id = 'Z-1'"))
		b.edit(2, "w,1.25,2")
		require.Equal(t, "replayed", decisions(b.replay(spec))[2])
		require.Equal(t, []string{"W-1|2|a-2.csv|2"}, b.table("SELECT id, n, file, line FROM t WHERE id = 'W-1'"))
	})
	for text, word := range map[string]string{
		"{a: {type: int}, b: {type: int, expression: c + 1}, c: {type: int, expression: a}}": `no column "c"`,
		"{a: {type: int}, b: {type: int, expression: a + 1, from: x}}":                       "no from",
	} {
		m := yamlMap(t, "{source: {file: x.csv}, target: t, key: [a], columns: "+text+"}")
		_, problems := merge.ParseSpec(m)
		require.Len(t, problems, 1)
		require.Contains(t, problems[0].Message, word)
	}
}
