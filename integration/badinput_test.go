package integration

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHugeTextsAreCutWithAMark: a step's error text of 1 MB, a payload of 5 MB
// and output with NUL bytes and broken UTF-8 end in letters that can be read.
func TestHugeTextsAreCutWithAMark(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	big := strings.Repeat("x", 4_900_000)
	h.file("huge.yml", fmt.Sprintf(`
huge:
  schedule: null
  tasks:
    payload:
      operator: bash
      bash_command: "exit 65"
      env: {BIG: %q}
`, big))
	h.file("texts.yml", `
texts:
  schedule: null
  tasks:
    error_text: {operator: bash, bash_command: "head -c 1000000 /dev/zero | tr '\\0' e >&2; exit 65"}
    bad_bytes:  {operator: bash, bash_command: "printf 'a\\000b\\377c\\n' >&2; exit 65"}
    no_newline: {operator: bash, bash_command: "head -c 3000000 /dev/zero | tr '\\0' y"}
`)
	require.Equal(t, 1, h.run("dags", "test", "texts").code)
	require.Equal(t, 1, h.run("dags", "test", "huge").code)
	db := h.db()
	require.Equal(t, 3, count(db, "SELECT COUNT(*) FROM dead_letter"))
	require.Zero(t, count(db, "SELECT COUNT(*) FROM dead_letter WHERE length(error_message) > 8192 OR length(stack_trace) > 32768 OR length(payload) > 4194304"))
	require.Equal(t, 1, count(db, "SELECT COUNT(*) FROM dead_letter WHERE task_id = 'payload' AND json_extract(payload, '$.size') > 4194304"))
	require.Equal(t, 1, count(db, "SELECT COUNT(*) FROM task_instance WHERE task_id = 'no_newline' AND state = 'success'"))
	h.checked()
}

// TestStepThatPrintsAGigabyte: memory stays flat and the log keeps its limit.
func TestStepThatPrintsAGigabyte(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.file("loud.yml", `
loud:
  schedule: null
  tasks:
    shout: {operator: bash, bash_command: "yes 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef | head -c 1073741824; echo; echo last"}
`)
	h.env = append(h.env, "GOMEMLIMIT=off")
	require.Zero(t, h.run("dags", "test", "loud").code)
	logs, err := filepath.Glob(filepath.Join(h.home, "logs", "dag_id=loud", "*", "*", "attempt=1.log"))
	require.NoError(t, err)
	require.Len(t, logs, 1)
	info, err := os.Stat(logs[0])
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(65<<20))
	text, err := os.ReadFile(logs[0])
	require.NoError(t, err)
	require.Contains(t, string(text), "bytes of output left out here")
	require.Contains(t, string(text[len(text)-200:]), "last")
	require.Equal(t, 1, count(h.db(), `SELECT COUNT(*) FROM xcom WHERE value = '"last"'`))
}

// TestFolderFullOfMistakes is case C118: each bad file gets its error, the good
// ones run, and validate says so by its exit code.
func TestFolderFullOfMistakes(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.file("good.yml", "good:\n  schedule: "+everySecond+"\n  tasks:\n    a: {operator: bash, bash_command: \"true\"}\n")
	h.file("cycle.yml", "loop:\n  schedule: null\n  tasks:\n    a: {operator: bash, bash_command: x, dependencies: [b]}\n    b: {operator: bash, bash_command: x, dependencies: [a]}\n")
	h.file("cron.yml", "never:\n  schedule: \"0 0 31 2 *\"\n  tasks:\n    a: {operator: bash, bash_command: x}\n")
	h.file("zone.yml", "zone:\n  schedule: null\n  timezone: Europe/Atlantis\n  tasks:\n    a: {operator: bash, bash_command: x}\n")
	h.file("operator.yml", "op:\n  schedule: null\n  tasks:\n    a: {operator: bsh, bash_command: x}\n")
	h.file("twice.yml", "twice:\n  schedule: null\n  tasks:\n    - {task_id: a, operator: bash, bash_command: x}\n    - {task_id: a, operator: bash, bash_command: y}\n")
	h.file("latin1.yml", "latin:\n  description: \"caf\xe9\"\n  schedule: null\n  tasks:\n    a: {operator: bash, bash_command: x}\n")
	h.file("big.yml", "# "+strings.Repeat("x", 10<<20)+"\n")
	h.file("key.yml", "key:\n  schedule: null\n  retires: 5\n  tasks:\n    a: {operator: bash, bash_command: x}\n")
	require.NoError(t, os.Mkdir(filepath.Join(h.dags, "folder.yml"), 0o755))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(h.dags, "dangling.yml")))

	r := h.run("dags", "validate")
	require.Equal(t, 1, r.code)
	said := r.out + r.errOut
	for _, want := range []string{
		"cycle.yml:", "a -> b -> a", "cron.yml:2:", "never fires", "zone.yml:3:", "Europe/Atlantis",
		"operator.yml:4:", "bash", "twice.yml:5:", "latin1.yml", "UTF-8", "big.yml", "key.yml:3:", "retires", "dangling.yml",
	} {
		require.Contains(t, said, want)
	}
	h.start("standalone")
	db := h.db()
	require.Eventually(t, func() bool {
		return count(db, "SELECT COUNT(*) FROM dag_run WHERE dag_id = 'good' AND state = 'success'") >= 2
	}, patience, patience/1000)
	require.Equal(t, 1, count(db, "SELECT COUNT(*) FROM dag"))
}

// TestMissingConnectionIsSealed: a configuration error is not retried and says
// what to do.
func TestMissingConnectionIsSealed(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.file("conn.yml", "conn:\n  schedule: null\n  tasks:\n    a: {operator: sql, conn_id: nowhere, sql: \"SELECT 1\", retries: 5}\n")
	require.Equal(t, 1, h.run("dags", "test", "conn").code)
	require.Equal(t, 1, count(h.db(), "SELECT attempt_count FROM dead_letter WHERE error_class = 'configuration' AND error_code = 'CONNECTION_MISSING' AND error_message LIKE '%nowhere%'"))
}

// TestCheckFailsLoudlyOnAViolation: a letter that somebody deletes and a
// target's counts that somebody edits are found and named.
func TestCheckFailsLoudlyOnAViolation(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	target := filepath.Join(filepath.Dir(h.dags), "target.db")
	h.env = append(h.env, "AIRLOCK_CONN_WAREHOUSE=sqlite:///"+target)
	h.file("rows.csv", "id,n\n1,1\n2,x\n")
	h.file("check.yml", `
check:
  schedule: null
  tasks:
    fails: {operator: bash, bash_command: "exit 65"}
    load:
      operator: merge
      conn_id: warehouse
      source: {file: rows.csv, format: csv}
      columns: {id: {type: bigint, required: true}, n: {type: int}}
      target: t
      create_target: true
      key: [id]
`)
	require.Equal(t, 1, h.run("dags", "test", "check").code)
	h.checked()
	write := func(file, statement string) {
		db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_pragma=ignore_check_constraints(1)")
		require.NoError(t, err)
		defer func() { _ = db.Close() }()
		_, err = db.Exec(statement)
		require.NoError(t, err)
	}
	write(target, "DELETE FROM airlock_dead_letter_row")
	r := h.run("db", "check")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.out, "row-letters-missing")
	write(filepath.Join(h.home, "airlock.db"), "DELETE FROM dead_letter")
	r = h.run("db", "check", "-o", "json")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.out, "check/manual__")
}
