package config

import (
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
)

// Config is everything that can be set. A Config from Load is complete and
// valid; Default gives one for a home folder.
type Config struct {
	// Home is Airlock's folder: settings, the SQLite database, logs, the key.
	// It comes from AIRLOCK_HOME. Default ~/airlock.
	Home string
	// DagsFolder is where the YAML files are, absolute. Default $AIRLOCK_HOME/dags.
	DagsFolder string
	// Git, when its URL is set, is the repository that the DAGs come from;
	// DagsFolder is then inside its clone.
	Git Git
	// Database is the state database. Default sqlite:///$AIRLOCK_HOME/airlock.db.
	Database DSN
	// FernetKey encrypts stored passwords: one key, or several with commas, the
	// first of which encrypts. Empty means the file $AIRLOCK_HOME/fernet.key,
	// see Prepare.
	FernetKey Secret
	// PausedAtCreation is whether a DAG that is seen for the first time starts
	// paused, where its file does not say. Default true, as in Airflow.
	PausedAtCreation bool
	// DefaultTimezone is the IANA name of the zone of schedules without a start
	// date, of the dates on tasks, and of dates on the command line.
	// Default UTC.
	DefaultTimezone string
	// MaxMapLength is the most instances of one mapped task in a run. Default
	// 1024, as in Airflow.
	MaxMapLength int

	Scheduler Scheduler
	Worker    Worker
	Callbacks Callbacks
	Metrics   Metrics
	Traces    Traces
	Logging   Logging
	Retention Retention
}

// Git holds the settings of DAGs in a repository.
type Git struct {
	// URL of the repository, without a password; empty for none.
	URL string
	// Branch to follow. Default the remote's own choice.
	Branch string
	// Folder with the DAG files, relative. Default the root of the repository.
	Folder string
	// Interval is the time between two questions for new commits. Default 1m.
	Interval time.Duration
	// ConnID is the connection with the access token or the ssh key; empty for
	// none.
	ConnID string
}

// GitClone is the folder that the clone of the repository is kept in: another
// one for each address and branch.
func (c *Config) GitClone() string {
	return filepath.Join(c.Home, "bundles", dag.PayloadHash([]byte(c.Git.URL + "\n" + c.Git.Branch))[:16])
}

// Scheduler holds the settings of the scheduler and reaper loops.
type Scheduler struct {
	// Interval is the longest time between two looks at the state database.
	// Default 1s.
	Interval time.Duration
	// DagsInterval is the time between two looks through the DAGs folder, besides
	// the file system's own notices. Default 30s.
	DagsInterval time.Duration
	// RunsPerPass is how many runs one transaction looks at, up to 16 times as many
	// while more wait and it is quick. Default 50.
	RunsPerPass int
}

// Worker holds the settings of the worker loop.
type Worker struct {
	// Concurrency is how many task instances run at once in one process.
	// Default 16.
	Concurrency int
	// Queues to take work from; empty for all. Default all.
	Queues []string
	// PollInterval is the longest time between two questions for work. Default 1s.
	PollInterval time.Duration
	// LeaseDuration is how long a claim holds without being renewed: what a dead
	// worker held is redelivered after it. Default 30s.
	LeaseDuration time.Duration
	// HeartbeatInterval is the time between two renewals. Default 10s.
	HeartbeatInterval time.Duration
	// DrainTimeout is how long a stopping worker waits for running tasks before
	// it ends them and hands them back. Default 30s.
	DrainTimeout time.Duration
	// MaxInputFailures is how often a media input may fail, in all tasks of all
	// workers together, before nobody opens it until it is released; 0 is no
	// limit. Default 5.
	MaxInputFailures int
	// GPUSessions is how many encodes run at once on one GPU; the driver may open
	// fewer. Default 2.
	GPUSessions int
}

// Callbacks holds the settings of the callback dispatcher.
type Callbacks struct {
	// Interval is the longest time between two looks for events. Default 1s.
	Interval time.Duration
	// MaxAttempts is after how many failed deliveries an event is given up, and
	// kept as dead. Default 10.
	MaxAttempts int
	// LeaseDuration is how long a killed dispatcher keeps the events that it had
	// taken from the others. Default 30s; one that lives renews it.
	LeaseDuration time.Duration
}

// Traces holds the settings of OpenTelemetry traces.
type Traces struct {
	// OTLPEndpoint is the collector's address, http://host:4318; empty for none.
	OTLPEndpoint string
}

// Metrics holds the settings of what a process tells over HTTP.
type Metrics struct {
	// Address is host:port for /metrics and /health, or off. Default: none, and
	// 127.0.0.1:9102 for standalone.
	Address string
}

// Logging holds the settings of the process's own log and of task logs.
type Logging struct {
	// Level is debug, info, warn or error. Default info.
	Level string
	// Format is text or json. Default text.
	Format string
	// Folder is where task logs go, absolute. Default $AIRLOCK_HOME/logs.
	Folder string
}

// Retention holds how long history is kept, counted from its end; 0 is for ever.
// What an open dead letter refers to always stays.
type Retention struct {
	// Runs with their task instances, attempts and XComs. Default for ever.
	Runs time.Duration
	// Attempts that were followed by another one. Default for ever.
	Attempts time.Duration
	// Events are delivered callback events. Default 30 days.
	Events time.Duration
	// Effects are effect keys: a step that runs again after it does its effect
	// again. Default 30 days, at least the life of a dead letter.
	Effects time.Duration
	// Desk is for the payloads that edits of settled letters replaced, and for
	// replays that ended. Default 90 days.
	Desk time.Duration
	// Logs of attempts on this machine. Default 90 days.
	Logs time.Duration
}

// Default gives the settings that hold where nothing is said, for a home folder.
func Default(home string) Config {
	return Config{
		Home:             home,
		DagsFolder:       filepath.Join(home, "dags"),
		Database:         DSN("sqlite:///" + filepath.Join(home, "airlock.db")),
		PausedAtCreation: true,
		DefaultTimezone:  "UTC",
		Git:              Git{Interval: time.Minute},
		MaxMapLength:     1024,
		Scheduler: Scheduler{
			Interval:     time.Second,
			DagsInterval: 30 * time.Second,
			RunsPerPass:  50,
		},
		Worker: Worker{
			Concurrency:       16,
			PollInterval:      time.Second,
			LeaseDuration:     30 * time.Second,
			HeartbeatInterval: 10 * time.Second,
			DrainTimeout:      30 * time.Second,
			MaxInputFailures:  5,
			GPUSessions:       2,
		},
		Callbacks: Callbacks{Interval: time.Second, MaxAttempts: 10, LeaseDuration: 30 * time.Second},
		Logging:   Logging{Level: "info", Format: "text", Folder: filepath.Join(home, "logs")},
		Retention: Retention{Events: 30 * day, Effects: 30 * day, Desk: 90 * day, Logs: 90 * day},
	}
}

// Validate finds what the single values cannot show: relations between them.
// The error has dag.ErrInvalid.
func (c *Config) Validate() error {
	if c.Worker.LeaseDuration < 2*c.Worker.HeartbeatInterval {
		return invalid(fmt.Sprintf("worker.lease_duration is %s and worker.heartbeat_interval %s", c.Worker.LeaseDuration, c.Worker.HeartbeatInterval),
			"a lease must last at least two heartbeats, so that one lost renewal does not lose the work")
	}
	if c.Git.URL != "" {
		if err := bundle.CheckGitURL(c.Git.URL); err != nil {
			return invalid("core.dags_git: "+err.Error(), "write https://host/path.git, ssh://git@host/path.git or git@host:path.git")
		}
		if c.Git.Folder != "" && !filepath.IsLocal(c.Git.Folder) {
			return invalid(fmt.Sprintf("core.dags_git_folder is %q", c.Git.Folder), "give a folder inside the repository, such as dags")
		}
	}
	if c.Retention.Effects != 0 && c.Retention.Effects < dag.LetterTTL {
		return invalid(fmt.Sprintf("retention.effects is %s and a dead letter lives for %s", formatAge(c.Retention.Effects), formatAge(dag.LetterTTL)),
			"effect keys must outlive the letters that refer to them, or a replay would do an effect twice: give at least "+formatAge(dag.LetterTTL))
	}
	if a := c.Metrics.Address; a != "" && a != "off" {
		if _, port, err := net.SplitHostPort(a); err != nil || port == "" {
			return invalid(fmt.Sprintf("metrics.address is %q", a), "give host:port such as 127.0.0.1:9102 or :9102, or off")
		}
	}
	if _, err := time.LoadLocation(c.DefaultTimezone); err != nil {
		return invalid(fmt.Sprintf("core.default_timezone is %q, which is no known zone", c.DefaultTimezone), "use an IANA name such as Europe/Berlin")
	}
	return nil
}

func invalid(found, hint string) error {
	return &dag.Error{Code: dag.ErrInvalid, Op: "read settings", Hint: hint, Err: fmt.Errorf("%s", found)}
}
