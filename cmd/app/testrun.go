package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/load"
	"github.com/airlock-dag/airlock/executor"
)

// TestRequest asks for one run of a DAG in the foreground.
type TestRequest struct {
	DagID       string
	LogicalDate *time.Time
	Conf        json.RawMessage
	// Actor is who asks, for the audit log.
	Actor string
	// Out gets progress and lines; Terminal says that it can show bars.
	Out      io.Writer
	Terminal bool
}

// TestDAG runs a DAG once in this process, whether it is paused or not, and
// reports when the run has ended and its callbacks are delivered. The run is an
// ordinary one in the state database; other runs are left alone.
func (a *App) TestDAG(ctx context.Context, r TestRequest) (TestReport, error) {
	// The file's own problems are shown below; those of its neighbours are not
	// what this run is about.
	files, err := a.newCatalog(slog.New(slog.DiscardHandler)).Sync(ctx)
	if err != nil {
		return TestReport{}, err
	}
	d, run, err := a.newTestRun(ctx, r, files)
	if err != nil {
		return TestReport{}, err
	}
	show := newProgress(r.Out, r.Terminal)
	defer show.stop()
	for _, p := range files.Problems {
		if p.File == d.FileLoc {
			show.line("%s", p)
		}
	}
	show.line("run %s of %s begins", run.RunID, run.DagID)

	parts := a.parts(partOptions{only: &run, show: show})
	ended, err := a.drive(ctx, parts, run)
	show.stop()
	if err != nil {
		return TestReport{}, err
	}
	if !ended {
		return TestReport{}, &dag.Error{Code: dag.ErrConflict, Op: "test " + d.ID, Err: fmt.Errorf("stopped before the run ended: %w", context.Cause(ctx)),
			Hint: "its running tasks were handed back; `airlock dags test` starts a new run"}
	}
	return a.report(ctx, d, run.RunID)
}

// newTestRun makes a run of a DAG of the files, which are synced already.
func (a *App) newTestRun(ctx context.Context, r TestRequest, res load.Result) (*dag.DAG, dag.Run, error) {
	d := find(res.DAGs, r.DagID)
	if d == nil {
		return nil, dag.Run{}, noSuchDAG("test", r.DagID, res)
	}
	rows, err := a.store.DAGRows(ctx, dag.DAGFilter{IDs: []string{r.DagID}})
	if err != nil {
		return nil, dag.Run{}, err
	}
	if len(rows) == 0 {
		return nil, dag.Run{}, fmt.Errorf("the DAG %q was synced and is not in the state database: another process may have changed it; try again", r.DagID)
	}
	now, err := a.store.Now(ctx)
	if err != nil {
		return nil, dag.Run{}, err
	}
	if r.LogicalDate == nil {
		r.LogicalDate = &now
	}
	nr, err := executor.ManualRun(ctx, a.store, rows[0], executor.ManualRunRequest{
		LogicalDate: r.LogicalDate, Conf: r.Conf, TriggeredBy: "test", Now: now, IDs: a.o.IDs,
	})
	if err != nil {
		return nil, dag.Run{}, err
	}
	made, err := a.store.CreateTestRun(ctx, nr, r.Actor)
	if err != nil {
		return nil, dag.Run{}, err
	}
	if made.Existed {
		old := made.Run
		reason := &dag.Error{Code: dag.ErrExists, Op: "test " + d.ID, Err: fmt.Errorf("the %s run %s has this logical date already", old.Type, old.RunID),
			Hint: fmt.Sprintf("`airlock tasks clear %s -r %s` lets it run again; or give another date, or none: the run is then dated now", d.ID, old.RunID)}
		if old.Type == dag.RunManual {
			reason.Err = fmt.Errorf("run %s has this logical date and is at work", old.RunID)
			reason.Hint = "wait until it has ended, or give another date"
		}
		return nil, dag.Run{}, reason
	}
	return d, made.Run, nil
}

// drive runs a scheduler and a worker on one run until it ends or ctx does. What
// the run has to tell is delivered when it returns, as far as receivers take it.
func (a *App) drive(ctx context.Context, p parts, run dag.Run) (ended bool, err error) {
	working, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.worker.Run(working)
	}()
	over, delivered := make(chan struct{}), make(chan error, 1)
	go func() { delivered <- p.outbox.RunUntil(ctx, over) }()
	for ctx.Err() == nil {
		busy, perr := p.scheduler.Pass(ctx)
		if perr != nil && ctx.Err() == nil {
			err = perr
			break
		}
		now, rerr := a.store.Run(ctx, run.DagID, run.RunID)
		if rerr == nil && now.State.Finished() {
			ended = true
			break
		}
		if !busy {
			p.scheduler.Wait(ctx)
		}
	}
	stop()
	<-done
	close(over)
	if undelivered := <-delivered; err == nil && ended {
		err = undelivered
	}
	return ended, err
}
