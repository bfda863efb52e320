package merge_test

import (
	"context"
	"fmt"
	"net"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

// crashEnv makes the test binary play a worker that is killed: it has the DSN,
// the folder, and after how many lines of the log the process ends itself with
// SIGKILL ("commit" for just before COMMIT).
const crashEnv = "AIRLOCK_MERGE_CRASH"

const crashStep = `
sql: |
  MERGE INTO counter AS t USING (SELECT k, plus, at FROM feed) AS s ON t.k = s.k
  WHEN MATCHED THEN UPDATE SET n = t.n + s.plus
  WHEN NOT MATCHED THEN INSERT (k, n) VALUES (s.k, s.plus)
watermark: {column: at, name: feed}
`

// TestKilledWorkerLeavesAllOrNothing runs steps that are not idempotent by
// themselves (a counter goes up) in processes that are killed, and runs each
// again until it is done: every step counts once.
func TestKilledWorkerLeavesAllOrNothing(t *testing.T) {
	if setting := os.Getenv(crashEnv); setting != "" {
		crashChild(t, setting)
		return
	}
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		b := newBench(t, dsn)
		b.exec("CREATE TABLE counter (k INT PRIMARY KEY, n BIGINT NOT NULL)", "CREATE TABLE feed (k INT PRIMARY KEY, plus INT NOT NULL, at DATETIME(6))",
			"INSERT INTO feed VALUES (1, 1, '2026-01-01 00:00:01'), (2, 1, '2026-01-01 00:00:02')")
		steps := 0
		for _, where := range []string{"stage", "commit", "committed", "commit"} {
			steps++
			child := osexec.Command(os.Args[0], "-test.run=^TestKilledWorkerLeavesAllOrNothing$")
			child.Env = append(os.Environ(), fmt.Sprintf("%s=%s;%s;%d", crashEnv, dsn, where, steps))
			out, err := child.CombinedOutput()
			require.ErrorContains(t, err, "killed", "%s", out)
			done := 0
			if where == "committed" {
				done = 1
			}
			want := strconv.Itoa(steps - 1 + done)
			if steps == 1 {
				require.Empty(t, b.table("SELECT * FROM counter"), "nothing is left of an attempt that was killed before COMMIT")
			} else {
				require.Equal(t, []string{"1|" + want, "2|" + want}, b.table("SELECT k, n FROM counter ORDER BY k"), "killed at %s", where)
			}
			// The next attempt of the same task instance.
			d, err := b.engine().Run(t.Context(), crashJob(b.db, b.spec(crashStep), steps, 2))
			require.NoError(t, err)
			require.Equal(t, where == "committed", d.AlreadyDone)
			want = strconv.Itoa(steps)
			require.Equal(t, []string{"1|" + want, "2|" + want}, b.table("SELECT k, n FROM counter ORDER BY k"))
		}
		v, err := merge.Check(t.Context(), b.db)
		require.NoError(t, err)
		require.Empty(t, v)
	})
}

func crashJob(db *dialect.DB, spec *merge.Spec, step int, fence int64) *merge.Job {
	owner := dag.TaskInstanceKey{DagID: "shop", RunID: strconv.Itoa(step), TaskID: "count", MapIndex: -1}
	return &merge.Job{Spec: spec, Source: &merge.QuerySource{DB: db, Spec: spec.Source}, Key: owner.String(), Owner: owner, Fence: fence}
}

func crashChild(t *testing.T, setting string) {
	parts := strings.Split(setting, ";")
	dsn, where := parts[0], parts[1]
	step, err := strconv.Atoi(parts[2])
	require.NoError(t, err)
	db, err := dialect.Open(context.Background(), dsn, dialect.Options{})
	require.NoError(t, err)
	die := func() {
		p, err := os.FindProcess(os.Getpid())
		require.NoError(t, err)
		require.NoError(t, p.Kill())
		select {}
	}
	b := &bench{t: t, db: db}
	spec := b.spec(crashStep)
	job := crashJob(db, spec, step, 1)
	job.StillMine = func(context.Context) error {
		if where == "commit" {
			die()
		}
		return nil
	}
	job.Logf = func(f string, _ ...any) {
		if where == "stage" && strings.HasPrefix(f, "reading") {
			die()
		}
	}
	_, err = b.engine().Run(context.Background(), job)
	require.NoError(t, err)
	die()
}

// proxy stands between client and server and can drop the connection when it
// sees COMMIT: before the server gets it, or before the client gets the answer.
type proxy struct {
	l      net.Listener
	to     string
	before atomic.Int32 // COMMITs to drop before the server has them
	after  atomic.Int32 // answers to COMMIT to drop
	wg     sync.WaitGroup
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{l: l, to: to}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); p.wg.Wait() })
	return p
}

func (p *proxy) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	s, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer func() { _ = s.Close() }()
	var drop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := s.Read(buf)
			if err != nil || drop.Load() {
				_ = c.Close()
				return
			}
			if _, err := c.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		if err != nil {
			break
		}
		if strings.Contains(string(buf[:n]), "COMMIT") && !strings.Contains(string(buf[:n]), "committed_at") {
			if p.before.Load() > 0 && p.before.Add(-1) >= 0 {
				break
			}
			if p.after.Load() > 0 && p.after.Add(-1) >= 0 {
				drop.Store(true)
			}
		}
		if _, err := s.Write(buf[:n]); err != nil {
			break
		}
	}
	_ = c.Close()
	if !drop.Load() {
		_ = s.Close()
	}
	wg.Wait()
}

// TestLostCommitIsResolvedByTheKey loses the request or the answer of COMMIT;
// the step is done once in either case, and says so.
func TestLostCommitIsResolvedByTheKey(t *testing.T) {
	t.Parallel()
	sqltest.EachServer(t, func(t *testing.T, _, dsn string) {
		b := newBench(t, dsn)
		b.exec("CREATE TABLE counter (k INT PRIMARY KEY, n BIGINT NOT NULL)", "CREATE TABLE feed (k INT PRIMARY KEY, plus INT NOT NULL, at DATETIME(6))",
			"INSERT INTO feed VALUES (1, 1, '2026-01-01 00:00:01')")
		host := strings.TrimPrefix(dsn, "mysql://root@")
		host, database, _ := strings.Cut(host, "/")
		p := newProxy(t, host)
		through, err := dialect.Open(t.Context(), "mysql://root@"+p.l.Addr().String()+"/"+database, dialect.Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, through.Close()) }()
		// The tables are there, so that the only COMMITs are of the steps.
		require.NoError(t, merge.EnsureTables(t.Context(), b.db))
		for i := 1; i <= 10; i++ {
			job := crashJob(through, b.spec(crashStep), i, 1)
			job.Source = &merge.QuerySource{DB: b.db, Spec: job.Spec.Source}
			var lines []string
			job.Logf = func(f string, args ...any) { lines = append(lines, fmt.Sprintf(f, args...)) }
			job.StillMine = func(context.Context) error {
				if len(lines) < 2 { // once a step
					if i%2 == 0 {
						p.before.Store(1)
					} else {
						p.after.Store(1)
					}
				}
				return nil
			}
			e := &merge.Engine{DB: through, Clock: dag.SystemClock{}, Rand: dag.SystemRand{}}
			d, err := e.Run(t.Context(), job)
			require.NoError(t, err, "%v", lines)
			require.Contains(t, strings.Join(lines, "\n"), "lost during COMMIT")
			require.Equal(t, int64(1), d.RowsMerged)
			require.Equal(t, []string{strconv.Itoa(i)}, b.table("SELECT n FROM counter"), "step %d\n%s", i, strings.Join(lines, "\n"))
		}
	})
}
