package store

import (
	"log/slog"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// Options of Open. The zero value is usable.
type Options struct {
	// Clock replaces the database's time when it is set: for tests. By default
	// MySQL and MariaDB tell the time (so that every process of a fleet measures
	// leases alike) and a SQLite file goes by dag.SystemClock.
	Clock dag.Clock
	// Rand draws the waits between repeated transactions. Default dag.SystemRand.
	Rand dag.Rand
	// FernetKey encrypts passwords and extras of connections: 32 bytes in
	// URL-safe base64, or several separated by commas of which the first
	// encrypts. Empty refuses to store or to read a secret.
	FernetKey string
	// MaxConns bounds the connections. Default: that of dialect.Options.
	MaxConns int
	// ConnectTimeout bounds the first connection. Default 10 s.
	ConnectTimeout time.Duration
	// OnRepeat, when set, is told of each transaction that is run again: cause is
	// deadlock, lock_wait, or a class of dialect.
	OnRepeat func(cause string)
	// Log gets repeated transactions and slow ones. Default: discarded.
	Log *slog.Logger
}
