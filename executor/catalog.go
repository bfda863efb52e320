package executor

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
	"github.com/airlock-dag/airlock/dag/load"
	"github.com/airlock-dag/airlock/dag/timetable"
)

// Source is where DAG files come from.
type Source interface {
	// Scan lists the files as they are now.
	Scan() ([]bundle.File, error)
	// Watch signals that something may have changed.
	Watch(ctx context.Context, clock dag.Clock, poll time.Duration) <-chan struct{}
}

// CatalogOptions is what a catalog is made of.
type CatalogOptions struct {
	Source  Source
	Catalog CatalogStore
	Store   SchedulerStore
	Load    load.Options
	Clock   dag.Clock
	Log     *slog.Logger
	// Poll is how often the folder is read though nothing was signalled; default 30 s.
	Poll time.Duration
	// PauseNew is the state of a DAG that is seen for the first time and does not
	// say itself (dags_are_paused_at_creation).
	PauseNew bool
	// SchedulerWake is signalled when the catalog changed.
	SchedulerWake Wake
}

// Catalog keeps the state database's DAGs in step with the files: new and
// changed files give new versions, removed and broken ones mark their DAGs
// stale, and one broken file never touches another.
type Catalog struct {
	o    CatalogOptions
	mu   sync.Mutex
	told map[string]bool // problems that the log has already

	// What was loaded last, from which files and when: reading a thousand files
	// again that nobody touched is what an idle process would do most of.
	files  []bundle.File
	loaded load.Result
	at     time.Time
}

// loadAgain is when unchanged files are loaded again all the same: a start_date
// that is relative to the day means something else tomorrow.
const loadAgain = 10 * time.Minute

// NewCatalog makes a catalog; Run keeps it in step, Sync does it once.
func NewCatalog(o CatalogOptions) *Catalog {
	if o.Clock == nil {
		o.Clock = dag.SystemClock{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Poll <= 0 {
		o.Poll = 30 * time.Second
	}
	return &Catalog{o: o, told: map[string]bool{}}
}

// Run syncs whenever the files may have changed, until ctx ends.
func (c *Catalog) Run(ctx context.Context) {
	changed := c.o.Source.Watch(ctx, c.o.Clock, c.o.Poll)
	for {
		if _, err := c.Sync(ctx); err != nil && ctx.Err() == nil {
			c.o.Log.Error("the DAG files could not be synced; the last good state stays", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case _, open := <-changed:
			if !open {
				return
			}
		case <-c.o.Clock.After(c.o.Poll):
		}
	}
}

// Sync reads all files once and brings the database in step.
func (c *Catalog) Sync(ctx context.Context) (load.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	files, err := c.o.Source.Scan()
	if err != nil {
		return load.Result{}, err // it names the folder
	}
	res := c.load(files)
	rows, err := c.o.Catalog.DAGRows(ctx, dag.DAGFilter{})
	if err != nil {
		return res, err
	}
	if err := c.update(ctx, res.DAGs, sources(files), rows); err != nil {
		return res, err
	}
	if err := c.markStale(ctx, res, rows); err != nil {
		return res, err
	}
	if err := c.o.Catalog.SetImportErrors(ctx, res.Problems); err != nil {
		return res, err
	}
	c.tell(res.Problems)
	return res, nil
}

// load reads the files, unless they are what they were a little while ago.
func (c *Catalog) load(files []bundle.File) load.Result {
	now := c.o.Clock.Now()
	since := now.Sub(c.at)
	if c.files == nil || since < 0 || since >= loadAgain || !slices.EqualFunc(files, c.files, sameFile) {
		c.files, c.loaded, c.at = files, load.Files(files, c.o.Load), now
	}
	return c.loaded
}

func sameFile(a, b bundle.File) bool {
	return a.Path == b.Path && a.Source == b.Source && a.Err == nil && b.Err == nil && bytes.Equal(a.Data, b.Data)
}

// sources tells which state of the bundle each file is of.
func sources(files []bundle.File) map[string]string {
	out := make(map[string]string, len(files))
	for _, f := range files {
		out[f.Path] = f.Source
	}
	return out
}

// update writes the DAGs that are new, changed or back.
func (c *Catalog) update(ctx context.Context, dags []*dag.DAG, from map[string]string, rows []dag.DAGRow) error {
	known := make(map[string]dag.DAGRow, len(rows))
	for _, r := range rows {
		known[r.DagID] = r
	}
	now, err := c.o.Store.Now(ctx)
	if err != nil {
		return err
	}
	var updates []dag.DAGUpdate
	for _, d := range dags {
		row, seen := known[d.ID]
		if seen && !row.IsStale && row.VersionHash == d.Hash() && row.FileLoc == d.FileLoc {
			continue
		}
		next, err := c.plan(ctx, d, now)
		if err != nil {
			return err
		}
		paused := c.o.PauseNew
		if d.IsPausedUponCreation != nil {
			paused = *d.IsPausedUponCreation
		}
		updates = append(updates, dag.DAGUpdate{DAG: d, Source: from[d.FileLoc], Next: next, Paused: paused})
		if seen {
			paused = row.IsPaused
		}
		c.o.Log.Info("DAG loaded", "dag_id", d.ID, "fileloc", d.FileLoc, "version", d.Hash()[:12], "new", !seen, "paused", paused)
	}
	if len(updates) == 0 {
		return nil
	}
	_, err = c.o.Catalog.SyncDAGs(ctx, updates)
	c.o.SchedulerWake.Signal()
	return err
}

func (c *Catalog) plan(ctx context.Context, d *dag.DAG, now time.Time) (*dag.PlannedRun, error) {
	tt, err := timetable.ForDAG(d)
	if err != nil {
		return nil, err
	}
	last, err := lastPlanned(ctx, c.o.Store, d.ID)
	if err != nil {
		return nil, err
	}
	return tt.Next(last, timetable.RestrictionFor(d), now), nil
}

// markStale finds DAGs whose file gave none this time. Runs in flight go on
// with the version that they began with; no new ones start.
func (c *Catalog) markStale(ctx context.Context, res load.Result, rows []dag.DAGRow) error {
	present := make(map[string]bool, len(res.DAGs))
	for _, d := range res.DAGs {
		present[d.ID] = true
	}
	broken := make(map[string]bool, len(res.Broken))
	for _, file := range res.Broken {
		broken[file] = true
	}
	stale := map[string][]string{}
	for _, r := range rows {
		if present[r.DagID] {
			continue
		}
		reason := "its file " + r.FileLoc + " is gone or no longer defines it"
		if broken[r.FileLoc] {
			reason = "its file " + r.FileLoc + " is broken; the last good version stays for runs in flight"
		}
		if r.IsStale && r.StaleReason == reason {
			continue
		}
		stale[reason] = append(stale[reason], r.DagID)
	}
	for reason, ids := range stale {
		c.o.Log.Warn("DAGs are stale and start no new runs", "dag_ids", ids, "reason", reason)
		if err := c.o.Catalog.MarkStale(ctx, ids, reason); err != nil {
			return err
		}
	}
	return nil
}

// tell logs each problem once, until it goes away.
func (c *Catalog) tell(problems []dag.Problem) {
	now := make(map[string]bool, len(problems))
	for _, p := range problems {
		text := p.String()
		now[text] = true
		if c.told[text] {
			continue
		}
		level := slog.LevelWarn
		if p.Severity == dag.SeverityError {
			level = slog.LevelError
		}
		c.o.Log.Log(context.Background(), level, "problem in a DAG file", "at", text)
	}
	c.told = now
}
