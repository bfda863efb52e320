package executor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/proc"
)

// sweepEvery is the time between two looks for children of attempts that are
// over. A killed worker's children are ended by the kernel where it can; what
// it cannot reach (grandchildren, new sessions) must not run on beside the next
// attempt, which may be on another machine.
const sweepEvery = time.Minute

// marker is what a child process of an attempt carries in its environment.
func (w *Worker) marker(id, fence int64) string {
	return fmt.Sprintf("%s%d", w.markerPrefix(id), fence)
}

func (w *Worker) markerPrefix(id int64) string {
	return fmt.Sprintf("%s/%d/", w.o.Installation, id)
}

// sweep ends orphans on this machine, at the start and then now and again.
func (w *Worker) sweep(ctx context.Context) {
	for {
		n, err := proc.SweepUnless(w.o.Installation+"/", func(marker string) bool { return w.living(ctx, marker) }, proc.DefaultGrace)
		switch {
		case err != nil:
			w.o.Log.Debug("orphans of killed workers cannot be looked for", "error", err)
		case n > 0:
			w.o.Log.Warn("ended processes that killed workers left behind", "processes", n)
		}
		select {
		case <-ctx.Done():
			return
		case <-w.o.Clock.After(sweepEvery):
		}
	}
}

// living tells whether the attempt of a marker is still somebody's. When that
// cannot be known its children live on.
func (w *Worker) living(ctx context.Context, marker string) bool {
	rest, ours := strings.CutPrefix(marker, w.o.Installation+"/")
	var l dag.Lease
	if _, err := fmt.Sscanf(rest, "%d/%d", &l.TaskInstanceID, &l.Fence); !ours || err != nil || l.TaskInstanceID == 0 {
		return true
	}
	if w.keep.holds(l) { // whatever a clock that was set forward makes of its lease
		return true
	}
	mine, err := w.o.Store.StillMine(ctx, l)
	return err != nil || mine
}
