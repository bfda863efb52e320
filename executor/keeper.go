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
	until  time.Duration // as elapsed, counted from before the request was sent
	cancel context.CancelCauseFunc
	// tell knows how far the attempt is; nil until it has begun.
	tell *teller
	// away is set while the state database does not take renewals, stopped when
	// the attempt was stopped for want of one.
	away, stopped bool
	// ended is set when only the result is left to write.
	ended bool
	// taken is set when the lease turned out to be another's: that is said once.
	taken bool
}

// keeper renews the leases of everything that a worker runs, all in one
// statement, and stops an attempt whose lease was taken away or is about to end
// unrenewed: its children must be gone before another worker may start.
type keeper struct {
	store    WorkerStore
	clock    *fleetClock
	look     Wake // a lease may have been taken away
	log      *slog.Logger
	lease    time.Duration
	interval time.Duration
	// poll is the time between two plain looks at whether the leases are still
	// ours; 0 for none.
	poll time.Duration

	mu   sync.Mutex
	held map[int64]*held
	// spared is until when nothing is stopped: this process stood still, and the
	// database is asked first what it still holds.
	spared time.Duration
}

func newKeeper(store WorkerStore, clock *fleetClock, look Wake, log *slog.Logger, lease, interval time.Duration) *keeper {
	return &keeper{store: store, clock: clock, look: look, log: log, lease: lease, interval: interval, held: map[int64]*held{}}
}

// margin is how long before its end a lease whose renewal was refused counts as
// lost: time enough to end the children. One that nobody has refused, because
// no request went out or none was answered, has half of that longer.
func (k *keeper) margin(refused bool) time.Duration {
	if refused {
		return k.lease / 4
	}
	return k.lease / 8
}

// leaseOf is the lease that a claim began.
func leaseOf(c dag.Claim) dag.Lease { return dag.Lease{TaskInstanceID: c.ID, Fence: c.Fence} }

// add begins to keep a claim's lease. asked is when the claim was sent. An
// instance that was taken from this worker, and claimed by it again before a
// renewal told, has an earlier attempt here: that one is stopped.
func (k *keeper) add(c dag.Claim, asked time.Duration, cancel context.CancelCauseFunc) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if earlier := k.held[c.ID]; earlier != nil && !earlier.ended {
		k.log.Warn("a lease was taken away and claimed again; the earlier attempt is stopped",
			"task_instance", earlier.key.String(), "fence", earlier.lease.Fence)
		earlier.cancel(operator.ErrLeaseLost)
	}
	k.held[c.ID] = &held{
		lease: leaseOf(c), key: c.TaskInstanceKey,
		until: asked + k.lease, cancel: cancel,
	}
}

// remove stops keeping a lease; the result is written or handed over. That of a
// later attempt of the same instance stays.
func (k *keeper) remove(l dag.Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.held[l.TaskInstanceID]; h != nil && h.lease == l {
		delete(k.held, l.TaskInstanceID)
	}
}

// ends notes that an attempt has ended: there is nothing left to stop.
func (k *keeper) ends(l dag.Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.held[l.TaskInstanceID]; h != nil && h.lease == l {
		h.ended = true
	}
}

// cancel stops one attempt with the given cause.
func (k *keeper) cancel(id int64, cause error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.held[id]; h != nil {
		h.cancel(cause)
	}
}

// tells notes who knows how far an attempt is.
func (k *keeper) tells(l dag.Lease, t *teller) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.held[l.TaskInstanceID]; h != nil && h.lease == l {
		h.tell = t
	}
}

// showProgress keeps how far the attempts are, where one of them says so. It is
// only a notice: when it fails, the next one comes.
func (k *keeper) showProgress(ctx context.Context) {
	k.mu.Lock()
	var list []dag.TaskProgress
	for _, h := range k.held {
		if h.tell == nil {
			continue
		}
		if p := h.tell.now(h.lease); p != nil {
			list = append(list, *p)
		}
	}
	k.mu.Unlock()
	if len(list) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(ctx, k.interval/4) // the next renewal is not to wait for it
	defer stop()
	if err := k.store.SetProgress(ctx, list); err != nil {
		k.log.Debug("progress could not be kept", "error", err)
	}
}

// cancelAll stops every attempt with the given cause.
func (k *keeper) cancelAll(cause error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.held {
		h.cancel(cause)
	}
}

// holds tells whether this worker knows of the lease.
func (k *keeper) holds(l dag.Lease) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.held[l.TaskInstanceID]
	return h != nil && h.lease == l
}

// run keeps the leases until ctx ends. Renewing and looking at the clock go on
// side by side: a request that hangs must not keep an attempt running.
func (k *keeper) run(ctx context.Context) {
	var watch sync.WaitGroup
	watch.Go(func() { k.watch(ctx) })
	if k.poll > 0 {
		watch.Go(func() { k.ask(ctx) })
	}
	defer watch.Wait()
	wait := k.interval
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.look:
		case <-k.clock.After(wait):
		}
		wait = k.interval
		if !k.renew(ctx) { // there is time for more than one try before the margin
			wait = k.interval / 4
		}
		k.showProgress(ctx)
	}
}

// ask looks now and again, with a plain read, whether somebody took a lease: a
// run timed out elsewhere, or a person cleared the task. What it finds is only a
// hint, for it may be read from a server that lags behind: the renewal that it
// brings on decides.
func (k *keeper) ask(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.clock.After(k.poll):
		}
		leases := k.leases(func(h *held) bool { return !h.ended }) // else there is nothing to stop
		if len(leases) == 0 {
			continue
		}
		limited, stop := context.WithTimeout(ctx, k.interval)
		lost, err := k.store.LostLeases(limited, leases)
		stop()
		if err == nil && len(lost) > 0 {
			k.look.Signal()
		}
	}
}

// leases lists what is held and not known to be another's, as far as which wants it.
func (k *keeper) leases(which func(*held) bool) []dag.Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	leases := make([]dag.Lease, 0, len(k.held))
	for _, h := range k.held {
		if !h.taken && which(h) {
			leases = append(leases, h.lease)
		}
	}
	return leases
}

// watch stops what could not be renewed, when its time has come.
func (k *keeper) watch(ctx context.Context) {
	for {
		wait := k.dropStale()
		due := k.clock.Elapsed() + wait
		select {
		case <-ctx.Done():
			return
		case <-k.clock.After(wait):
		}
		if now := k.clock.Elapsed(); now-due > k.lease/8 {
			k.overslept(now)
		}
	}
}

// overslept is called when this process got no time for longer than it can
// afford (it was starved, or stopped): what its leases are worth, the database
// knows. Until it has been asked they are neither kept nor given up.
func (k *keeper) overslept(now time.Duration) {
	k.mu.Lock()
	k.spared = now + k.lease/8
	k.mu.Unlock()
	k.look.Signal()
}

// renew asks for all leases at once, with a time limit of its own, and tells
// whether it was answered.
func (k *keeper) renew(ctx context.Context) bool {
	leases := k.leases(func(*held) bool { return true })
	if len(leases) == 0 {
		return true
	}
	ctx, stop := context.WithTimeout(ctx, k.interval)
	defer stop()
	asked := k.clock.Elapsed()
	lost, err := k.store.Renew(ctx, leases, k.lease)
	if err != nil {
		k.log.Warn("leases could not be renewed", "leases", len(leases), "error", err)
		k.unanswered(leases)
		return false
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
			h.taken = true
			if !h.ended { // else its result has just been written, or is told to be too late
				k.log.Warn("a lease was taken away; the attempt is stopped", "task_instance", h.key.String(), "fence", l.Fence)
				h.cancel(operator.ErrLeaseLost)
			}
			continue
		}
		h.until, h.away = asked+k.lease, false
	}
	return true
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
// through, and tells how long nothing of the kind can happen.
func (k *keeper) dropStale() time.Duration {
	now := k.clock.Elapsed()
	wait := k.interval
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.held {
		left := max(h.until-k.margin(h.away), k.spared) - now
		if left > 0 {
			wait = min(wait, left)
			continue
		}
		if h.stopped || h.taken {
			continue
		}
		h.stopped = true
		if h.ended {
			k.log.Warn("a result could not be written while its lease held; it is kept, and counts unless somebody takes the task over",
				"task_instance", h.key.String(), "fence", h.lease.Fence)
			continue
		}
		k.log.Error("a lease could not be renewed in time; the attempt is stopped before the lease ends",
			"task_instance", h.key.String(), "fence", h.lease.Fence)
		if h.away {
			h.cancel(errStateAway)
		} else {
			h.cancel(operator.ErrLeaseLost)
		}
	}
	return wait
}
