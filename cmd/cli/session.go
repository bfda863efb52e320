package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/cmd/app"
	"github.com/airlock-dag/airlock/cmd/config"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
	"github.com/airlock-dag/airlock/dag/load"
	"github.com/airlock-dag/airlock/sql/store"
)

// session is one command's view of the settings and of what they lead to, each
// opened when it is first asked for.
type session struct {
	env   Env
	flags map[string]string // settings that flags give
	cfg   *config.Config
	state *store.Store
	app   *app.App
}

func (s *session) sources() config.Sources {
	return config.Sources{Flags: s.flags, Environ: s.env.Environ, WorkDir: s.env.WorkDir}
}

// config reads the settings, and writes nothing.
func (s *session) config() (config.Config, error) {
	if s.cfg == nil {
		cfg, err := config.Load(s.sources())
		if err != nil {
			return cfg, err
		}
		s.cfg = &cfg
	}
	return *s.cfg, nil
}

// prepared is config with the home folder and the key in place.
func (s *session) prepared() (config.Config, error) {
	if _, err := s.config(); err != nil {
		return config.Config{}, err
	}
	err := s.cfg.Prepare()
	return *s.cfg, err
}

// environment is what the environment says about connections and variables.
func (s *session) environment() config.Environment { return config.NewEnvironment(s.env.Environ) }

// lookupEnv finds a variable of the environment.
func (s *session) lookupEnv(name string) (string, bool) {
	for _, line := range s.env.Environ {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// log is the process's own log, to stderr.
func (s *session) log(cfg config.Config) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.Logging.Level)) // the settings know these words only
	options := &slog.HandlerOptions{Level: level}
	if cfg.Logging.Format == "json" {
		return slog.New(slog.NewJSONHandler(s.env.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(s.env.Stderr, options))
}

// quietLog is the log of a command that is no service: warnings, unless a flag
// or setting asks for more.
func (s *session) quietLog(cfg config.Config) *slog.Logger {
	if cfg.Logging.Level == config.Default("").Logging.Level {
		cfg.Logging.Level = "warn"
	}
	return s.log(cfg)
}

// store opens the state database.
func (s *session) store(ctx context.Context) (*store.Store, error) {
	if s.app != nil {
		return s.app.Store(), nil
	}
	if s.state == nil {
		cfg, err := s.prepared()
		if err != nil {
			return nil, err
		}
		if s.state, err = app.OpenStore(ctx, cfg, s.quietLog(cfg)); err != nil {
			return nil, err
		}
	}
	return s.state, nil
}

// startPatience is how long a process that stays waits for its state database.
const startPatience = 30 * time.Second

// open wires the whole application. service tells whether it is to log as one.
func (s *session) open(ctx context.Context, service bool) (*app.App, error) {
	if s.app == nil {
		cfg, err := s.prepared()
		if err != nil {
			return nil, err
		}
		log, patience := s.quietLog(cfg), time.Duration(0)
		if service {
			log, patience = s.log(cfg), startPatience
		}
		s.app, err = app.New(ctx, app.Options{
			Config: cfg, Log: log, Clock: s.env.Clock, LookupEnv: s.lookupEnv, Environment: s.environment(), Version: s.env.Version, ServeMetrics: true,
			Patience: patience,
		})
		if err != nil {
			return nil, err
		}
	}
	return s.app, nil
}

// load reads the DAG files below a folder; change, when not nil, sets how.
func (s *session) load(root string, change func(*load.Options)) (load.Result, error) {
	cfg, err := s.config()
	if err != nil {
		return load.Result{}, err
	}
	files, err := bundle.NewFolder(root).Scan()
	var known *dag.Error
	if errors.As(err, &known) { // a folder that is not there is wrong use
		return load.Result{}, &dag.Error{Code: dag.ErrInvalid, Op: known.Op, Err: known.Err, Hint: known.Hint}
	}
	if err != nil {
		return load.Result{}, err
	}
	options := app.LoadOptions(cfg, app.Operators(), s.lookupEnv, s.env.Clock)
	if change != nil {
		change(&options)
	}
	return load.Files(files, options), nil
}

// fetch brings the DAGs' repository to this machine, where there is one: always,
// or only when none of it is here yet.
func (s *session) fetch(ctx context.Context, always bool) error {
	cfg, err := s.config()
	if err != nil || cfg.Git.URL == "" {
		return err
	}
	if _, err := os.Stat(cfg.DagsFolder); err == nil && !always {
		return nil
	}
	a, err := s.open(ctx, false)
	if err != nil {
		return err
	}
	return a.FetchDAGs(ctx)
}

// actor is who asks, for the audit log.
func (s *session) actor() string {
	if s.env.User == "" {
		return "cli"
	}
	return "cli:" + s.env.User
}

// audit keeps a record of what a person changed.
func (s *session) audit(ctx context.Context, action, subject string) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	return st.WriteAudit(ctx, dag.AuditEntry{Actor: s.actor(), Action: action, Subject: subject})
}

// close closes what was opened.
func (s *session) close() error {
	switch {
	case s.app != nil:
		return s.app.Close()
	case s.state != nil:
		return s.state.Close()
	default:
		return nil
	}
}
