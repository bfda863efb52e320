package executor

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator"
)

// held is one attempt that this worker runs.
type held struct {
	lease  dag.Lease
	key    dag.TaskInstanceKey
	until  time.Time // by this process's clock, from before the request was sent
	cancel context.CancelCauseFunc
	// away is set while the state database does not take renewals.
	away bool
}

// keeper renews the leases of everything that a worker runs, all in one
// statement, and stops an attempt whose lease was taken away or is about to end
// unrenewed: its children must be gone before another worker may start.
type keeper struct {
	store    WorkerStore
	clock    dag.Clock
	log      *slog.Logger
	lease    time.Duration
	interval time.Duration

	mu   sync.Mutex
	held map[int64]*held
}

func newKeeper(store WorkerStore, clock dag.Clock, log *slog.Logger, lease, interval time.Duration) *keeper {
	return &keeper{store: store, clock: clock, log: log, lease: lease, interval: interval, held: map[int64]*held{}}
}

// margin is how long before its end a lease that could not be renewed counts as
// lost: time enough to end the children.
func (k *keeper) margin() time.Duration { return k.lease / 4 }

// add begins to keep a claim's lease. asked is when the claim was sent.
func (k *keeper) add(c dag.Claim, asked time.Time, cancel context.CancelCauseFunc) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held[c.ID] = &held{
		lease: dag.Lease{TaskInstanceID: c.ID, Fence: c.Fence}, key: c.TaskInstanceKey,
		until: asked.Add(k.lease), cancel: cancel,
	}
}

// remove stops keeping a lease; the result is written or handed over.
func (k *keeper) remove(id int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.held, id)
}

// cancelAll stops every attempt with the given cause.
func (k *keeper) cancelAll(cause error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.held {
		h.cancel(cause)
	}
}

func (k *keeper) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.clock.After(k.interval):
		}
		k.renew(ctx)
		k.dropStale()
	}
}

// renew asks for all leases at once, with a time limit of its own: a request
// that hangs must not keep dropStale from looking.
func (k *keeper) renew(ctx context.Context) {
	k.mu.Lock()
	leases := make([]dag.Lease, 0, len(k.held))
	for _, h := range k.held {
		leases = append(leases, h.lease)
	}
	k.mu.Unlock()
	if len(leases) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(ctx, k.interval)
	defer stop()
	asked := k.clock.Now()
	lost, err := k.store.Renew(ctx, leases, k.lease)
	if err != nil {
		k.log.Warn("leases could not be renewed", "leases", len(leases), "error", err)
		k.unanswered(leases)
		return
	}
	gone := map[dag.Lease]bool{}
	for _, l := range lost {
		gone[l] = true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range leases {
		h := k.held[l.TaskInstanceID]
		if h == nil || h.lease != l {
			continue
		}
		if gone[l] {
			k.log.Warn("a lease was taken away; the attempt is stopped", "task_instance", h.key.String(), "fence", l.Fence)
			h.cancel(operator.ErrLeaseLost)
			continue
		}
		h.until, h.away = asked.Add(k.lease), false
	}
}

// unanswered notes that a renewal failed: what ends for want of one then is the
// database's doing.
func (k *keeper) unanswered(leases []dag.Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range leases {
		if h := k.held[l.TaskInstanceID]; h != nil && h.lease == l {
			h.away = true
		}
	}
}

// dropStale stops attempts whose lease is about to end because no renewal came
// through.
func (k *keeper) dropStale() {
	now := k.clock.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.held {
		if now.After(h.until.Add(-k.margin())) {
			k.log.Error("a lease could not be renewed in time; the attempt is stopped before the lease ends",
				"task_instance", h.key.String(), "fence", h.lease.Fence)
			if h.away {
				h.cancel(errStateAway)
			} else {
				h.cancel(operator.ErrLeaseLost)
			}
		}
	}
}
