package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator"
)

// errStateAway stops an attempt whose lease could not be renewed because the
// state database does not answer. It is an ErrLeaseLost to the operator, and to
// the decision it is nobody's failure.
var errStateAway = fmt.Errorf("the state database is away: %w", operator.ErrLeaseLost)

// maxReleases is how often in a row one worker hands an instance back for
// trouble with the state database. A hand-back is written to that database, so
// a database that is away cannot use it up; what takes the hand-back and refuses
// the rest each time is broken in a way that waiting does not mend.
const maxReleases = 10

// trouble remembers that the state database failed an attempt: what the step
// made of it is then not the step's fault.
type trouble struct {
	mu  sync.Mutex
	err error
}

// note looks at an error on its way to the step and gives it back. An error
// with a code is an answer of the database, not its absence; one of an attempt
// that was stopped tells nothing.
func (t *trouble) note(ctx context.Context, err error) error {
	var answer *dag.Error
	if err == nil || ctx.Err() != nil || errors.As(err, &answer) || errors.Is(err, operator.ErrLeaseLost) {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
	return err
}

// found is what was noted first.
func (t *trouble) found() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// notingSettings and notingXComs are what a renderer reads, with its errors
// noted: it may make anything of them, even an undefined variable.
type notingSettings struct {
	SettingsStore
	trouble *trouble
}

// Connection implements SettingsStore.
func (s notingSettings) Connection(ctx context.Context, id string) (dag.Connection, error) {
	c, err := s.SettingsStore.Connection(ctx, id)
	return c, s.trouble.note(ctx, err)
}

// Variables implements SettingsStore.
func (s notingSettings) Variables(ctx context.Context) ([]dag.Variable, error) {
	v, err := s.SettingsStore.Variables(ctx)
	return v, s.trouble.note(ctx, err)
}

type notingXComs struct {
	XComReader
	trouble *trouble
}

// XCom implements XComReader.
func (x notingXComs) XCom(ctx context.Context, dagID, runID, taskID, key string, mapIndex *int) (json.RawMessage, error) {
	raw, err := x.XComReader.XCom(ctx, dagID, runID, taskID, key, mapIndex)
	return raw, x.trouble.note(ctx, err)
}

// releases counts hand-backs in a row by instance.
type releases struct {
	mu sync.Mutex
	n  map[int64]int
}

// again tells whether an instance may be handed back once more.
func (r *releases) again(id int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n[id] >= maxReleases {
		delete(r.n, id)
		return false
	}
	r.n[id]++
	return true
}

// forget is told of an attempt that came to an end of its own.
func (r *releases) forget(id int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.n, id)
}
