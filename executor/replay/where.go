package replay

import (
	"errors"
	"fmt"

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
func letterFields(c *dag.ReplayCase) map[string]any {
	l := &c.Letter
	fields := map[string]any{
		"id": int(l.ID), "dag_id": l.DagID, "run_id": l.RunID, "task_id": l.TaskID, "map_index": l.MapIndex, "queue": l.Queue,
		"error_class": string(l.ErrorClass), "error_code": l.ErrorCode, "error_message": l.ErrorMessage, "fingerprint": l.Fingerprint,
		"attempt_count": l.AttemptCount, "return_count": l.ReturnCount, "idempotency_key": l.IdempotencyKey, "asset_sha256": l.AssetSHA256,
		"first_failed_at": l.FirstFailedAt, "enqueued_at": l.EnqueuedAt, "expires_at": l.ExpiresAt, "logical_date": nil, "payload": c.Payload,
	}
	if l.LogicalDate != nil {
		fields["logical_date"] = *l.LogicalDate
	}
	return fields
}

// NewWhere reads a condition. The error says where it is wrong.
func NewWhere(text string) (*Where, error) {
	env := letterFields(&dag.ReplayCase{Payload: map[string]any{}})
	env["payload"], env["logical_date"] = any(nil), any(nil)
	program, err := expr.Compile(text, expr.Env(env), expr.AsBool(), expr.MaxNodes(1000))
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
	out, err := expr.Run(w.program, letterFields(c))
	if err != nil {
		return false, err
	}
	matched, ok := out.(bool)
	if !ok {
		return false, errors.New("the condition is neither true nor false")
	}
	return matched, nil
}
