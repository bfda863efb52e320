package dag

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// truncatedPayload is how much of an oversized payload a letter keeps, in
// bytes.
const truncatedPayload = 64 << 10

// maxErrorCode is the longest error code of a letter, in bytes.
const maxErrorCode = 64

// SealInput is what a dead letter is made from. Only TI and At are needed: what
// is missing is filled in.
type SealInput struct {
	TI  TaskInstance
	Run Run
	// Err is the last failure.
	Err *TaskError
	// Attempts is how many attempts were made; at least 1 is stored.
	Attempts int
	// Payload is what the attempt worked on; the instance's own when empty, and
	// an empty object when it has none.
	Payload json.RawMessage
	// IdempotencyKey of the effect; Err's when empty, then
	// IdempotencyKey of TI.
	IdempotencyKey string
	// ReturnCount is how often a replay has come back so far.
	ReturnCount int
	// FirstFailedAt is the end of the first failed attempt; that of the instance
	// when zero, then At.
	FirstFailedAt time.Time
	// At is the instant of sealing, UTC.
	At time.Time
	// Mask, when set, takes secrets out of the message and the stack trace.
	Mask func(string) string
}

// IdempotencyKey is the key of a task instance's effect when the step names
// none: the intent, so the same in every attempt and replay, and another one
// each time that a success is run again (TaskInstance.Intent).
func IdempotencyKey(k TaskInstanceKey, intent int) string {
	s := k.DagID + "/" + k.TaskID + "/" + k.RunID
	if k.MapIndex >= 0 {
		s += fmt.Sprintf("/%d", k.MapIndex)
	}
	if intent > 0 {
		s += fmt.Sprintf("#%d", intent)
	}
	return s
}

// Seal makes the dead letter of a task instance that leaves the retry loop
// without success. It never fails: what cannot be built is replaced, texts
// that are too long are cut with a mark, and a payload that is not JSON or is
// larger than MaxPayload is wrapped as {"truncated", "sha256", "size"}.
//
// A transient error is sealed as exhausted, or as crash_loop when it was the
// crash budget that ran out. Values of the payload whose keys look like
// secrets are masked, so a replay takes the payload from the task instance.
func Seal(in SealInput) DeadLetter {
	e := in.Err
	if e == nil {
		e = &TaskError{Class: ClassPermanent, Code: "UNKNOWN", Message: "the attempt failed and left no error"}
	}
	class, code, message := sealedError(e, in.Mask)
	at := in.At.UTC().Truncate(time.Microsecond)
	first := in.FirstFailedAt
	if first.IsZero() && in.TI.FirstFailedAt != nil {
		first = *in.TI.FirstFailedAt
	}
	if first.IsZero() || first.After(at) {
		first = at
	}
	payload := sealedPayload(in.Payload, in.TI.Payload)
	return DeadLetter{
		JobID: in.TI.TaskInstanceKey.String(), TaskInstanceKey: in.TI.TaskInstanceKey, LogicalDate: in.Run.LogicalDate,
		Queue: cmp.Or(in.TI.Queue, DefaultQueue), AttemptCount: max(1, in.Attempts),
		ErrorClass: class, ErrorCode: code, ErrorMessage: message,
		StackTrace:  CutText(masked(in.Mask, e.Stack), MaxStackTrace),
		Fingerprint: Fingerprint(class, code, message, in.TI.DagID, in.TI.TaskID),
		Payload:     payload, OriginalPayloadHash: PayloadHash(payload), AssetSHA256: e.AssetSHA256,
		IdempotencyKey: cmp.Or(in.IdempotencyKey, e.IdempotencyKey, IdempotencyKey(in.TI.TaskInstanceKey, in.TI.Intent())),
		ReturnCount:    max(0, in.ReturnCount), Status: LetterSealed, SchemaVersion: LetterSchemaVersion,
		FirstFailedAt: first.UTC().Truncate(time.Microsecond), EnqueuedAt: at, ExpiresAt: at.Add(LetterTTL), UpdatedAt: at,
	}
}

// sealedError is a last error as a letter keeps it.
func sealedError(e *TaskError, mask func(string) string) (class ErrorClass, code, message string) {
	class = sealedClass(e)
	code = CutText(e.Code, maxErrorCode)
	if code == "" {
		code = "UNKNOWN"
	}
	message = e.Message
	if message == "" {
		message = code
	}
	if e.Hint != "" {
		gap := " "
		if strings.Contains(message, "\n") { // a list: the hint is not of its last line alone
			gap = "\n"
		}
		message += gap + "(" + e.Hint + ")"
	}
	return class, code, CutText(masked(mask, message), MaxErrorMessage)
}

// sealedClass is the class of a letter for a last error. A class that is not in
// the list is one nobody classified: transient until its budget ran out.
func sealedClass(e *TaskError) ErrorClass {
	switch e.Class {
	case ClassPermanent, ClassPoison, ClassConfiguration, ClassCapability, ClassExhausted, ClassCrashLoop:
		return e.Class
	default:
		if e.Budget == BudgetCrashes {
			return ClassCrashLoop
		}
		return ClassExhausted
	}
}

// sealedPayload is the payload as a letter keeps it: canonical, masked, and
// not larger than MaxPayload.
func sealedPayload(given, own json.RawMessage) json.RawMessage {
	raw := given
	if len(raw) == 0 {
		raw = own
	}
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	text := []byte(raw)
	if value, err := decodeExact(raw); err == nil {
		if canonical, err := encodeExact(MaskValues(value)); err == nil {
			if len(canonical) <= MaxPayload {
				return canonical
			}
			text = canonical
		}
	}
	wrapped, err := encodeExact(map[string]any{
		"truncated": CutText(string(text), truncatedPayload),
		"sha256":    PayloadHash(raw),
		"size":      len(raw),
	})
	if err != nil {
		return json.RawMessage("{}") // cannot happen: two texts and a number
	}
	return wrapped
}

// masked applies a mask that may be missing or broken: a text that could not be
// masked is not shown.
func masked(mask func(string) string, s string) (out string) {
	if mask == nil || s == "" {
		return s
	}
	defer func() {
		if p := recover(); p != nil {
			out = fmt.Sprintf("[%d bytes not shown: masking failed]", len(s))
		}
	}()
	return mask(s)
}
