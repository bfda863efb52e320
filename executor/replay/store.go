package replay

import (
	"context"

	"github.com/airlock-dag/airlock/dag"
)

// Store is what the controller needs of the state database.
type Store interface {
	// NewDrain keeps a running drain and fills in its bounds.
	NewDrain(ctx context.Context, d dag.Drain) (dag.Drain, error)
	// Drain finds a drain; the error of one that does not exist has
	// dag.ErrNotFound.
	Drain(ctx context.Context, id string) (dag.Drain, error)
	// DrainBounds tells what NewDrain would fill in: the newest letter that the
	// filter finds, and how many it finds.
	DrainBounds(ctx context.Context, f dag.LetterFilter) (maxID int64, total int, err error)
	// ReplayPage reads the next letters of a filter in the order of their ids; f
	// has After, UpTo and Limit. drain is "" for a dry run.
	ReplayPage(ctx context.Context, f dag.LetterFilter, drain string) ([]dag.ReplayCase, error)
	// DrainStep carries out as many verdicts as the drain's pace allows, in one
	// transaction.
	DrainStep(ctx context.Context, id string, step dag.DrainStep, actor string) (dag.DrainStepResult, error)
	// SetDrainState moves a drain that is not done to another state.
	SetDrainState(ctx context.Context, id string, to dag.DrainState, reason string) (dag.Drain, error)
	// LetterStats groups the letters that a filter finds by failure; f.Limit bounds
	// the groups.
	LetterStats(ctx context.Context, f dag.LetterFilter) ([]dag.LetterGroup, error)
	// DrainOutcome tells what became of the letters that the drain replayed.
	DrainOutcome(ctx context.Context, id string) (dag.DrainOutcome, error)
}

// Effects asks the ledgers of target databases.
type Effects interface {
	// Done tells for which of the letters the effect is done, by letter id, each
	// with a word on where that stands. What cannot be asked is left out: the
	// capability gate sees to it.
	Done(ctx context.Context, cases []dag.ReplayCase) (map[int64]string, error)
}

// Poison knows inputs that never succeed, besides the count of returns.
type Poison interface {
	// Poisoned says why a letter's input counts as poison, "" when it does not.
	Poisoned(ctx context.Context, c *dag.ReplayCase) (string, error)
}

// Capabilities finds out by trying whether a letter's step could work here and
// now.
type Capabilities interface {
	// Missing says what the step lacks ("codec still missing: ..."), "" when
	// nothing. It is asked for each letter, so it remembers what it tried.
	Missing(ctx context.Context, c *dag.ReplayCase) (string, error)
}

// PauseError is the answer of a probe that what the letters depend on went away
// while the drain puts them back: the drain pauses, with the reason, and decides
// nothing about those that are left.
type PauseError struct{ Reason string }

// Error implements error.
func (e *PauseError) Error() string { return e.Reason }

// Observer is told of what drains do, for metrics.
type Observer interface {
	// Decided counts decisions that were carried out.
	Decided(d dag.ReplayDecision, n int)
}

// Probes are what the gates ask outside the state database. Each may be nil:
// then nothing is known there.
type Probes struct {
	Effects Effects
	Poison  Poison
	// Capabilities are asked in their order; the first that misses something
	// speaks.
	Capabilities []Capabilities
}
