package sqltest

import (
	"sync"
	"testing"
	"time"

	"github.com/airlock-dag/airlock/sql/dialect"
)

// InnoDB looks at its transactions anew when nobody has asked for them for 100 ms,
// and gives who asks sooner what it saw before: two tests that ask in turn keep
// each other from ever seeing anything new. So all of a process ask one after the
// other, with a pause that is long enough.
var asked struct {
	mu sync.Mutex
	at time.Time
}

const (
	askEvery    = 150 * time.Millisecond
	askPatience = 2 * time.Minute
)

// AwaitLockWaits waits until so many transactions in the database of a MariaDB or
// MySQL server wait for others' locks.
func AwaitLockWaits(tb testing.TB, db *dialect.DB, want int) {
	tb.Helper()
	for end := time.Now().Add(askPatience); ; {
		n, err := lockWaits(tb, db)
		switch {
		case err == nil && n == want:
			return
		case time.Now().After(end):
			tb.Fatalf("%d transactions wait for a lock, and %d should: %v", n, want, err)
		}
	}
}

func lockWaits(tb testing.TB, db *dialect.DB) (n int, err error) {
	asked.mu.Lock()
	defer asked.mu.Unlock()
	time.Sleep(time.Until(asked.at.Add(askEvery)))
	defer func() { asked.at = time.Now() }()
	err = db.Reader().GetContext(tb.Context(), &n, `SELECT COUNT(*) FROM information_schema.innodb_trx x
 JOIN information_schema.processlist p ON p.id = x.trx_mysql_thread_id WHERE x.trx_state = 'LOCK WAIT' AND p.db = DATABASE()`)
	return n, err
}
