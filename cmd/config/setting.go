package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Setting is one line of `airlock config list`: where a value came from and
// what it is, secrets hidden.
type Setting struct {
	Section string `json:"section"`
	Key     string `json:"key"`
	Value   string `json:"value"`
	// Source is default, airlock.yaml, fernet.key, a variable's name, or flag.
	Source string `json:"source"`
	// Doc is one sentence.
	Doc string `json:"description"`
}

// Name is section.key.
func (s Setting) Name() string { return s.Section + "." + s.Key }

// Env is the variable that gives the setting: AIRLOCK__SECTION__KEY.
func (s Setting) Env() string {
	return "AIRLOCK__" + strings.ToUpper(s.Section) + "__" + strings.ToUpper(s.Key)
}

// slot is a setting and the place in a Config that it fills.
type slot struct {
	Setting
	value value
}

// value reads a text into a field and writes it back.
type value interface {
	set(text string) error
	String() string
}

// slots is the one list of settings, bound to a Config.
func slots(c *Config) []slot {
	s := func(section, key string, v value, doc string) slot {
		return slot{Setting: Setting{Section: section, Key: key, Doc: doc, Source: "default"}, value: v}
	}
	return []slot{
		s("core", "dags_folder", (*text)(&c.DagsFolder), "The folder with the DAG files."),
		s("core", "dags_git", (*optional)(&c.Git.URL), "The git repository that the DAGs come from, instead of a plain folder; without a password."),
		s("core", "dags_git_branch", (*optional)(&c.Git.Branch), "The branch to follow; the remote's own choice where it is not set."),
		s("core", "dags_git_folder", (*optional)(&c.Git.Folder), "The folder of the repository with the DAG files; its root where it is not set."),
		s("core", "dags_git_interval", span(&c.Git.Interval), "The time between two questions for new commits."),
		s("core", "dags_git_conn_id", (*optional)(&c.Git.ConnID), "The connection with the access token or the ssh key for the repository."),
		s("core", "fernet_key", (*secret)(&c.FernetKey), "The key that encrypts stored passwords; the file fernet.key in the home folder where it is not set."),
		s("core", "dags_are_paused_at_creation", (*truth)(&c.PausedAtCreation), "Whether a DAG that is seen for the first time starts paused."),
		s("core", "default_timezone", (*text)(&c.DefaultTimezone), "The time zone of schedules of DAGs without a start date, of the dates that stand on tasks, and of dates on the command line."),
		s("core", "max_map_length", count(&c.MaxMapLength), "The most instances of one mapped task or group in a run."),
		s("database", "dsn", (*dsn)(&c.Database), "The state database: sqlite:///path or mysql://user:pass@host:3306/db."),
		s("scheduler", "interval", span(&c.Scheduler.Interval), "The longest time between two scheduling passes."),
		s("scheduler", "dags_interval", span(&c.Scheduler.DagsInterval), "The time between two looks through the DAGs folder, besides the file system's notices."),
		s("scheduler", "runs_per_pass", count(&c.Scheduler.RunsPerPass), "How many runs one transaction looks at; up to 16 times as many while more wait and it is quick."),
		s("worker", "concurrency", count(&c.Worker.Concurrency), "How many tasks run at once in one process."),
		s("worker", "queues", (*list)(&c.Worker.Queues), "The queues to take work from, with commas; empty for all."),
		s("worker", "poll_interval", span(&c.Worker.PollInterval), "The longest time between two questions for work."),
		s("worker", "lease_duration", span(&c.Worker.LeaseDuration), "How long a claim holds unless it is renewed."),
		s("worker", "heartbeat_interval", span(&c.Worker.HeartbeatInterval), "The time between two renewals of a lease."),
		s("worker", "drain_timeout", span(&c.Worker.DrainTimeout), "How long a stopping worker waits for running tasks before it hands them back."),
		s("worker", "max_input_failures", number{&c.Worker.MaxInputFailures, 0}, "How often a media input may fail, in all tasks together, before nobody opens it until it is released; 0 for no limit."),
		s("worker", "gpu_sessions", count(&c.Worker.GPUSessions), "How many encodes run at once on one GPU, if its driver opens as many."),
		s("callbacks", "interval", span(&c.Callbacks.Interval), "The longest time between two looks for callback events."),
		s("callbacks", "lease_duration", span(&c.Callbacks.LeaseDuration), "How long a killed process keeps the events that it was delivering from the others; one that lives renews it."),
		s("callbacks", "max_attempts", count(&c.Callbacks.MaxAttempts), "After how many failed deliveries an event is given up and kept as dead."),
		s("metrics", "address", (*optional)(&c.Metrics.Address), "Where /metrics and /health are served, host:port, or off; standalone serves them on 127.0.0.1:9102 where it is not set, other processes do not."),
		s("logging", "level", oneOf(&c.Logging.Level, "debug", "info", "warn", "error"), "The least level that is logged: debug, info, warn or error."),
		s("logging", "format", oneOf(&c.Logging.Format, "text", "json"), "How the process logs: text or json."),
		s("logging", "folder", (*text)(&c.Logging.Folder), "The folder of task logs."),
		s("traces", "otlp_endpoint", (*optional)(&c.Traces.OTLPEndpoint), "The OpenTelemetry collector that traces are sent to over HTTP, such as http://localhost:4318; no traces where it is not set."),
		s("retention", "runs", age(&c.Retention.Runs), "How long finished runs are kept with their tasks, attempts and XComs: never for no limit, 90d, 12h."),
		s("retention", "attempts", age(&c.Retention.Attempts), "How long attempts that were followed by another one are kept."),
		s("retention", "events", age(&c.Retention.Events), "How long callback events are kept once they are delivered or given up."),
		s("retention", "effects", age(&c.Retention.Effects), "How long effect keys are kept; at least as long as a dead letter lives."),
		s("retention", "desk", age(&c.Retention.Desk), "How long the old payloads of edited letters are kept once these are settled, and replays that ended in dlq drains."),
		s("retention", "logs", age(&c.Retention.Logs), "How long the logs of attempts are kept on this machine."),
	}
}

type text string

func (v *text) String() string { return string(*v) }

func (v *text) set(s string) error {
	if s == "" {
		return fmt.Errorf("is empty")
	}
	*v = text(s)
	return nil
}

// optional is a text that may be empty.
type optional string

func (v *optional) String() string     { return string(*v) }
func (v *optional) set(s string) error { *v = optional(s); return nil }

type secret Secret

func (v *secret) String() string     { return Secret(*v).String() }
func (v *secret) set(s string) error { *v = secret(s); return nil }

type dsn DSN

func (v *dsn) String() string { return DSN(*v).String() }

func (v *dsn) set(s string) error {
	if !strings.Contains(s, "://") {
		return fmt.Errorf("is %q, which has no scheme: use sqlite:///path or mysql://user:pass@host:3306/db", s)
	}
	*v = dsn(s)
	return nil
}

type truth bool

func (v *truth) String() string { return strconv.FormatBool(bool(*v)) }

// set takes what Airflow's settings take.
func (v *truth) set(s string) error {
	switch strings.ToLower(s) {
	case "true", "t", "1", "yes", "on":
		*v = true
	case "false", "f", "0", "no", "off":
		*v = false
	default:
		return fmt.Errorf("is %q: use true or false", s)
	}
	return nil
}

type list []string

func (v *list) String() string { return strings.Join(*v, ",") }

func (v *list) set(s string) error {
	*v = nil
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			*v = append(*v, part)
		}
	}
	return nil
}

// duration is a positive length of time.
type duration struct{ to *time.Duration }

func span(to *time.Duration) value    { return duration{to} }
func (v duration) String() string     { return v.to.String() }
func (v duration) set(s string) error { return parseDuration(s, v.to) }

func parseDuration(s string, to *time.Duration) error {
	d, err := time.ParseDuration(s)
	if seconds, numeric := strconv.ParseFloat(s, 64); numeric == nil {
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}
	if err != nil || d <= 0 || d > 366*24*time.Hour {
		return fmt.Errorf("is %q: use a length of time such as 30s, 5m or a number of seconds, at most a year", s)
	}
	*to = d
	return nil
}

const day = 24 * time.Hour

// lifetime is how long something is kept; zero is for ever.
type lifetime struct{ to *time.Duration }

func age(to *time.Duration) value { return lifetime{to} }

func (v lifetime) String() string { return formatAge(*v.to) }

// formatAge writes whole days as 30d.
func formatAge(d time.Duration) string {
	switch {
	case d == 0:
		return "never"
	case d%day == 0:
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	return d.String()
}

func (v lifetime) set(s string) error {
	if strings.EqualFold(s, "never") {
		*v.to = 0
		return nil
	}
	d, err := time.ParseDuration(s)
	if days, found := strings.CutSuffix(s, "d"); found {
		var n int
		if n, err = strconv.Atoi(days); err == nil && n <= 36500 {
			d = time.Duration(n) * day
		}
	}
	if err != nil || d <= 0 {
		return fmt.Errorf("is %q: use never, a number of days such as 30d, or a length of time such as 12h", s)
	}
	*v.to = d
	return nil
}

// number is a whole number from least on.
type number struct {
	to    *int
	least int
}

func count(to *int) value       { return number{to, 1} }
func (v number) String() string { return strconv.Itoa(*v.to) }
func (v number) set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < v.least || n > 1_000_000 {
		return fmt.Errorf("is %q: use a whole number from %d", s, v.least)
	}
	*v.to = n
	return nil
}

// choice is one of a few words.
type choice struct {
	to    *string
	words []string
}

func oneOf(to *string, words ...string) value { return choice{to, words} }
func (v choice) String() string               { return *v.to }

func (v choice) set(s string) error {
	word := strings.ToLower(s)
	if !slices.Contains(v.words, word) {
		return fmt.Errorf("is %q: use one of %s", s, strings.Join(v.words, ", "))
	}
	*v.to = word
	return nil
}
