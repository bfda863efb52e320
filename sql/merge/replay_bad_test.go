package merge_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReplayOfManyBadRows decides bad letters among good ones: each keeps the
// reason of its own row, also of rows that only the table refuses.
func TestReplayOfManyBadRows(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE r (id INT PRIMARY KEY, v INT CHECK (v < 100))")
		spec := b.spec("{source: {file: r.csv}, target: r, key: [id], bad_rows: {max_ratio: 1}, columns: {id: {type: int}, v: {type: int}}}")
		b.file("r.csv", "id,v\n1,x\n2,y\n3,200\n4,z\n5\n6,300\n,7\n")
		require.Equal(t, int64(7), b.run(spec).RowsQuarantined)
		b.edit(3, "2,5")
		b.edit(7, "6,60")
		require.Equal(t, map[int64]string{2: "rejected", 3: "replayed", 4: "rejected", 5: "rejected", 6: "rejected", 7: "replayed", 8: "rejected"}, decisions(b.replay(spec)))
		require.Equal(t, []string{"2|5", "6|60"}, b.table("SELECT id, v FROM r ORDER BY id"))
		require.Equal(t, map[string]string{"2": "NOT_AN_INTEGER|v", "3": "NOT_AN_INTEGER|v", "4": "CHECK_CONSTRAINT", "5": "NOT_AN_INTEGER|v", "6": "TOO_FEW_FIELDS", "7": "CHECK_CONSTRAINT", "8": "NULL_IN_KEY|id"}, b.letters())
		require.Equal(t, []string{"2|1", "4|1", "5|1", "6|1", "8|1"}, b.table("SELECT source_line, return_count FROM airlock_dead_letter_row WHERE status = 'quarantined' ORDER BY source_line"))
		require.Equal(t, []string{"2", "5"}, b.table("SELECT source_line FROM airlock_dead_letter_row WHERE error_message LIKE '%\"x\"%' OR error_message LIKE '%\"z\"%' ORDER BY source_line"))
	})
}
