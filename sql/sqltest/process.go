package sqltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/airlock-dag/airlock/dag/dagtest"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// Process is a MariaDB or MySQL server that a test owns.
type Process struct {
	dir     string
	server  string // mariadbd's path
	port    int
	flags   []string
	command []string // what runs the server, when it is not mariadbd with flags
	cmd     *osexec.Cmd
	// leash is held open as long as the server shall live: the wrapper around it
	// reads the other end and kills the server when this process is gone,
	// however it ended.
	leash io.Closer
}

// StartMariaDB starts a server for one test alone, which may kill and restart
// it. flags are added to mariadbd's command line.
func StartMariaDB(tb testing.TB, flags ...string) *Process {
	tb.Helper()
	p, err := start(flags)
	if err != nil {
		tb.Fatalf("a MariaDB server for tests: %v", err)
	}
	tb.Cleanup(p.remove)
	return p
}

// DSN is the address of a database on the server; the empty name for none.
func (p *Process) DSN(database string) string {
	return fmt.Sprintf("mysql://root@127.0.0.1:%d/%s", p.port, database)
}

// Fresh is the DSN of a new, empty database on the server.
func (p *Process) Fresh(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("t_%d_%d", os.Getpid(), counter.Add(1))
	exec(tb, p.DSN(""), "CREATE DATABASE "+name+" CHARACTER SET utf8mb4")
	return p.DSN(name)
}

// Socket is the server's unix socket.
func (p *Process) Socket() string { return filepath.Join(p.dir, "s") }

// tmp is the server's own folder for temporary tables: a server that starts
// removes what it finds in its own, also what another one has just put there.
func (p *Process) tmp() string { return filepath.Join(p.dir, "tmp") }

// Addr is the server's host:port.
func (p *Process) Addr() string { return fmt.Sprintf("127.0.0.1:%d", p.port) }

// Pid is the server's process id, 0 when it is not running.
func (p *Process) Pid() int {
	b, err := os.ReadFile(filepath.Join(p.dir, "pid"))
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return n
}

// Kill ends the server with SIGKILL, as a power cut would; its data stay.
func (p *Process) Kill() {
	if pid := p.Pid(); pid > 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = p.leash.Close()
	_ = p.cmd.Wait()
}

// Restart starts a killed server again on its data and port.
func (p *Process) Restart(tb testing.TB) {
	tb.Helper()
	if err := p.run(); err != nil {
		tb.Fatalf("the MariaDB server again: %v", err)
	}
}

func (p *Process) remove() {
	p.Kill()
	_ = os.RemoveAll(p.dir)
}

func start(flags []string) (*Process, error) {
	server, err := program("mariadbd")
	if err != nil {
		return nil, err
	}
	sweep()
	// Short, because a unix socket's path may have 107 bytes only.
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
	if err != nil {
		return nil, err
	}
	p := &Process{dir: dir, server: server, flags: flags}
	if err := p.install(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	// Another process may take the free port between asking and using it.
	for range 5 {
		if p.port, err = dagtest.FreePort(); err != nil {
			break
		}
		if err = p.run(); err == nil {
			return p, nil
		}
	}
	_ = os.RemoveAll(dir)
	return nil, err
}

// program finds a program also where only root's PATH looks.
func program(name string) (string, error) {
	path, err := osexec.LookPath(name)
	for _, folder := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/libexec"} {
		if err == nil {
			return path, nil
		}
		path, err = osexec.LookPath(filepath.Join(folder, name))
	}
	if err != nil {
		return "", fmt.Errorf("%s is not installed (Debian: apt-get install mariadb-server)", name)
	}
	return path, nil
}

const dirPrefix = "airlock-mdb-"

// sweep removes what test processes left that were killed together with the
// wrapper of their server.
func sweep() {
	old, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	for _, dir := range old {
		pidText, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
		pid, err := strconv.Atoi(pidText)
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir)
		}
	}
}

// install makes the system tables, with a root that has no password.
func (p *Process) install() error {
	installer, err := program("mariadb-install-db")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(p.tmp(), 0o700); err != nil {
		return err
	}
	cmd := osexec.Command(installer, append([]string{
		"--no-defaults", "--tmpdir=" + p.tmp(), "--datadir=" + filepath.Join(p.dir, "data"), "--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=8M",
	}, asUser()...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+p.tmp())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("mariadb-install-db: %w: %s", err, tail(out.String()))
	}
	return nil
}

// asUser: mariadbd refuses to run as root unless it is told so.
func asUser() []string {
	u, err := user.Current()
	if err != nil {
		return nil
	}
	return []string{"--user=" + u.Username}
}

// wrapper runs the server and waits for its own standard input to end: that is
// when the test process is gone or lets go. $1 is the server's folder.
const wrapper = `dir=$1; shift
exec 3<&0
"$@" >"$dir/log" 2>&1 </dev/null 3<&- &
pid=$!
echo $pid >"$dir/pid"
{ cat >/dev/null; kill -9 $pid 2>/dev/null; } <&3 &
wait $pid
rm -f "$dir/pid"
: >"$dir/ended"
kill $! 2>/dev/null
exit 0
`

func (p *Process) run() error {
	command := p.command
	if command == nil {
		command = p.mariadb()
	}
	p.cmd = osexec.Command("sh", append([]string{"-c", wrapper, "sh", p.dir}, command...)...)
	// A group of its own: an interrupt from the terminal must not end the
	// wrapper before it has ended the server.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	_ = os.Remove(filepath.Join(p.dir, "ended"))
	leash, err := p.cmd.StdinPipe()
	if err != nil {
		return err
	}
	p.leash = leash
	if err := p.cmd.Start(); err != nil {
		return err
	}
	if err := p.await(); err != nil {
		log, _ := os.ReadFile(filepath.Join(p.dir, "log"))
		p.Kill()
		return fmt.Errorf("the server did not start: %w: %s", err, tail(string(log)))
	}
	return nil
}

// mariadb is the command line of mariadbd.
func (p *Process) mariadb() []string {
	args := append([]string{
		p.server, "--no-defaults", "--datadir=" + filepath.Join(p.dir, "data"),
		"--tmpdir=" + p.tmp(), "--socket=" + p.Socket(), "--port=" + strconv.Itoa(p.port), "--bind-address=127.0.0.1", "--skip-name-resolve",
		"--innodb-buffer-pool-size=64M", "--innodb-log-file-size=8M", "--innodb-doublewrite=0", "--performance-schema=OFF",
		"--max-connections=500", "--character-set-server=utf8mb4", "--pid-file=" + filepath.Join(p.dir, "mariadbd.pid"),
	}, asUser()...)
	return append(args, p.flags...)
}

// await asks until the server answers, for at most three minutes: a recovery
// after Kill, or a first start, takes its time on a loaded machine.
func (p *Process) await() error {
	var err error
	for range 1800 {
		var db *dialect.DB
		if db, err = dialect.Open(context.Background(), p.DSN(""), dialect.Options{MaxConns: 1}); err == nil {
			return db.Close()
		}
		if _, ended := os.Stat(filepath.Join(p.dir, "ended")); ended == nil {
			return errors.New("it ended at once")
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

func tail(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > 2000 {
		s = "..." + s[len(s)-2000:]
	}
	return s
}
