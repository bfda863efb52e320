package sqltest

import (
	"bytes"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/airlock-dag/airlock/dag/dagtest"
)

// MySQLDirEnv names the folder into which .ci/mysql unpacked a MySQL server;
// unset, it is the one that make test-mysql uses.
const MySQLDirEnv = "AIRLOCK_MYSQL_DIR"

// StartMySQL starts a MySQL server for one test alone, which may kill and
// restart it. It skips the test where no server was unpacked.
func StartMySQL(tb testing.TB) *Process {
	tb.Helper()
	unpacked := mysqlDir()
	if _, err := os.Stat(filepath.Join(unpacked, "unpacked")); err != nil {
		tb.Skipf("no MySQL server in %s: run .ci/mysql get %s", unpacked, unpacked)
	}
	script, err := ciScript("mysql")
	if err != nil {
		tb.Fatal(err)
	}
	sweep()
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", dirPrefix, os.Getpid())) //nolint:usetesting // sweep finds what a killed test left by its name
	if err != nil {
		tb.Fatal(err)
	}
	p := &Process{dir: dir}
	if p.port, err = dagtest.FreePort(); err == nil {
		p.command = []string{script, "serve", unpacked, filepath.Join(dir, "data"), strconv.Itoa(p.port)}
		err = p.run()
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		tb.Fatalf("a MySQL server for tests: %v", err)
	}
	tb.Cleanup(p.remove)
	return p
}

func mysqlDir() string {
	if dir := os.Getenv(MySQLDirEnv); dir != "" {
		return dir
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	return filepath.Join(cache, "airlock", "mysql")
}

// ciScript is the path of a script of this repository.
func ciScript(name string) (string, error) {
	var out bytes.Buffer
	cmd := osexec.Command("go", "env", "GOMOD")
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("find the module's folder: %w", err)
	}
	return filepath.Join(filepath.Dir(strings.TrimSpace(out.String())), ".ci", name), nil
}
