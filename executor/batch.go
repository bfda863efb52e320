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
	// done is called with what became of it, from the batcher's goroutine.
	done func(dag.ApplyStatus, error)
}

// batcher writes results: whatever has gathered while the last commit was under
// way goes into the next one, so that one commit carries many results under
// load and a lone result waits for nobody.
type batcher struct {
	store WorkerStore
	in    chan pending
	log   *slog.Logger
	wake  Wake // the scheduler's: a result may have made successors ready
	// giveUp bounds how long a batch is tried again while the database is away;
	// past it the leases are over and the reaper's word counts.
	giveUp time.Duration
}

func newBatcher(store WorkerStore, log *slog.Logger, wake Wake, giveUp time.Duration) *batcher {
	return &batcher{store: store, in: make(chan pending, maxBatch), log: log, wake: wake, giveUp: giveUp}
}

// run ends when in is closed and everything is written. It must not be
// cancelled with the worker: results of finished work are worth waiting for.
func (b *batcher) run(ctx context.Context) {
	for first := range b.in {
		batch := append(make([]pending, 0, maxBatch), first)
	gather:
		for len(batch) < maxBatch {
			select {
			case p, ok := <-b.in:
				if !ok {
					break gather
				}
				batch = append(batch, p)
			default:
				break gather
			}
		}
		b.apply(ctx, batch)
	}
}

func (b *batcher) apply(ctx context.Context, batch []pending) {
	results := make([]dag.Result, len(batch))
	for i, p := range batch {
		results[i] = p.result
	}
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
	for i, p := range batch {
		var st dag.ApplyStatus
		if err == nil {
			st = status[i]
		}
		p.done(st, err)
	}
	b.wake.Signal()
}
