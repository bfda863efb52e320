package replay

import (
	"errors"
	"fmt"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"

	"github.com/airlock-dag/airlock/dag"
)

// Where is a condition over a letter and its payload, in the expression language
// of expr-lang: payload.codec == "h264" and attempt_count > 2.
type Where struct {
	text    string
	program *vm.Program
}

// letterFields are the names that a condition may use.
type letterFields struct {
	ID             int       `expr:"id"`
	DagID          string    `expr:"dag_id"`
	RunID          string    `expr:"run_id"`
	TaskID         string    `expr:"task_id"`
	MapIndex       int       `expr:"map_index"`
	LogicalDate    any       `expr:"logical_date"` // a time, or nil
	Queue          string    `expr:"queue"`
	ErrorClass     string    `expr:"error_class"`
	ErrorCode      string    `expr:"error_code"`
	ErrorMessage   string    `expr:"error_message"`
	Fingerprint    string    `expr:"fingerprint"`
	AttemptCount   int       `expr:"attempt_count"`
	ReturnCount    int       `expr:"return_count"`
	IdempotencyKey string    `expr:"idempotency_key"`
	AssetSHA256    string    `expr:"asset_sha256"`
	FirstFailedAt  time.Time `expr:"first_failed_at"`
	EnqueuedAt     time.Time `expr:"enqueued_at"`
	ExpiresAt      time.Time `expr:"expires_at"`
	Payload        any       `expr:"payload"`
}

func fieldsOf(c *dag.ReplayCase) letterFields {
	l := &c.Letter
	f := letterFields{
		ID: int(l.ID), DagID: l.DagID, RunID: l.RunID, TaskID: l.TaskID, MapIndex: l.MapIndex, Queue: l.Queue, ErrorClass: string(l.ErrorClass),
		ErrorCode: l.ErrorCode, ErrorMessage: l.ErrorMessage, Fingerprint: l.Fingerprint, AttemptCount: l.AttemptCount, ReturnCount: l.ReturnCount,
		IdempotencyKey: l.IdempotencyKey, AssetSHA256: l.AssetSHA256, FirstFailedAt: l.FirstFailedAt, EnqueuedAt: l.EnqueuedAt, ExpiresAt: l.ExpiresAt,
		Payload: c.Payload,
	}
	if l.LogicalDate != nil {
		f.LogicalDate = *l.LogicalDate
	}
	return f
}

// NewWhere reads a condition. The error says where it is wrong.
func NewWhere(text string) (*Where, error) {
	program, err := expr.Compile(text, expr.Env(letterFields{}), expr.AsBool(), expr.MaxNodes(1000))
	if err != nil {
		return nil, fmt.Errorf("the condition cannot be read: %w", err)
	}
	return &Where{text: text, program: program}, nil
}

// String is the condition as it was given.
func (w *Where) String() string { return w.text }

// Match asks the condition about a letter, whose Payload is decoded. A payload
// without the asked key gives nil there; a comparison that makes no sense (a
// text with a number) is an error.
func (w *Where) Match(c *dag.ReplayCase) (matched bool, err error) {
	defer func() {
		if p := recover(); p != nil { // a condition must not end a drain
			err = fmt.Errorf("the condition failed: %v", p)
		}
	}()
	out, err := expr.Run(w.program, fieldsOf(c))
	if err != nil {
		return false, err
	}
	matched, ok := out.(bool)
	if !ok {
		return false, errors.New("the condition is neither true nor false")
	}
	return matched, nil
}
