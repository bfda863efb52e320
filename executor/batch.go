package executor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/airlock-dag/airlock/dag"
)

// maxBatch is how many results share one commit. Past about a hundred a larger
// batch gains nothing and makes one stale result dearer.
const maxBatch = 100

// pending is a result on its way to the store.
type pending struct {
	result dag.Result
	claim  dag.Claim
	// done is called with what became of it, from the exchange's goroutine.
	done func(dag.ApplyStatus, error)
}

// batcher writes results, as long as the database may come back in time. Only
// the exchange uses it, one call at a time.
type batcher struct {
	store WorkerStore
	log   *slog.Logger
	wake  Wake // the scheduler's: a result may have made successors ready
	// giveUp bounds how long a batch is tried again while the database is away;
	// past it the leases are over and the reaper's word counts.
	giveUp time.Duration
}

func newBatcher(store WorkerStore, log *slog.Logger, wake Wake, giveUp time.Duration) *batcher {
	return &batcher{store: store, log: log, wake: wake, giveUp: giveUp}
}

// apply writes a batch and does not return before each result's fate is known
// and told. Its context must not end with the worker's: results of finished
// work are worth waiting for.
func (b *batcher) apply(ctx context.Context, batch []pending) {
	results := resultsOf(batch)
	exp := backoff.NewExponentialBackOff()
	exp.InitialInterval, exp.MaxInterval = 50*time.Millisecond, 2*time.Second
	status, err := backoff.Retry(ctx, func() ([]dag.ApplyStatus, error) {
		st, err := b.store.Apply(ctx, results)
		if err != nil && dag.CodeOf(err) == dag.ErrInvalid {
			return nil, backoff.Permanent(err)
		}
		return st, err
	}, backoff.WithBackOff(exp), backoff.WithMaxElapsedTime(b.giveUp), backoff.WithNotify(func(err error, wait time.Duration) {
		b.log.Warn("results could not be written yet; they are kept and tried again",
			"results", len(batch), "again_in", wait.String(), "error", err)
	}))
	if err != nil {
		if len(batch) > 1 { // one bad result must not hold up the others
			for _, p := range batch {
				b.apply(ctx, []pending{p})
			}
			return
		}
		if !errors.Is(err, context.Canceled) {
			b.log.Error("a result could not be written; the attempt's lease will end and it is tried again",
				"task_instance", batch[0].claim.String(), "error", err)
		}
	}
	b.tell(batch, status, err)
}

// tell lets everybody know what became of a batch.
func (b *batcher) tell(batch []pending, status []dag.ApplyStatus, err error) {
	for i, p := range batch {
		var st dag.ApplyStatus
		if err == nil {
			st = status[i]
		}
		p.done(st, err)
	}
	b.wake.Signal()
}

func resultsOf(batch []pending) []dag.Result {
	out := make([]dag.Result, len(batch))
	for i, p := range batch {
		out[i] = p.result
	}
	return out
}
