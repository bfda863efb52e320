package integration

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/sqltest"
)

// The drain test seals letters of steps that count in a ledger of their own,
// repairs the fault, and replays all letters while what can be killed is killed.
// Its usual size is that of a unit test; AIRLOCK_DRAIN_LONG asks for the whole
// incident of three thousand letters, at several rates, with twenty kills each.
type incident struct {
	letters, done, poison int
	kills                 int
	rate                  int // letters a second, 0 for no limit
}

func incidents() []incident {
	if os.Getenv("AIRLOCK_DRAIN_LONG") == "" {
		return []incident{{letters: 600, done: 41, poison: 7, kills: 4, rate: 150}}
	}
	return []incident{
		{letters: 3000, done: 205, poison: 34, kills: 20, rate: 100},
		{letters: 3000, done: 205, poison: 34, kills: 20, rate: 400},
		{letters: 3000, done: 205, poison: 34, kills: 20},
	}
}

// drainDAGs is how many DAGs the letters come from.
const drainDAGs = 10

func TestDrainUnderFire(t *testing.T) {
	t.Parallel()
	for _, in := range incidents() {
		name := fmt.Sprintf("%d letters at %d a second", in.letters, in.rate)
		t.Run("sqlite, "+name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			target := filepath.Join(filepath.Dir(h.home), "target.db")
			h.env = append(h.env, "AIRLOCK_CONN_TARGET=sqlite:///"+target)
			ledger, err := sql.Open("sqlite", "file:"+target+"?_pragma=busy_timeout(20000)")
			require.NoError(t, err)
			t.Cleanup(func() { _ = ledger.Close() })
			h.ok("db", "migrate")
			state, err := sql.Open("sqlite", "file:"+filepath.Join(h.home, "airlock.db")+"?_pragma=busy_timeout(20000)")
			require.NoError(t, err)
			t.Cleanup(func() { _ = state.Close() })
			newDrainTest(h, in, state, ledger, nil, []string{"standalone"}, []string{"worker"}).run()
		})
		t.Run("mariadb, "+name, func(t *testing.T) {
			t.Parallel()
			drainOnServer(t, in, sqltest.StartMariaDB(t))
		})
		t.Run("mysql, "+name, func(t *testing.T) {
			t.Parallel()
			if os.Getenv("AIRLOCK_DRAIN_LONG") == "" {
				t.Skip("make drain runs on MySQL, too")
			}
			drainOnServer(t, in, sqltest.StartMySQL(t))
		})
	}
}

func drainOnServer(t *testing.T, in incident, server *sqltest.Process) {
	t.Helper()
	dsn, target := server.Fresh(t), server.Fresh(t)
	h := newHouse(t, "AIRLOCK__DATABASE__DSN="+dsn, "AIRLOCK_CONN_TARGET="+target)
	h.ok("db", "migrate")
	newDrainTest(h, in, open(t, dsn), open(t, target), server, []string{"scheduler"}, []string{"worker"}, []string{"worker"}).run()
}

// drainTest is one installation with an incident.
type drainTest struct {
	*house
	in     incident
	rnd    *rand.Rand
	state  *sql.DB
	ledger *sql.DB
	server *sqltest.Process // nil for SQLite
	roles  [][]string
	crew   []*process
	drains []*process
	id     string
	kills  map[string]int
}

func newDrainTest(h *house, in incident, state, ledger *sql.DB, server *sqltest.Process, roles ...[]string) *drainTest {
	h.env = append(h.env, "AIRLOCK__WORKER__CONCURRENCY=16", "AIRLOCK__LOGGING__LEVEL=error")
	return &drainTest{
		house: h, in: in, state: state, ledger: ledger, server: server, roles: roles, kills: map[string]int{},
		rnd: rand.New(rand.NewPCG(uint64(crashSetting(h.t.(*testing.T), "AIRLOCK_CRASH_SEED", 1)), uint64(in.rate))),
	}
}

func (d *drainTest) run() {
	d.seal()
	d.prepare()
	dry := d.counts("dlq", "replay", "--limit", "0", "-o", "json")
	require.Equal(d.t, d.expected(), dry, "the dry run")
	require.Zero(d.t, count(d.state, "SELECT COUNT(*) FROM dead_letter_audit"), "a dry run changes nothing")

	d.ok("pools", "set", "replay_pool", "64", "wide")
	d.begin()
	stop := d.watchDepth()
	d.fire()
	ended := func() bool { return count(d.state, "SELECT COUNT(*) FROM dead_letter WHERE status = 'replaying'") == 0 }
	require.Eventually(d.t, ended, 5*patience, 100*time.Millisecond, "every replay ends")
	stop()
	d.audit()
}

// expected are the counts of the incident.
func (d *drainTest) expected() map[string]int {
	return map[string]int{
		"replayed": d.in.letters - d.in.done - d.in.poison, "drop_duplicate": d.in.done, "quarantine": d.in.poison,
		"deferred": 0, "rejected": 0, "selected": d.in.letters,
	}
}

func (d *drainTest) counts(args ...string) map[string]int {
	d.t.Helper()
	return countsOf(d.t, d.ok(args...))
}

func countsOf(t testing.TB, text string) map[string]int {
	t.Helper()
	var all map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &all), text)
	out := map[string]int{}
	for _, k := range []string{"replayed", "drop_duplicate", "quarantine", "deferred", "rejected", "selected"} {
		n, ok := all[k].(float64)
		require.True(t, ok, "%s in %s", k, text)
		out[k] = int(n)
	}
	return out
}

// seal runs steps whose target has no such table.
func (d *drainTest) seal() {
	d.t.Helper()
	each := d.in.letters / drainDAGs
	for i := range drainDAGs {
		var statements []string
		for n := range each {
			statements = append(statements, fmt.Sprintf(`"INSERT INTO ledger (job) VALUES ('jobs%d/%d')"`, i, n))
		}
		d.file(fmt.Sprintf("jobs%d.yml", i), fmt.Sprintf(`jobs%d:
  schedule: null
  max_active_tasks: 10000
  default_args: {retries: 1000, retry_delay: 0.2s, max_crashes: 1000}
  tasks:
    work: {operator: sql, conn_id: target, expand: {sql: [%s]}}
`, i, strings.Join(statements, ", ")))
	}
	engine := d.start("standalone")
	until(d.t, d.state, drainDAGs, "SELECT COUNT(*) FROM dag")
	for i := range drainDAGs {
		d.ok("dags", "trigger", fmt.Sprintf("jobs%d", i))
	}
	sealed := func() bool {
		return count(d.state, "SELECT COUNT(*) FROM dead_letter WHERE status = 'sealed'") == drainDAGs*each
	}
	require.Eventually(d.t, sealed, 5*patience, 100*time.Millisecond, "every step is sealed")
	until(d.t, d.state, drainDAGs, "SELECT COUNT(*) FROM dag_run WHERE state = 'failed'")
	require.Zero(d.t, engine.term(d.t))
}

// prepare repairs the fault, and makes some effects done and some letters
// poison. Half of the done ones are known to the state database, half to the
// target's own ledger of effects.
func (d *drainTest) prepare() {
	d.t.Helper()
	_, err := d.ledger.Exec("CREATE TABLE ledger (job VARCHAR(100) NOT NULL)")
	require.NoError(d.t, err)
	type letter struct {
		id       int64
		job, key string
	}
	rows, err := d.state.Query("SELECT id, dag_id, map_index, idempotency_key FROM dead_letter ORDER BY id")
	require.NoError(d.t, err)
	var letters []letter
	for rows.Next() {
		var l letter
		var dagID string
		var index int
		require.NoError(d.t, rows.Scan(&l.id, &dagID, &index, &l.key))
		l.job = fmt.Sprintf("%s/%d", dagID, index)
		letters = append(letters, l)
	}
	require.NoError(d.t, rows.Err())
	require.NoError(d.t, rows.Close()) //nolint:sqlclosecheck // before the next statement of the connection
	d.rnd.Shuffle(len(letters), func(i, k int) { letters[i], letters[k] = letters[k], letters[i] })
	exec := func(db *sql.DB, query string, args ...any) {
		_, err := db.Exec(query, args...)
		require.NoError(d.t, err, query)
	}
	for i, l := range letters[:d.in.done] {
		exec(d.ledger, "INSERT INTO ledger (job) VALUES (?)", l.job)
		if i%2 == 0 {
			exec(d.state, `INSERT INTO effect (idempotency_key, fingerprint, fence, status, rows_read, rows_merged, rows_unchanged, rows_quarantined,
 committed_at, expires_at) VALUES (?, 'f', 1, 'done', 0, 0, 0, 0, '2026-01-01 00:00:00.000000', '2036-01-01 00:00:00.000000')`, l.key)
		} else {
			exec(d.ledger, "UPDATE airlock_effect SET status = 'done' WHERE idempotency_key = ?", l.key)
		}
	}
	for i, l := range letters[d.in.done : d.in.done+d.in.poison] {
		exec(d.state, "UPDATE dead_letter SET return_count = 4 WHERE id = ?", l.id)
		if i == 0 { // poison whose effect is done is a duplicate: no person needs to look at it
			exec(d.state, "UPDATE dead_letter SET return_count = 9 WHERE id = ?", letters[0].id)
		}
	}
	d.ok("dlq", "stats", "--recount")
}

// begin starts the engine and two processes on one drain.
func (d *drainTest) begin() {
	d.t.Helper()
	for _, role := range d.roles {
		d.crew = append(d.crew, d.start(role...))
	}
	d.drains = append(d.drains, d.start("dlq", "replay", "--apply", "--rate", fmt.Sprintf("%d/s", d.in.rate), "-o", "json"))
	require.Eventually(d.t, func() bool { return d.state.QueryRow("SELECT id FROM replay_drain").Scan(&d.id) == nil }, patience, 5*time.Millisecond)
	d.drains = append(d.drains, d.start("dlq", "resume", d.id, "-o", "json"))
}

// over tells whether the drain is done; an answer that does not come is no.
func (d *drainTest) over() bool {
	return count(d.state, "SELECT COUNT(*) FROM replay_drain WHERE state = 'done'") == 1
}

// fire kills until enough is killed and the drain is done. Whoever has died is
// started again.
func (d *drainTest) fire() {
	d.t.Helper()
	deadline := time.Now().Add(5 * patience)
	for n := 0; n < d.in.kills || !d.over(); {
		require.True(d.t, time.Now().Before(deadline), "the drain is not done: %v", d.kills)
		time.Sleep(time.Duration(d.rnd.IntN(500)+1) * time.Millisecond) // how long is part of the attack
		if n < d.in.kills {
			d.strike()
			n++
		}
		for i, p := range d.drains {
			if p.dead() && !d.over() {
				d.drains[i] = d.start("dlq", "resume", d.id, "-o", "json")
			}
		}
		for i, p := range d.crew {
			if p.dead() {
				d.crew[i] = d.start(d.roles[i]...)
			}
		}
	}
	for _, p := range d.drains {
		select {
		case <-p.done:
		case <-time.After(patience):
			d.t.Fatal("a process of the drain goes on though it is done")
		}
	}
	d.t.Logf("killed: %v", d.kills)
}

func (d *drainTest) strike() {
	kinds := []string{"drain", "drain", "crew"}
	if d.server != nil {
		kinds = append(kinds, "server")
	}
	kind := kinds[d.rnd.IntN(len(kinds))]
	d.kills[kind]++
	switch kind {
	case "drain":
		d.drains[d.rnd.IntN(len(d.drains))].kill()
	case "crew":
		d.crew[d.rnd.IntN(len(d.crew))].kill()
	case "server":
		d.server.Kill()
		d.server.Restart(d.t)
	}
}

// watchDepth looks at the number of sealed letters all the time: it never rises.
func (d *drainTest) watchDepth() (stop func()) {
	end := make(chan struct{})
	var g sync.WaitGroup
	g.Go(func() {
		last := d.in.letters
		for {
			select {
			case <-end:
				return
			case <-time.After(20 * time.Millisecond):
			}
			n := count(d.state, "SELECT COUNT(*) FROM dead_letter WHERE status = 'sealed'")
			if n > last && last >= 0 {
				d.t.Errorf("the depth rose from %d to %d", last, n)
			}
			// Below zero the database is away: it was killed. What a transaction has written
			// is seen by others a moment before it is on the disk and answered, and may be
			// gone after that; so the count begins anew.
			last = n
		}
	})
	return func() { close(end); g.Wait() }
}

// audit counts, in the tables and in the target's own ledger.
func (d *drainTest) audit() {
	d.t.Helper()
	var drains []map[string]any
	require.NoError(d.t, json.Unmarshal([]byte(d.ok("dlq", "drains", "-o", "json")), &drains))
	require.Len(d.t, drains, 1)
	text, err := json.Marshal(drains[0])
	require.NoError(d.t, err)
	require.Equal(d.t, d.expected(), countsOf(d.t, string(text)))
	require.EqualValues(d.t, 0, drains[0]["double_published"])

	// One audit row for each letter, and the letters stand as the audit says.
	require.Equal(d.t, d.in.letters, count(d.state, "SELECT COUNT(*) FROM dead_letter_audit"))
	require.Equal(d.t, d.in.letters, count(d.state, "SELECT COUNT(DISTINCT dead_letter_id) FROM dead_letter_audit WHERE drain_id = ?", d.id))
	replayed := d.in.letters - d.in.done - d.in.poison
	for decision, want := range map[string]struct {
		status string
		n      int
	}{"replayed": {"resolved", replayed}, "drop_duplicate": {"dropped", d.in.done}, "quarantine": {"quarantined", d.in.poison}} {
		require.Equal(d.t, want.n, count(d.state, `SELECT COUNT(*) FROM dead_letter_audit a JOIN dead_letter l ON l.id = a.dead_letter_id
 WHERE a.decision = ? AND l.status = ?`, decision, want.status), decision)
	}

	// The target's ledger: what was done before and what was replayed, each once.
	require.Equal(d.t, d.in.done+replayed, count(d.ledger, "SELECT COUNT(*) FROM ledger"))
	require.Equal(d.t, d.in.done+replayed, count(d.ledger, "SELECT COUNT(DISTINCT job) FROM ledger"))

	d.rateHeld()
	d.checked()
}

// rateHeld proves that no second has more replays than the rate says, wherever
// the second begins.
func (d *drainTest) rateHeld() {
	d.t.Helper()
	if d.in.rate == 0 {
		return
	}
	rows, err := d.state.Query("SELECT decided_at FROM dead_letter_audit WHERE decision = 'replayed' ORDER BY decided_at")
	require.NoError(d.t, err)
	defer func() { _ = rows.Close() }()
	var at []time.Time
	for rows.Next() {
		var text string
		require.NoError(d.t, rows.Scan(&text))
		instant, err := time.Parse("2006-01-02 15:04:05.000000", text)
		require.NoError(d.t, err)
		at = append(at, instant)
	}
	require.NoError(d.t, rows.Err())
	for i := d.in.rate; i < len(at); i++ {
		require.GreaterOrEqual(d.t, at[i].Sub(at[i-d.in.rate]), time.Second, "more than %d replays in the second after %s", d.in.rate, at[i-d.in.rate])
	}
}
