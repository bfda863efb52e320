package merge_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v4"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

func TestMain(m *testing.M) {
	// Each check of a property is dozens of batches on a real database; more on
	// the command line, with -rapid.checks.
	if err := flag.Set("rapid.checks", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// bench is one target database and the folder of the files.
type bench struct {
	t     testing.TB
	db    *dialect.DB
	raw   *sql.DB
	dsn   string
	dir   string
	runs  int
	lines []string
}

func newBench(t testing.TB, dsn string) *bench {
	t.Helper()
	return &bench{t: t, db: sqltest.Open(t, dsn), raw: sqltest.Raw(t, dsn), dsn: dsn, dir: t.TempDir()}
}

func each(t *testing.T, fn func(t *testing.T, b *bench)) {
	t.Helper()
	sqltest.Each(t, func(t *testing.T, _, dsn string) { fn(t, newBench(t, dsn)) })
}

func (b *bench) exec(statements ...string) {
	b.t.Helper()
	for _, s := range statements {
		_, err := b.raw.Exec(s)
		require.NoError(b.t, err, s)
	}
}

func (b *bench) file(name, text string) {
	b.t.Helper()
	require.NoError(b.t, os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600))
}

func yamlMap(t testing.TB, text string) map[string]any {
	t.Helper()
	var m map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(text), &m))
	return m
}

func (b *bench) spec(text string) *merge.Spec {
	b.t.Helper()
	s, problems := merge.ParseSpec(yamlMap(b.t, text))
	require.Empty(b.t, problems, "%v", problems)
	return s
}

func (b *bench) job(spec *merge.Spec) *merge.Job {
	b.runs++
	j := &merge.Job{
		Spec: spec, Fence: 1, Owner: dag.TaskInstanceKey{DagID: "shop", RunID: fmt.Sprintf("r%d", b.runs), TaskID: "load", MapIndex: -1},
		Logf: func(f string, args ...any) { b.lines = append(b.lines, fmt.Sprintf(f, args...)) },
	}
	j.Key = j.Owner.String()
	if spec.Source.Query != "" {
		j.Source = &merge.QuerySource{DB: b.db, Spec: spec.Source}
	} else {
		j.Source = &merge.FileSource{Spec: spec.Source, Dir: b.dir}
	}
	return j
}

func (b *bench) engine() *merge.Engine {
	return &merge.Engine{DB: b.db, Clock: dag.SystemClock{}, Rand: dag.SystemRand{}}
}

func (b *bench) run(spec *merge.Spec) *merge.Detail {
	b.t.Helper()
	d, err := b.engine().Run(context.Background(), b.job(spec))
	require.NoError(b.t, err)
	b.accounts(d)
	return d
}

func (b *bench) accounts(d *merge.Detail) {
	b.t.Helper()
	require.Equal(b.t, d.RowsRead, d.RowsMerged+d.RowsUnchanged+d.RowsQuarantined+d.RowsSuperseded, "%+v", d)
	require.Equal(b.t, d.RowsMerged, d.RowsInserted+d.RowsUpdated+d.RowsDeleted)
	v, err := merge.Check(context.Background(), b.db)
	require.NoError(b.t, err)
	require.Empty(b.t, v)
}

// fail runs a step that must fail with a code.
func (b *bench) fail(spec *merge.Spec, code string) *dag.TaskError {
	b.t.Helper()
	_, err := b.engine().Run(context.Background(), b.job(spec))
	require.Error(b.t, err)
	var te *dag.TaskError
	require.ErrorAs(b.t, err, &te, "%v", err)
	require.Equal(b.t, code, te.Code, "%v", te)
	return te
}

// table gives the rows of a query as texts.
func (b *bench) table(query string) []string {
	b.t.Helper()
	rows, err := b.raw.Query(query)
	require.NoError(b.t, err, query)
	defer func() { require.NoError(b.t, rows.Close()) }()
	cols, err := rows.Columns()
	require.NoError(b.t, err)
	var out []string
	for rows.Next() {
		cells := make([]any, len(cols))
		dest := make([]any, len(cols))
		for i := range cells {
			dest[i] = &cells[i]
		}
		require.NoError(b.t, rows.Scan(dest...))
		parts := make([]string, len(cols))
		for i, c := range cells {
			switch x := c.(type) {
			case nil:
				parts[i] = "null"
			case []byte:
				parts[i] = string(x)
			case time.Time:
				parts[i] = x.UTC().Format("2006-01-02T15:04:05.999999")
			default:
				parts[i] = fmt.Sprint(x)
			}
		}
		out = append(out, strings.Join(parts, "|"))
	}
	require.NoError(b.t, rows.Err())
	return out
}

func (b *bench) letters() map[string]string {
	b.t.Helper()
	out := map[string]string{}
	for _, line := range b.table("SELECT source_line, error_code, COALESCE(column_name, '') FROM airlock_dead_letter_row ORDER BY id") {
		parts := strings.SplitN(line, "|", 2)
		out[parts[0]] = strings.TrimSuffix(parts[1], "|")
	}
	return out
}

func poison(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return string(data)
}

const ordersStep = `
source: {file: "orders*.csv"}
target: orders
create_target: true
key: [order_id]
version: updated_at
columns:
  order_id:     {type: bigint, required: true}
  customer:     {type: varchar(80), required: true}
  amount_cents: {type: bigint}
  currency:     {type: varchar(3)}
  updated_at:   {type: timestamp, required: true}
watermark: {column: updated_at, name: orders}
`

func TestEachKindOfBadRow(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.file("orders.csv", poison(t, "orders_poison.csv"))
		d := b.run(b.spec(ordersStep))
		require.Equal(t, int64(19), d.RowsRead)
		require.Equal(t, int64(6), d.RowsMerged)
		require.Equal(t, int64(12), d.RowsQuarantined)
		require.Equal(t, int64(1), d.RowsSuperseded)
		require.Equal(t, []string{
			"1001|Ada Quill|1300|EUR", "1002|Bolt & Sons\nrear entrance|900|EUR", `1003|Cafe "Drei"|4300|EUR`, "1014|Nova 🚚|620|EUR",
			"1016|  Quartz  |0|EUR", "1017|Reed|9007199254740993|EUR",
		}, b.table("SELECT order_id, customer, amount_cents, currency FROM orders ORDER BY order_id"))
		require.Equal(t, map[string]string{
			"6": "TOO_FEW_FIELDS", "7": "TOO_MANY_FIELDS", "8": "INVALID_UTF8|customer", "9": "NUL_CHARACTER|customer", "10": "OUT_OF_RANGE|amount_cents",
			"11": "NOT_AN_INTEGER|amount_cents", "12": "NOT_AN_INTEGER|amount_cents", "13": "NOT_AN_INTEGER|amount_cents",
			"14": "BAD_TIMESTAMP|updated_at", "15": "BAD_TIMESTAMP|updated_at", "17": "NULL_IN_KEY|order_id", "19": "TOO_LONG|currency",
		}, b.letters())
		require.Equal(t, "2026-03-01 09:00:00.000000", *d.WatermarkTo)
		require.Nil(t, d.WatermarkFrom)
		// Raw bytes are exact, and the place is right.
		file := poison(t, "orders_poison.csv")
		rows, err := b.raw.Query("SELECT raw, byte_offset FROM airlock_dead_letter_row")
		require.NoError(t, err)
		defer func() { require.NoError(t, rows.Close()) }()
		for rows.Next() {
			var raw []byte
			var off int64
			require.NoError(t, rows.Scan(&raw, &off))
			require.Equal(t, file[off:off+int64(len(raw))], string(raw))
		}
		require.NoError(t, rows.Err())
	})
}

func TestSecondRunChangesNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.file("orders.csv", poison(t, "orders_poison.csv"))
		first := b.run(b.spec(ordersStep))
		before := b.table("SELECT * FROM orders ORDER BY order_id")
		d := b.run(b.spec(ordersStep))
		require.Equal(t, int64(0), d.RowsMerged)
		require.Equal(t, int64(6), d.RowsUnchanged)
		require.Equal(t, int64(12), d.RowsQuarantined)
		require.Equal(t, int64(12), d.RowsQuarantinedAgain, "no second letter for the same row")
		require.Equal(t, *first.WatermarkTo, *d.WatermarkTo)
		require.Equal(t, *d.WatermarkFrom, *d.WatermarkTo)
		require.Equal(t, before, b.table("SELECT * FROM orders ORDER BY order_id"))
		require.Equal(t, []string{"12"}, b.table("SELECT COUNT(*) FROM airlock_dead_letter_row"))
	})
}

func TestSameKeyIsDoneOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.file("orders.csv", "order_id,customer,amount_cents,currency,updated_at\n1,A,5,EUR,2026-01-01T00:00:00Z\n")
		spec := b.spec(ordersStep)
		job := b.job(spec)
		first, err := b.engine().Run(t.Context(), job)
		require.NoError(t, err)
		b.exec("DELETE FROM orders")
		// A later attempt of the same task instance finds the effect done.
		again := *job
		again.Fence = 2
		d, err := b.engine().Run(t.Context(), &again)
		require.NoError(t, err)
		require.True(t, d.AlreadyDone)
		require.Equal(t, first.Result, d.Result)
		require.Equal(t, []string{"0"}, b.table("SELECT COUNT(*) FROM orders"), "nothing was done")
		// A new file is not part of that batch.
		b.file("orders-2.csv", "order_id,customer,amount_cents,currency,updated_at\n2,B,5,EUR,2026-01-01T00:00:00Z\n")
		d, err = b.engine().Run(t.Context(), &again)
		require.NoError(t, err)
		require.True(t, d.AlreadyDone)
		require.Contains(t, strings.Join(b.lines, "\n"), "left for the next one: orders-2.csv")
		// Another content, or another step, under the same key is an error.
		b.file("orders.csv", "order_id,customer,amount_cents,currency,updated_at\n1,A,6,EUR,2026-01-01T00:00:00Z\n")
		var te *dag.TaskError
		_, err = b.engine().Run(t.Context(), &again)
		require.ErrorAs(t, err, &te)
		require.Equal(t, merge.CodeKeyReused, te.Code)
		other := again
		other.Spec = b.spec(strings.Replace(ordersStep, "varchar(3)", "varchar(4)", 1))
		_, err = b.engine().Run(t.Context(), &other)
		require.ErrorAs(t, err, &te)
		require.Equal(t, merge.CodeKeyReused, te.Code)
	})
}

func TestOlderNeverOverNewer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		head := "order_id,customer,amount_cents,currency,updated_at\n"
		b.file("orders.csv", head+"7,v2,2,EUR,2026-01-01T11:00:00Z\n")
		b.run(b.spec(ordersStep))
		b.file("orders.csv", head+"7,v1,1,EUR,2026-01-01T10:00:00Z\n8,x,1,EUR,2026-01-01T10:00:00Z\n")
		d := b.run(b.spec(ordersStep))
		require.Equal(t, int64(1), d.RowsSuperseded)
		require.Equal(t, int64(1), d.RowsInserted)
		require.Equal(t, []string{"7|v2", "8|x"}, b.table("SELECT order_id, customer FROM orders ORDER BY order_id"))
		require.Equal(t, "2026-01-01 11:00:00.000000", *d.WatermarkTo, "the watermark never goes back")
		// Equal versions with other values: what comes later wins.
		b.file("orders.csv", head+"7,v3,3,EUR,2026-01-01T11:00:00Z\n")
		d = b.run(b.spec(ordersStep))
		require.Equal(t, int64(1), d.RowsUpdated)
		require.Equal(t, []string{"v3"}, b.table("SELECT customer FROM orders WHERE order_id = 7"))
	})
}

func TestOnlyCaseChanged(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		if b.db.IsSQLite() {
			b.exec("CREATE TABLE p (id INTEGER PRIMARY KEY, name TEXT COLLATE NOCASE, price DECIMAL(10,2))")
		} else {
			b.exec("CREATE TABLE p (id INT PRIMARY KEY, name VARCHAR(20) COLLATE utf8mb4_general_ci, price DECIMAL(10,2))")
		}
		step := "{source: {file: p.csv}, target: p, key: [id], duplicates: newest, columns: {id: {type: int}, name: {type: varchar(20)}, price: {type: 'decimal(10,2)'}}}"
		b.file("p.csv", "id,name,price\n1,abc,1.50\n2,,\n")
		b.run(b.spec(step))
		b.file("p.csv", "id,name,price\n1,ABC,1.5\n2,,\n")
		d := b.run(b.spec(step))
		require.Equal(t, int64(1), d.RowsUpdated)
		require.Equal(t, int64(1), d.RowsUnchanged, "null equals null")
		require.Equal(t, []string{"ABC"}, b.table("SELECT name FROM p WHERE id = 1"))
		b.file("p.csv", "id,name,price\n1,ABC,1.500\n2,,\n")
		d = b.run(b.spec(step))
		require.Equal(t, int64(2), d.RowsUnchanged)
	})
}

func TestStrangerIsNotRenamed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		id := "id INT AUTO_INCREMENT PRIMARY KEY"
		if b.db.IsSQLite() {
			id = "id INTEGER PRIMARY KEY"
		}
		b.exec("CREATE TABLE person ("+id+", email VARCHAR(60) NOT NULL UNIQUE, ext_no INT NOT NULL UNIQUE, name VARCHAR(40))",
			"INSERT INTO person (email, ext_no, name) VALUES ('a@one.test', 1, 'A'), ('b@two.test', 2, 'B')")
		b.file("p.csv", "email,ext_no,name,at\nc@three.test,3,C,2026-01-01T00:00:00Z\nnew@four.test,2,hijack,2026-01-01T00:00:01Z\na@one.test,1,A2,2026-01-01T00:00:00Z\n")
		d := b.run(b.spec(`
source: {file: p.csv}
target: person
key: [email]
duplicates: fail
columns: {email: {type: varchar(60)}, ext_no: {type: int}, name: {type: varchar(40)}, at: {type: timestamp, store: false}}
watermark: {column: at, name: people}
`))
		require.Equal(t, int64(1), d.RowsInserted)
		require.Equal(t, int64(1), d.RowsUpdated)
		require.Equal(t, int64(1), d.RowsQuarantined)
		require.Equal(t, []string{"a@one.test|1|A2", "b@two.test|2|B", "c@three.test|3|C"}, b.table("SELECT email, ext_no, name FROM person ORDER BY email"))
		require.Equal(t, map[string]string{"3": "UNIQUE_CONFLICT|ext_no"}, b.letters())
		require.Equal(t, []string{"new@four.test|new@four.test,2,hijack,2026-01-01T00:00:01Z"}, b.table("SELECT row_key, raw FROM airlock_dead_letter_row"))
		require.Contains(t, b.table("SELECT error_message FROM airlock_dead_letter_row")[0], "ext_no")
		require.Equal(t, "2026-01-01 00:00:01.000000", *d.WatermarkTo)
	})
}

func TestNullInKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE stock (tenant INT NULL, sku VARCHAR(10) NOT NULL, qty INT NOT NULL, UNIQUE (tenant, sku))")
		b.file("s.csv", "tenant,sku,qty\n1,S,10\n,S,20\n,S,21\n")
		step := "{source: {file: s.csv}, target: stock, key: [tenant, sku], columns: {tenant: {type: int}, sku: {type: varchar(10)}, qty: {type: int}}}"
		for range 2 {
			d := b.run(b.spec(step))
			require.Equal(t, int64(2), d.RowsQuarantined)
			require.Equal(t, []string{"1|S|10"}, b.table("SELECT * FROM stock"))
		}
		require.Equal(t, map[string]string{"3": "NULL_IN_KEY|tenant", "4": "NULL_IN_KEY|tenant"}, b.letters())
	})
}

func TestTheDatabaseItselfRefusesRows(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE parent (id INT PRIMARY KEY)", "INSERT INTO parent VALUES (1)",
			"CREATE TABLE child (id INT PRIMARY KEY, p INT, v INT CHECK (v < 1000), FOREIGN KEY (p) REFERENCES parent (id))")
		var text strings.Builder
		text.WriteString("id,p,v\n")
		for i := 1; i <= 3000; i++ {
			p, v := 1, i%100
			switch i {
			case 700:
				v = 5000
			case 1900:
				p = 9
			}
			fmt.Fprintf(&text, "%d,%d,%d\n", i, p, v)
		}
		b.file("c.csv", text.String())
		step := "{source: {file: c.csv}, target: child, key: [id], columns: {id: {type: int}, p: {type: int}, v: {type: int}}}"
		d := b.run(b.spec(step))
		require.Equal(t, int64(2998), d.RowsInserted)
		require.Equal(t, int64(2), d.RowsQuarantined)
		codes := b.letters()
		require.Equal(t, "CHECK_CONSTRAINT", codes["701"])
		require.Equal(t, "FOREIGN_KEY", codes["1901"])
		require.Equal(t, []string{"700,1,5000"}, b.table("SELECT raw FROM airlock_dead_letter_row WHERE source_line = 701"))
		d = b.run(b.spec(step))
		require.Equal(t, int64(2998), d.RowsUnchanged)
		require.Equal(t, int64(2), d.RowsQuarantinedAgain)
	})
}

func TestTooManyBadRowsChangeNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.exec("CREATE TABLE c (id INT PRIMARY KEY, v INT CHECK (v < 1000), at VARCHAR(40))")
		step := "{source: {file: c.csv}, target: c, key: [id], bad_rows: %s, columns: {id: {type: int}, v: {type: int}, at: {type: timestamp, store: false}}, watermark: {column: at, name: c}}"
		text := "id,v,at\n"
		for i := range 100 {
			v := "5"
			if i%10 == 0 {
				v = "x"
			}
			if i%10 == 1 {
				v = "2000" // only the database knows
			}
			text += fmt.Sprintf("%d,%s,2026-01-01T00:00:%02dZ\n", i, v, i%60)
		}
		b.file("c.csv", text)
		for _, limit := range []string{"{max: 9}", "{max: 19}", "{max_ratio: 0.09}", "{max_ratio: 0.19}", "{max: 0}"} {
			te := b.fail(b.spec(fmt.Sprintf(step, limit)), merge.CodeTooManyBadRows)
			require.Equal(t, dag.ClassPermanent, te.Class)
			require.Contains(t, te.Message, "c.csv:2: NOT_AN_INTEGER v")
			require.Equal(t, []string{"0"}, b.table("SELECT COUNT(*) FROM c"))
			require.Equal(t, []string{"0"}, b.table("SELECT COUNT(*) FROM airlock_dead_letter_row"))
			require.Equal(t, []string{"0"}, b.table("SELECT COUNT(*) FROM airlock_watermark"))
		}
		d := b.run(b.spec(fmt.Sprintf(step, "{max: 20, max_ratio: 0.2}")))
		require.Equal(t, int64(20), d.RowsQuarantined)
		require.Equal(t, int64(80), d.RowsMerged)
		// Without bad_rows a change of format is not a thousand bad rows.
		b.file("c.csv", "id,v,at\n"+strings.Repeat("x,y,z\n", 1000))
		b.fail(b.spec(strings.Replace(step, "bad_rows: %s, ", "", 1)), merge.CodeTooManyBadRows)
	})
}

func TestJSONLines(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		step := `
source: {file: e.jsonl}
target: events
create_target: true
key: [event_id]
version: at
columns:
  event_id: {type: bigint, required: true}
  device: {type: varchar(20), required: true}
  bytes: {type: bigint}
  at: {type: timestamp, required: true}
`
		text := poison(t, "events_poison.jsonl")
		b.file("e.jsonl", text)
		d := b.run(b.spec(step))
		require.Equal(t, []string{"8|cam-08|10", "9007199254740992|cam-02|121", "9007199254740993|cam-01|120"}, b.table("SELECT event_id, device, bytes FROM events ORDER BY event_id"))
		require.Equal(t, map[string]string{
			"4": "BAD_JSON", "5": "DUPLICATE_JSON_KEY|bytes", "6": "NOT_AN_OBJECT", "7": "NULL_IN_KEY|event_id", "8": "NULL_IN_KEY|event_id",
			"10": "INVALID_UTF8", "11": "NUL_CHARACTER|device", "12": "NOT_AN_INTEGER|bytes", "13": "NO_TIME_ZONE|at", "14": "UNKNOWN_FIELD|extra",
			"15": "TRAILING_DATA", "16": "UNFINISHED_ROW",
		}, b.letters())
		require.Equal(t, int64(12), d.RowsQuarantined)
		// The last line is completed: its row arrives once.
		b.file("e.jsonl", text+`0:14Z"}`+"\n")
		for range 2 {
			b.run(b.spec(step))
			require.Equal(t, []string{"1"}, b.table("SELECT COUNT(*) FROM events WHERE event_id = 14"))
		}
	})
}

func TestLostCommitAnswerAndFence(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, b *bench) {
		b.file("orders.csv", "order_id,customer,amount_cents,currency,updated_at\n1,A,5,EUR,2026-01-01T00:00:00Z\n")
		job := b.job(b.spec(ordersStep))
		job.StillMine = func(context.Context) error { return errors.New("the lease is gone") }
		_, err := b.engine().Run(t.Context(), job)
		require.ErrorContains(t, err, "the lease is gone")
		require.Equal(t, []string{"0"}, b.table("SELECT COUNT(*) FROM orders"), "nothing is left of an attempt that may not commit")
		require.Equal(t, []string{"open|0"}, b.table("SELECT status, rows_read FROM airlock_effect"))
		// A newer attempt registers while the older one is between reading and
		// committing: the older one cannot commit.
		newer := *job
		newer.Fence = 2
		newer.StillMine = nil
		older := *job
		older.StillMine = nil
		older.Source = &hook{Source: job.Source, before: func() {
			e := &merge.Effect{DB: b.db, Clock: dag.SystemClock{}, Key: job.Key, Fingerprint: strings.Repeat("0", 64), Owner: job.Owner, Fence: 2}
			if b.db.IsSQLite() {
				// The one writer is busy with the stage; another process registers.
				other, err := dialect.Open(context.Background(), "sqlite:///"+b.db.Path(), dialect.Options{})
				require.NoError(t, err)
				defer func() { require.NoError(t, other.Close()) }()
				e.DB = other
			}
			_, done, err := e.Begin(context.Background())
			require.NoError(t, err)
			require.False(t, done)
		}}
		_, err = b.engine().Run(t.Context(), &older)
		var te *dag.TaskError
		require.ErrorAs(t, err, &te)
		require.Equal(t, merge.CodeFenced, te.Code)
		require.Equal(t, []string{"0"}, b.table("SELECT COUNT(*) FROM orders"))
		_, err = b.engine().Run(t.Context(), &older)
		require.ErrorAs(t, err, &te)
		require.Equal(t, merge.CodeFenced, te.Code, "nor can it begin again")
		d, err := b.engine().Run(t.Context(), &newer)
		require.NoError(t, err)
		require.Equal(t, int64(1), d.RowsInserted)
	})
}

func TestDetailIsJSON(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(merge.Result{})
	require.NoError(t, err)
	require.JSONEq(t, `{"rows_read":0,"rows_merged":0,"rows_unchanged":0,"rows_quarantined":0,"rows_superseded":0,"watermark_from":null,"watermark_to":null,"batch_id":""}`, string(raw))
}
