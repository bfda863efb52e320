package load

import (
	"io/fs"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// Options say what the loader knows of the rest of Airlock and how it reads
// what files leave open.
type Options struct {
	// Specs describe the operators that there are.
	Specs []dag.OperatorSpec
	// Callbacks are the short names of the notifiers that there are; when nil,
	// every short name is taken.
	Callbacks []string
	// CallbackSpecs describe the arguments of notifiers by their short names; those
	// of one that is not listed are taken as they are.
	CallbackSpecs map[string]dag.OperatorSpec
	// CallbackNames are the names that templates of callbacks have besides
	// Airflow's.
	CallbackNames []string
	// LookupEnv gives the environment for $NAME in files; nil leaves all names
	// as they are.
	LookupEnv func(string) (string, bool)
	// AllowUnknownOperators keeps tasks whose operator is not known, with a
	// warning, for tools that only look at the graph. Default false.
	AllowUnknownOperators bool
	// CronDataIntervals reads cron texts and deltas as data intervals, which is
	// what Airflow 2 did. Default false.
	CronDataIntervals bool
	// CatchupByDefault is catchup where a file does not say. Default false.
	CatchupByDefault bool
	// DefaultTimezone is the zone of schedules without a start date, and of the
	// dates that stand on tasks. Default "UTC".
	DefaultTimezone string
	// MaxActiveRuns and MaxActiveTasks are the limits of DAGs that set none.
	// Default 16 each.
	MaxActiveRuns  int
	MaxActiveTasks int
	// MaxMapLength is the most instances that a task can be expanded to.
	// Default 1024.
	MaxMapLength int
	// Retries and RetryDelay are the defaults of tasks that set none.
	// Default 0 and 300 s.
	Retries    int
	RetryDelay time.Duration
	// Stat looks at a path, relative ones from the root of the files. It is nil
	// where the machine that reads the files need not be the one that runs the
	// tasks.
	Stat func(path string) (fs.FileInfo, error)
	// Now is for dates such as "2 days". Default the system's clock.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.DefaultTimezone == "" {
		o.DefaultTimezone = "UTC"
	}
	if o.MaxActiveRuns <= 0 {
		o.MaxActiveRuns = 16
	}
	if o.MaxActiveTasks <= 0 {
		o.MaxActiveTasks = 16
	}
	if o.MaxMapLength <= 0 {
		o.MaxMapLength = 1024
	}
	if o.RetryDelay <= 0 {
		o.RetryDelay = 300 * time.Second
	}
	if o.Now == nil {
		o.Now = dag.SystemClock{}.Now
	}
	return o
}

// Result is what a set of files gives.
type Result struct {
	// DAGs of the files without errors, sorted by id.
	DAGs []*dag.DAG
	// Problems of all files, sorted by file and place.
	Problems []dag.Problem
	// Broken are the files that give no DAG because of an error, sorted. The
	// error may stand in another file: in a defaults.yml above it.
	Broken []string
	// DagFiles says which file declares which DAG id, broken files included, so
	// that a DAG whose file broke can be told from one that is gone.
	DagFiles map[string]string
}

// HasErrors tells whether any problem is an error.
func (r Result) HasErrors() bool {
	for _, p := range r.Problems {
		if p.Severity == dag.SeverityError {
			return true
		}
	}
	return false
}
