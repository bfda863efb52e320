package merge_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/merge"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

const plainStep = "{source: {file: c.csv}, target: c, key: [id], columns: {id: {type: int}, v: {type: int}}}"

func TestTriggerRefusesRows(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE c (id INT PRIMARY KEY, v INT)")
		if b.db.IsSQLite() {
			b.exec("CREATE TRIGGER g BEFORE INSERT ON c WHEN NEW.v = 13 BEGIN SELECT RAISE(ABORT, 'not 13'); END")
		} else {
			b.exec("CREATE TRIGGER g BEFORE INSERT ON c FOR EACH ROW BEGIN IF NEW.v = 13 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not 13'; END IF; END")
		}
		b.file("c.csv", "id,v\n1,1\n2,13\n3,3\n")
		d := b.run(b.spec(plainStep))
		require.Equal(t, int64(2), d.RowsInserted)
		require.Equal(t, map[string]string{"3": "REJECTED_BY_DATABASE"}, b.letters())
		require.Contains(t, b.table("SELECT error_message FROM airlock_dead_letter_row")[0], "not 13")
	})
}

func TestTriggerThatIgnoresRowsInSilence(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqltest.SQLite(t))
	b.exec("CREATE TABLE c (id INT PRIMARY KEY, v INT)", "CREATE TRIGGER g BEFORE INSERT ON c WHEN NEW.v = 13 BEGIN SELECT RAISE(IGNORE); END")
	b.file("c.csv", "id,v\n1,1\n2,13\n")
	b.fail(b.spec(plainStep), "MERGE_ROWS_IGNORED")
	require.Equal(t, []string{"0"}, b.table("SELECT COUNT(*) FROM c"))
}

func TestChildBeforeItsParent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE node (id INT PRIMARY KEY, parent INT, FOREIGN KEY (parent) REFERENCES node (id))")
		b.file("n.csv", "id,parent\n3,2\n2,1\n9,8\n1,\n")
		step := b.spec("{source: {file: n.csv}, target: node, key: [id], columns: {id: {type: int}, parent: {type: int}}}")
		d := b.run(step)
		require.Equal(t, int64(3), d.RowsInserted)
		require.Equal(t, map[string]string{"4": "FOREIGN_KEY"}, b.letters())
		d = b.run(step)
		require.Equal(t, int64(3), d.RowsUnchanged)
	})
}

func TestLettersThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE c (id INT PRIMARY KEY, v INT)")
		require.NoError(t, merge.EnsureTables(t.Context(), b.db))
		if b.db.IsSQLite() {
			b.exec("CREATE TRIGGER g BEFORE INSERT ON airlock_dead_letter_row BEGIN SELECT RAISE(ABORT, 'full'); END")
		} else {
			b.exec("CREATE TRIGGER g BEFORE INSERT ON airlock_dead_letter_row FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'full'")
		}
		b.file("c.csv", "id,v\n1,1\n2,x\n")
		te := b.fail(b.spec(plainStep), "MERGE_LETTERS_REFUSED")
		require.Equal(t, dag.ClassTransient, te.Class)
		require.Equal(t, []string{"0"}, b.table("SELECT COUNT(*) FROM c"), "the good rows did not move")
		b.exec("DROP TRIGGER g")
		b.run(b.spec(plainStep))
		require.Equal(t, map[string]string{"3": "NOT_AN_INTEGER|v"}, b.letters())
	})
}

func TestCharacterThatTheColumnLacks(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		b := newBench(t, dsn)
		b.exec("CREATE TABLE l (id INT PRIMARY KEY, a VARCHAR(20) CHARACTER SET latin1, e ENUM('x','y'), at TIMESTAMP NULL)")
		b.file("l.csv", "id,a,e,at\n1,été,x,2026-01-01T00:00:00Z\n2,🚚,y,2026-01-01T00:00:00Z\n3,ok,z,2026-01-01T00:00:00Z\n4,ok,x,1960-01-01T00:00:00Z\n5,ok,y,2026-01-01T00:00:00Z\n")
		step := b.spec("{source: {file: l.csv}, target: l, key: [id], columns: {id: {type: int}, a: {type: varchar(20)}, e: {type: text}, at: {type: timestamp}}}")
		d := b.run(step)
		require.Equal(t, int64(2), d.RowsInserted)
		require.Equal(t, map[string]string{"3": "REJECTED_BY_DATABASE|a", "4": "REJECTED_BY_DATABASE|e", "5": "REJECTED_BY_DATABASE|at"}, b.letters())
		d = b.run(step)
		require.Equal(t, int64(2), d.RowsUnchanged)
	})
}

func TestCheckFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		v, err := merge.Check(t.Context(), b.db)
		require.NoError(t, err)
		require.Empty(t, v, "a database without the tables")
		b.file("orders.csv", poison(t, "orders_poison.csv"))
		b.run(b.spec(ordersStep))
		b.exec("DELETE FROM airlock_dead_letter_row WHERE source_line = 6", "UPDATE airlock_watermark SET value = '2026-01-01 00:00:00.000000'",
			"UPDATE airlock_effect SET rows_merged = 5, rows_unchanged = 1")
		v, err = merge.Check(t.Context(), b.db)
		require.NoError(t, err)
		var rules []string
		for _, x := range v {
			rules = append(rules, x.Rule)
		}
		require.Equal(t, []string{merge.RuleResult, merge.RuleLetters, merge.RuleWatermark}, rules)
	})
}
