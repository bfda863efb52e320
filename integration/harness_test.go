package integration

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // to look into a MariaDB state database
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // to look into the SQLite state database
)

// patience bounds every wait for an outcome; nothing here measures speed.
const (
	patience = 4 * time.Minute
	pause    = 50 * time.Millisecond // between two looks
)

// build is the binary that users run; crashBuild is the same with its crash
// points in it.
var (
	build      = sync.OnceValues(func() (string, error) { return compile("airlock") })
	crashBuild = sync.OnceValues(func() (string, error) { return compile("crash-airlock", "-tags", "crash") })
	// binaries is the folder that they lie in; it goes when the tests have ended.
	binaries = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "airlock-bin-") })
)

func compile(name string, flags ...string) (string, error) {
	dir, err := binaries()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, name)
	cmd := exec.Command("go", append(append([]string{"build"}, flags...), "-o", bin, "../cmd/airlock")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return bin, nil
}

// house is one installation: a home folder, a DAGs folder and a binary.
type house struct {
	t    testing.TB
	bin  string
	home string
	dags string
	env  []string
}

// unhurried are leases for a test in which no process that works is killed: a
// machine that lets nobody run for three seconds takes nothing from anybody.
const unhurried = "AIRLOCK__WORKER__LEASE_DURATION=30s"

// newHouse makes an installation with short leases, so that what a killed
// process held comes back within seconds.
func newHouse(t testing.TB, env ...string) *house {
	t.Helper()
	bin, err := build()
	require.NoError(t, err)
	root := t.TempDir()
	h := &house{t: t, bin: bin, home: filepath.Join(root, "home"), dags: filepath.Join(root, "dags")}
	require.NoError(t, os.MkdirAll(h.dags, 0o755))
	h.env = append(os.Environ(),
		"AIRLOCK_HOME="+h.home, "AIRLOCK__CORE__DAGS_FOLDER="+h.dags, "AIRLOCK__CORE__DAGS_ARE_PAUSED_AT_CREATION=false",
		"AIRLOCK__WORKER__LEASE_DURATION=3s", "AIRLOCK__WORKER__HEARTBEAT_INTERVAL=1s", "AIRLOCK__WORKER__POLL_INTERVAL=200ms",
		"AIRLOCK__SCHEDULER__INTERVAL=200ms", "AIRLOCK__SCHEDULER__DAGS_INTERVAL=500ms", "AIRLOCK__CALLBACKS__INTERVAL=200ms",
		"AIRLOCK__CALLBACKS__LEASE_DURATION=20s",
	)
	h.env = append(h.env, env...)
	return h
}

// file writes a file below the DAGs folder.
func (h *house) file(name, text string) string {
	h.t.Helper()
	path := filepath.Join(h.dags, name)
	require.NoError(h.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(h.t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// result is how a command ended.
type result struct {
	code        int
	out, errOut string
}

// run runs a command to its end.
func (h *house) run(args ...string) result {
	h.t.Helper()
	ctx, stop := context.WithTimeout(h.t.Context(), 5*time.Minute)
	defer stop()
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, h.bin, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.Dir = h.env, &out, &errOut, filepath.Dir(h.dags)
	err := cmd.Run()
	code := 0
	if err != nil {
		code = cmd.ProcessState.ExitCode()
	}
	return result{code, out.String(), errOut.String()}
}

// ok runs a command that must succeed and gives what it printed.
func (h *house) ok(args ...string) string {
	h.t.Helper()
	r := h.run(args...)
	require.Zero(h.t, r.code, "airlock %s\n%s\n%s", strings.Join(args, " "), r.out, r.errOut)
	return r.out
}

// process is a long-running airlock.
type process struct {
	cmd  *exec.Cmd
	log  *lockedBuffer
	done chan struct{}
}

// start starts a long-running command; it is killed when the test ends.
func (h *house) start(args ...string) *process {
	h.t.Helper()
	return h.startWith(nil, args...)
}

// startWith is start with more in the environment.
func (h *house) startWith(env []string, args ...string) *process {
	h.t.Helper()
	p := &process{cmd: exec.Command(h.bin, args...), log: &lockedBuffer{}, done: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = append(slices.Clone(h.env), env...), p.log, p.log, filepath.Dir(h.dags)
	require.NoError(h.t, p.cmd.Start())
	go func() { defer close(p.done); _ = p.cmd.Wait() }()
	h.t.Cleanup(func() {
		p.kill()
		if h.t.Failed() {
			h.t.Logf("airlock %s said:\n%s", strings.Join(args, " "), p.log.tail(12_000))
		}
	})
	return p
}

// startAs is start as another user, when root runs the test.
func (h *house) startAs(uid uint32, args ...string) *process {
	h.t.Helper()
	p := &process{cmd: exec.Command(h.bin, args...), log: &lockedBuffer{}, done: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = h.env, p.log, p.log, filepath.Dir(h.dags)
	if os.Getuid() == 0 {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	require.NoError(h.t, p.cmd.Start())
	go func() { defer close(p.done); _ = p.cmd.Wait() }()
	h.t.Cleanup(p.kill)
	return p
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.done
}

// term asks for an orderly end and gives the exit code.
func (p *process) term(t testing.TB) int {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatal("did not end after SIGTERM")
	}
	return p.cmd.ProcessState.ExitCode()
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) tail(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.b.String()
	return s[max(0, len(s)-n):]
}

// dead tells whether the process has ended.
func (p *process) dead() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// db opens the SQLite state database as any other program would.
func (h *house) db() *sql.DB {
	h.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(h.home, "airlock.db")+"?_pragma=busy_timeout(10000)&mode=ro")
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = db.Close() })
	return db
}

// count runs a query that gives one number; a table that is not there yet gives -1.
func count(db *sql.DB, query string, args ...any) int {
	var n int
	if err := db.QueryRow(query, args...).Scan(&n); err != nil {
		return -1
	}
	return n
}

// until waits for a query's number.
func until(t testing.TB, db *sql.DB, want int, query string, args ...any) {
	t.Helper()
	require.Eventually(t, func() bool { return count(db, query, args...) == want }, patience, 50*time.Millisecond,
		"%s %v: got %d, want %d", query, args, count(db, query, args...), want)
}

// checked runs the product's own check of its promises.
func (h *house) checked() {
	h.t.Helper()
	r := h.run("db", "check")
	require.Zero(h.t, r.code, "db check:\n%s%s", r.out, r.errOut)
}
