package sqltest_test

import (
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/sqltest"
)

func TestEachGivesFreshDatabases(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 2 {
		for _, s := range sqltest.Servers(t) {
			require.False(t, seen[s.DSN], "a database given twice")
			seen[s.DSN] = true
			_, err := sqltest.Raw(t, s.DSN).Exec("CREATE TABLE x (id INT PRIMARY KEY)")
			require.NoError(t, err, "the database was not empty")
		}
	}
	sqltest.Each(t, func(t *testing.T, name, dsn string) {
		_, err := sqltest.Raw(t, dsn).Exec("CREATE TABLE x (id INT PRIMARY KEY)")
		require.NoError(t, err, name)
	})
}

func TestKilledServerComesBackWithItsData(t *testing.T) {
	t.Parallel()
	p := sqltest.StartMariaDB(t)
	dsn := p.Fresh(t)
	sqltest.Exec(t, dsn, "CREATE TABLE x (id INT PRIMARY KEY);\nINSERT INTO x VALUES (7);")
	p.Kill()
	require.Zero(t, p.Pid())
	p.Restart(t)
	var id int
	require.NoError(t, sqltest.Raw(t, dsn).QueryRow("SELECT id FROM x").Scan(&id))
	require.Equal(t, 7, id)
}

// childEnv makes the test binary play a test process that is killed.
const childEnv = "AIRLOCK_SQLTEST_CHILD"

func TestServerDiesWithTheTestProcess(t *testing.T) {
	if os.Getenv(childEnv) != "" {
		p := sqltest.StartMariaDB(t)
		require.NoError(t, os.WriteFile(os.Getenv(childEnv), []byte(strconv.Itoa(p.Pid())), 0o600))
		select {}
	}
	t.Parallel()
	note := t.TempDir() + "/pid"
	child := osexec.Command(os.Args[0], "-test.run=^TestServerDiesWithTheTestProcess$")
	child.Env = append(os.Environ(), childEnv+"="+note)
	require.NoError(t, child.Start())
	var pid int
	require.Eventually(t, func() bool {
		b, _ := os.ReadFile(note)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return pid > 0
	}, 90*time.Second, 50*time.Millisecond)
	require.NoError(t, syscall.Kill(pid, 0), "the server runs")
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	require.Eventually(t, func() bool { return syscall.Kill(pid, 0) != nil }, 30*time.Second, 50*time.Millisecond)
}
