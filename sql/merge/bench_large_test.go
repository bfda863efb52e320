package merge_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/merge"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

// largeRows is the number of rows of the file; the target has five times as
// many. AIRLOCK_MERGE_BENCH_ROWS=1000000 is the size of the figures in
// docs/performance.md.
func largeRows(b *testing.B) int {
	n, err := strconv.Atoi(os.Getenv("AIRLOCK_MERGE_BENCH_ROWS"))
	if err != nil {
		n = 50000
	}
	b.Logf("%d rows into %d", n, 5*n)
	return n
}

const largeStep = `
source: {file: big.csv}
target: big
key: [id]
version: at
bad_rows: {max_ratio: 1}
columns: {id: {type: bigint}, customer: {type: varchar(40)}, amount: {type: "decimal(12,2)"}, at: {type: timestamp, timezone: UTC}}
watermark: {column: at, name: big}
`

// large is the target with ids 10, 20, .. and the files beside it.
type large struct {
	*bench
	rows   int
	server int // the server's process id, 0 for none
}

// spent is the processor time of this process and the server, in seconds.
func (l *large) spent() float64 {
	total := 0.0
	for _, pid := range []string{"self", strconv.Itoa(l.server)} {
		raw, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			continue // "0" is no process
		}
		_, rest, _ := strings.Cut(string(raw), ") ")
		fields := strings.Fields(rest)
		user, _ := strconv.ParseFloat(fields[11], 64)
		system, _ := strconv.ParseFloat(fields[12], 64)
		total += (user + system) / 100
	}
	return total
}

// fill makes the target, in a few statements of the server's own.
func (l *large) fill() {
	l.exec("DROP TABLE IF EXISTS big", "CREATE TABLE big (id BIGINT PRIMARY KEY, customer VARCHAR(40), amount DECIMAL(12,2), at DATETIME(6))", "CREATE INDEX big_customer ON big (customer)")
	pad := "CONCAT('customer ', LPAD(n % 1000, 20, '0'))"
	if l.db.IsSQLite() {
		pad = "printf('customer %020d', n % 1000)"
	}
	const step = 500000
	for from := 1; from <= 5*l.rows; from += step {
		l.exec(fmt.Sprintf("INSERT INTO big WITH RECURSIVE s (n) AS (SELECT %d UNION ALL SELECT n + 1 FROM s WHERE n < %d) SELECT 10 * n, %s, n %% 1000, '2026-01-01 00:00:00' FROM s",
			from, min(from+step-1, 5*l.rows), pad))
	}
}

// write makes the file: every second row changes one of the target, the others
// are new and lie between; one in bad rows cannot be stored (0 for none).
func (l *large) write(bad int) {
	f, err := os.Create(filepath.Join(l.dir, "big.csv"))
	require.NoError(l.t, err)
	w := bufio.NewWriterSize(f, 1<<20)
	_, _ = w.WriteString("id,customer,amount,at\n")
	for i := range l.rows {
		id := 100*(i/2) + 10
		if i%2 == 1 {
			id += 5
		}
		amount := fmt.Sprintf("%d.%02d", i%1000, i%100)
		if bad > 0 && i%bad == bad/2 {
			amount = "n/a"
		}
		_, _ = fmt.Fprintf(w, "%d,customer %020d,%s,2026-02-01 00:%02d:%02d.%06d\n", id, (10*(i/2)+1)%1000, amount, i/60%60, i%60, i%1000000)
	}
	require.NoError(l.t, w.Flush())
	require.NoError(l.t, f.Close())
}

// BenchmarkLarge compares the engine with the best way by hand, on the same
// server in the same run: LOAD DATA LOCAL into a typed stage and one INSERT ..
// SELECT .. ON DUPLICATE KEY UPDATE, or prepared inserts into a stage and one
// upsert on SQLite; without checks, letters, counts or a guard for versions.
func BenchmarkLarge(b *testing.B) {
	for _, kind := range []string{"mariadb", "sqlite"} {
		b.Run(kind, func(b *testing.B) {
			l := &large{rows: largeRows(b)}
			if kind == "sqlite" {
				l.bench = newBench(b, sqltest.SQLite(b))
			} else {
				p := sqltest.StartMariaDB(b, "--innodb-buffer-pool-size=2G", "--innodb-log-file-size=1G", "--innodb-flush-log-at-trx-commit=1", "--local-infile=1", "--max-recursive-iterations=10000000")
				l.bench, l.server = newBench(b, p.Fresh(b)), p.Pid()
			}
			for b.Loop() {
				l.compare(b)
			}
		})
	}
}

func (l *large) compare(b *testing.B) {
	// timed gives rows a second, and rows a second of processor time.
	timed := func(name string, work func()) (wall, cpu float64) {
		start, before := time.Now(), l.spent()
		work()
		wall = float64(l.rows) / time.Since(start).Seconds()
		cpu = float64(l.rows) / (l.spent() - before)
		b.ReportMetric(wall, name+"-rows/s")
		return wall, cpu
	}
	l.fill()
	l.write(0)
	hand, handCPU := timed("by-hand", l.byHand)
	for _, c := range []struct {
		name string
		bad  int
	}{{"clean", 0}, {"bad-0.1%", 1000}, {"bad-5%", 20}} {
		l.exec("DROP TABLE IF EXISTS airlock_effect", "DROP TABLE IF EXISTS airlock_watermark", "DROP TABLE IF EXISTS airlock_dead_letter_row")
		l.fill()
		l.write(c.bad)
		require.NoError(l.t, merge.EnsureTables(l.t.Context(), l.db))
		stop := watchMemory(l.t)
		var d *merge.Detail
		wall, cpu := timed(c.name, func() { d = l.run(l.spec(largeStep)) })
		b.ReportMetric(float64(stop())/(1<<20), c.name+"-MiB")
		b.ReportMetric(wall/hand, c.name+"-of-by-hand")
		b.ReportMetric(cpu/handCPU, c.name+"-of-by-hand-by-cpu")
		require.Equal(b, int64(l.rows), d.RowsRead)
		if c.bad == 0 {
			require.Equal(b, int64(l.rows), d.RowsMerged)
		} else {
			require.Equal(b, int64(l.rows/c.bad), d.RowsQuarantined)
		}
	}
}

func (l *large) byHand() {
	ctx := context.Background()
	conn, err := l.raw.Conn(ctx)
	require.NoError(l.t, err)
	defer func() { _ = conn.Close() }()
	exec := func(s string) {
		_, err := conn.ExecContext(ctx, s)
		require.NoError(l.t, err, s)
	}
	path := filepath.Join(l.dir, "big.csv")
	if l.db.IsSQLite() {
		l.byHandSQLite(conn, path)
		return
	}
	exec("CREATE TEMPORARY TABLE stg (id BIGINT, customer VARCHAR(40), amount DECIMAL(12,2), at DATETIME(6))")
	mysql.RegisterReaderHandler("big", func() io.Reader {
		f, err := os.Open(path)
		require.NoError(l.t, err)
		return f
	})
	defer mysql.DeregisterReaderHandler("big")
	exec("LOAD DATA LOCAL INFILE 'Reader::big' INTO TABLE stg FIELDS TERMINATED BY ',' IGNORE 1 LINES")
	exec("INSERT INTO big SELECT s.id, s.customer, s.amount, s.at FROM stg s ON DUPLICATE KEY UPDATE customer = s.customer, amount = s.amount, at = s.at")
	exec("DROP TEMPORARY TABLE stg")
}

func (l *large) byHandSQLite(conn *sql.Conn, path string) {
	ctx := context.Background()
	f, err := os.Open(path)
	require.NoError(l.t, err)
	defer func() { _ = f.Close() }()
	tx, err := conn.BeginTx(ctx, nil)
	require.NoError(l.t, err)
	exec := func(s string) {
		_, err := tx.Exec(s)
		require.NoError(l.t, err, s)
	}
	exec("CREATE TEMPORARY TABLE stg (id BIGINT, customer VARCHAR(40), amount DECIMAL(12,2), at DATETIME(6))")
	const n = 100
	text := func(n int) string {
		return "INSERT INTO stg VALUES " + strings.TrimSuffix(strings.Repeat("(?,?,?,?),", n), ",")
	}
	full, err := tx.Prepare(text(n))
	require.NoError(l.t, err)
	defer func() { _ = full.Close() }()
	lines := bufio.NewScanner(f)
	lines.Scan()
	var args []any
	for lines.Scan() {
		for _, v := range strings.Split(lines.Text(), ",") {
			args = append(args, v)
		}
		if len(args) == 4*n {
			_, err := full.Exec(args...)
			require.NoError(l.t, err)
			args = args[:0]
		}
	}
	if len(args) > 0 {
		_, err := tx.Exec(text(len(args)/4), args...)
		require.NoError(l.t, err)
	}
	exec("INSERT INTO big SELECT id, customer, amount, at FROM stg WHERE true ON CONFLICT (id) DO UPDATE SET customer = excluded.customer, amount = excluded.amount, at = excluded.at")
	exec("DROP TABLE stg")
	require.NoError(l.t, tx.Commit())
}

// watchMemory gives the greatest resident size of this process, in bytes, until
// the returned function is called.
func watchMemory(t testing.TB) func() int64 {
	t.Helper()
	runtime.GC()
	stop, done := make(chan struct{}), make(chan int64)
	go func() {
		var most int64
		for {
			most = max(most, resident())
			select {
			case <-stop:
				done <- most
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() int64 { close(stop); return <-done }
}

func resident() int64 {
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(raw))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
