package integration

import (
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/sqltest"
)

// The crash test kills what can be killed while a DAG of every kind of ending
// runs each second, and then counts. Its length is that of a unit test unless
// AIRLOCK_CRASH_ROUNDS asks for more; AIRLOCK_CRASH_SEED repeats a draw.
const defaultRounds = 4

func crashSetting(t *testing.T, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	return n
}

// strike does one bad thing and, where something died, starts it again.
func (s *storm) strike() {
	s.t.Helper()
	kinds := []string{"kill", "kill", "kill", "point", "point", "point", "point", "child", "twice", "freeze"}
	if s.server != nil {
		kinds = append(kinds, "server", "all", "cut", "hold", "swallow")
	}
	kind := kinds[s.rnd.IntN(len(kinds))]
	i := s.rnd.IntN(len(s.crew))
	s.done[kind]++
	switch kind {
	case "kill":
		s.replace(i)
	case "point": // at a named moment, if it comes to it soon
		point := s.points[s.rnd.IntN(len(s.points))]
		nth := s.rnd.IntN(3) + 1
		s.replace(i, "AIRLOCK_CRASH_AT="+point+"#"+strconv.Itoa(nth))
		for end := time.Now().Add(4 * time.Second); !s.crew[i].dead() && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		if s.crew[i].dead() {
			s.reached[point]++
		}
		s.replace(i)
	case "twice": // again before it has found its feet
		s.replace(i)
		s.pause(300)
		s.replace(i)
	case "child":
		// The step itself, and not what it calls: how a step takes the death of its
		// mktemp is its own affair, and `file` fails of it.
		pids := slices.DeleteFunc(s.children(), func(pid int) bool {
			group, err := syscall.Getpgid(pid)
			return err != nil || group != pid
		})
		if len(pids) > 0 {
			_ = syscall.Kill(pids[s.rnd.IntN(len(pids))], syscall.SIGKILL)
			s.killed++
		}
	case "freeze": // longer than a lease: it wakes up to find itself replaced
		_ = s.crew[i].cmd.Process.Signal(syscall.SIGSTOP)
		time.Sleep(4 * time.Second)
		_ = s.crew[i].cmd.Process.Signal(syscall.SIGCONT)
	case "server":
		s.server.Kill()
		s.killed++
		s.pause(2000)
		s.server.Restart(s.t)
	case "all": // the lights go out
		s.server.Kill()
		for j := range s.crew {
			s.crew[j].kill()
		}
		s.killed += 1 + len(s.crew)
		s.server.Restart(s.t)
		for j, role := range s.roles {
			s.crew[j] = s.start(role...)
		}
	case "cut":
		s.line.cut()
	case "hold": // now shorter, now longer than a lease
		s.line.hold()
		s.pause(5000)
		s.line.pass()
	case "swallow":
		s.line.loseCommits(s.rnd.IntN(4) + 1)
	}
}

// replace kills a member of the crew, wherever it is, and starts it again.
func (s *storm) replace(i int, env ...string) {
	s.t.Helper()
	s.crew[i].kill()
	s.killed++
	s.crew[i] = s.startWith(env, s.roles[i]...)
}

// TestCrashStandalone attacks two processes on one SQLite file.
func TestCrashStandalone(t *testing.T) {
	t.Parallel()
	s := standaloneStorm(t)
	s.attack(crashSetting(t, "AIRLOCK_CRASH_ROUNDS", defaultRounds))
}

// TestCrashAtEveryPoint kills one of two processes at each crash point that the
// storm's DAG comes by, one after the other.
func TestCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	if os.Getenv("AIRLOCK_CRASH_ROUNDS") == "" {
		t.Skip("make crash walks all points; make test asks only that each is reached")
	}
	s := standaloneStorm(t)
	for _, point := range s.points {
		if slices.ContainsFunc([]string{"seal task ", "set cleared instances back", "list what a worker holds", "record missed deliveries", "exchange results for work"},
			func(begin string) bool { return strings.HasPrefix(point, begin) }) {
			continue // what the storm has not: a task that cannot be expanded, a person who clears, a server, a receiver that is away or busy, a worker without a scheduler
		}
		s.replace(0, "AIRLOCK_CRASH_AT="+point)
		for end := time.Now().Add(patience); !s.crew[0].dead(); {
			require.True(t, time.Now().Before(end), "nobody came by %q", point)
			if !s.within(5 * time.Second) {
				s.replace(1) // what it held is for a reaper
			}
		}
		s.reached[point]++
		s.living()
		s.replace(0)
	}
	s.attack(1)
}

// within tells whether the first of the crew dies within a time.
func (s *storm) within(d time.Duration) bool {
	select {
	case <-s.crew[0].done:
		return true
	case <-time.After(d):
		return false
	}
}

func standaloneStorm(t *testing.T) *storm {
	t.Helper()
	h := newHouse(t)
	target := filepath.Join(filepath.Dir(h.home), "target.db")
	h.env = append(h.env, "AIRLOCK_CONN_TARGET=sqlite:///"+target)
	s := newStorm(t, h, crashSetting(t, "AIRLOCK_CRASH_SEED", 1))
	var err error
	s.target, err = sql.Open("sqlite", "file:"+target+"?_pragma=busy_timeout(10000)")
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.target.Close() })
	h.ok("db", "migrate")
	s.state = h.db()
	s.begin("WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 200000) SELECT COUNT(*) FROM c",
		[]string{"standalone"}, []string{"standalone"})
	return s
}

// TestCrashFleet attacks two schedulers, three workers, the server itself and
// the wire to it.
func TestCrashFleet(t *testing.T) {
	t.Parallel()
	fleetStorm(t, sqltest.StartMariaDB(t))
}

// TestCrashFleetOnMySQL does the same on MySQL, where a longer attack is asked
// for and a server is there.
func TestCrashFleetOnMySQL(t *testing.T) {
	t.Parallel()
	if os.Getenv("AIRLOCK_CRASH_ROUNDS") == "" {
		t.Skip("make crash attacks MySQL, too")
	}
	fleetStorm(t, sqltest.StartMySQL(t))
}

func fleetStorm(t *testing.T, server *sqltest.Process) {
	t.Helper()
	dsn, target := server.Fresh(t), server.Fresh(t)
	wire := newLine(t, server.Addr())
	through := func(dsn string) string { return strings.Replace(dsn, server.Addr(), wire.addr, 1) }
	h := newHouse(t, "AIRLOCK__DATABASE__DSN="+through(dsn), "AIRLOCK_CONN_TARGET="+through(target))
	s := newStorm(t, h, crashSetting(t, "AIRLOCK_CRASH_SEED", 1))
	s.server, s.line, s.state, s.target = server, wire, open(t, dsn), open(t, target)
	h.ok("db", "migrate")
	s.begin("SELECT SLEEP(0.3)", []string{"scheduler"}, []string{"scheduler"}, []string{"worker"}, []string{"worker"}, []string{"worker"})
	s.attack(crashSetting(t, "AIRLOCK_CRASH_ROUNDS", defaultRounds))
}
