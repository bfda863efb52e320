package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/cmd/config"
	"github.com/airlock-dag/airlock/cmd/metrics"
	"github.com/airlock-dag/airlock/cmd/tracing"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/crashpoint"
	"github.com/airlock-dag/airlock/dag/load"
	"github.com/airlock-dag/airlock/executor"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/store"
)

// The store is all that the loops ask for.
var (
	_ executor.CatalogStore   = (*store.Store)(nil)
	_ executor.SchedulerStore = (*store.Store)(nil)
	_ executor.WorkerStore    = (*store.Store)(nil)
	_ executor.SettingsStore  = (*store.Store)(nil)
	_ executor.CleanStore     = (*store.Store)(nil)
	_ callbacks.Outbox        = (*store.Store)(nil)
)

// Options of New.
type Options struct {
	Config config.Config
	Log    *slog.Logger // default: discarded
	Clock  dag.Clock    // default dag.SystemClock
	Rand   dag.Rand     // default dag.SystemRand
	IDs    dag.IDSource // default dag.SystemIDs
	// LookupEnv reads the environment for DAG files ($NAME in YAML).
	LookupEnv func(string) (string, bool)
	// Environment has the connections and variables of the environment, which
	// win over stored ones.
	Environment config.Environment
	// Operators default to OperatorsFor(Config).
	Operators *operator.Registry
	// Version of the program, for traces.
	Version string
	// Patience is how long a state database that is away is waited for; 0 is not.
	Patience time.Duration
	// ServeMetrics makes standalone serve metrics at the usual address where the
	// settings name none.
	ServeMetrics bool
}

// App is one process of Airlock, wired and not yet running.
type App struct {
	o        Options
	store    *store.Store
	settings executor.SettingsStore
	catalog  *executor.Catalog
	source   executor.Source
	load     load.Options
	observed *observed
	tracer   *tracing.Tracer // nil where no collector is set

	schedulerWake, workerWake, leaseWake, outboxWake executor.Wake
}

// New opens the state database and puts the parts together. A SQLite database
// is brought to the present schema; another must have it already.
func New(ctx context.Context, o Options) (*App, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = crashpoint.Clock(dag.SystemClock{})
	}
	o.Log = withoutRepeats(o.Log, o.Clock)
	if o.Rand == nil {
		o.Rand = dag.SystemRand{}
	}
	if o.IDs == nil {
		o.IDs = dag.SystemIDs{}
	}
	if o.LookupEnv == nil {
		o.LookupEnv = func(string) (string, bool) { return "", false }
	}
	if o.Operators == nil {
		o.Operators = OperatorsFor(o.Config)
	}
	tracer, err := tracing.New(ctx, tracing.Options{
		Endpoint: o.Config.Traces.OTLPEndpoint, Version: o.Version, Host: hostname(), Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	seen := newObserved()
	st, err := openPatiently(ctx, o, seen.metrics.Repeated)
	if err != nil {
		return nil, err
	}
	seen.registry.MustRegister(metrics.NewDatabase(st, o.Clock))
	a := &App{
		o: o, store: st, observed: seen, tracer: tracer,
		settings:      o.Environment.Over(st),
		load:          LoadOptions(o.Config, o.Operators, o.LookupEnv, o.Clock),
		schedulerWake: executor.NewWake(), workerWake: executor.NewWake(), leaseWake: executor.NewWake(), outboxWake: executor.NewWake(),
	}
	a.source = a.newSource()
	a.catalog = a.newCatalog(o.Log)
	return a, nil
}

// newCatalog keeps the DAGs in step with the files, and tells log about them.
func (a *App) newCatalog(log *slog.Logger) *executor.Catalog {
	return executor.NewCatalog(executor.CatalogOptions{
		Source: a.source, Catalog: a.store, Store: a.store, Load: a.load, Clock: a.o.Clock, Log: log,
		Poll: a.o.Config.Scheduler.DagsInterval, PauseNew: a.o.Config.PausedAtCreation, SchedulerWake: a.schedulerWake,
	})
}

// OpenStore opens the state database that the settings name. SQLite is migrated
// at once, in the folder that is made for it; a MySQL or MariaDB without the
// schema is refused with a word on `airlock db migrate`.
func OpenStore(ctx context.Context, cfg config.Config, log *slog.Logger) (*store.Store, error) {
	return openStore(ctx, cfg, log, nil)
}

// openPatiently opens the state database and waits for a server that is not there
// yet: what starts together starts in any order.
func openPatiently(ctx context.Context, o Options, onRepeat func(cause string)) (*store.Store, error) {
	began := o.Clock.Now()
	for {
		st, err := openStore(ctx, o.Config, o.Log, onRepeat)
		away := dialect.ClassOf(err) == dialect.ClassUnavailable || dialect.ClassOf(err) == dialect.ClassLost
		if err == nil || !away || o.Clock.Now().Sub(began) >= o.Patience {
			return st, err
		}
		o.Log.Warn("the state database is not there yet; it is tried again", "error", err)
		select {
		case <-ctx.Done():
			return nil, err
		case <-o.Clock.After(time.Second):
		}
	}
}

func openStore(ctx context.Context, cfg config.Config, log *slog.Logger, onRepeat func(cause string)) (*store.Store, error) {
	dsn := cfg.Database.Reveal()
	embedded := strings.HasPrefix(dsn, "sqlite:")
	if embedded {
		if err := os.MkdirAll(cfg.Home, 0o750); err != nil {
			return nil, &dag.Error{Code: dag.ErrInvalid, Op: "make AIRLOCK_HOME", Err: err, Hint: "set AIRLOCK_HOME to a folder that can be written"}
		}
	}
	st, err := store.Open(ctx, dsn, store.Options{FernetKey: cfg.FernetKey.Reveal(), Log: log, OnRepeat: onRepeat})
	if err != nil {
		return nil, err
	}
	if embedded {
		if err := st.Migrate(ctx); err != nil {
			_ = st.Close()
			return nil, err
		}
		return st, nil
	}
	have, want, err := st.SchemaVersion(ctx)
	if err == nil && have != want {
		err = &dag.Error{Code: dag.ErrConflict, Op: "open the state database",
			Err:  fmt.Errorf("its schema is version %d, this binary needs %d", have, want),
			Hint: "run `airlock db migrate`"}
		if have > want {
			err = &dag.Error{Code: dag.ErrConflict, Op: "open the state database",
				Err:  fmt.Errorf("its schema is version %d, this binary knows %d", have, want),
				Hint: "use the newer airlock that wrote it"}
		}
	}
	if err != nil {
		_ = st.Close()
		return nil, err
	}
	return st, nil
}

// LoadOptions is how DAG files are read with these settings.
func LoadOptions(cfg config.Config, ops *operator.Registry, lookupEnv func(string) (string, bool), clock dag.Clock) load.Options {
	return load.Options{
		Specs: ops.Specs(), Callbacks: CallbackNames(), CallbackSpecs: callbackSpecs(), CallbackNames: callbacks.TemplateNames(), LookupEnv: lookupEnv,
		DefaultTimezone: cfg.DefaultTimezone, MaxMapLength: cfg.MaxMapLength, Now: clock.Now,
	}
}

// Store is the state database.
func (a *App) Store() *store.Store { return a.store }

// Catalog keeps the DAGs in step with the files.
func (a *App) Catalog() *executor.Catalog { return a.catalog }

// Settings are the connections and variables of environment and database.
func (a *App) Settings() executor.SettingsStore { return a.settings }

// flushTimeout bounds how long the end waits for the traces' collector.
const flushTimeout = 5 * time.Second

// Close closes the state database and sends the last traces. The loops must
// have ended.
func (a *App) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := a.tracer.Close(ctx); err != nil {
		a.o.Log.Warn("the last traces were not sent", "error", err)
	}
	return a.store.Close()
}

func (a *App) installation() string {
	abs, err := filepath.Abs(a.o.Config.Home)
	if err != nil {
		abs = a.o.Config.Home
	}
	return dag.PayloadHash([]byte(abs + "|" + a.o.Config.Database.Reveal()))[:12]
}
