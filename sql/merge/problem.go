package merge

import (
	"fmt"

	"github.com/airlock-dag/airlock/dag"
)

// Codes of failed merge steps, a closed list.
const (
	// CodeTooManyBadRows: more bad rows than bad_rows allows; nothing was written.
	CodeTooManyBadRows = "TOO_MANY_BAD_ROWS"
	// CodeKeyReused: the idempotency key stands for another effect.
	CodeKeyReused = "EFFECT_KEY_REUSED"
	// CodeFenced: a newer attempt has taken the effect over.
	CodeFenced = "LEASE_LOST"
	// CodeSourceMissing: no file matches the pattern.
	CodeSourceMissing = "MERGE_SOURCE_NOT_FOUND"
	// CodeInvalid: a key of the step cannot be used.
	CodeInvalid = "INVALID_ARGUMENT"

	codeSourceEncoding  = "MERGE_SOURCE_ENCODING"
	codeSourceHeader    = "MERGE_SOURCE_COLUMNS"
	codeSourceTruncated = "MERGE_SOURCE_TRUNCATED"
	codeSourceChanged   = "MERGE_SOURCE_CHANGED"
	codeSourceDamaged   = "MERGE_SOURCE_DAMAGED"
	codeTargetMissing   = "MERGE_TARGET_MISSING"
	codeTargetColumns   = "MERGE_TARGET_COLUMNS"
	codeTargetTables    = "MERGE_TABLES_MISSING"
	codeKey             = "MERGE_KEY_NOT_UNIQUE"
	codeDuplicates      = "MERGE_DUPLICATE_KEYS"
	codeFolded          = "MERGE_KEYS_FOLDED"
	codeWatermark       = "MERGE_WATERMARK"
	codeContended       = "MERGE_CONTENDED"
	codeAccounting      = "MERGE_ACCOUNTING"
	codeRowsIgnored     = "MERGE_ROWS_IGNORED"
	codeExpression      = "MERGE_EXPRESSION"
	codeLetters         = "MERGE_LETTERS_REFUSED"
)

// classes of the codes; what is not here is permanent.
func classOf(code string) dag.ErrorClass {
	switch code {
	case CodeInvalid, codeTargetMissing, codeTargetColumns, codeTargetTables, codeKey, codeWatermark, codeExpression:
		return dag.ClassConfiguration
	case CodeFenced, codeSourceTruncated, codeSourceChanged, codeContended, codeLetters:
		return dag.ClassTransient
	case CodeKeyReused:
		return dag.ClassPoison
	default:
		return dag.ClassPermanent
	}
}

// failure is a step's own error with a code; it unwraps to a *dag.TaskError.
type failure struct{ e dag.TaskError }

func problem(code, format string, args ...any) *failure {
	return &failure{dag.TaskError{Class: classOf(code), Code: code, Message: fmt.Sprintf(format, args...)}}
}

func (f *failure) hint(format string, args ...any) *failure {
	f.e.Hint = fmt.Sprintf(format, args...)
	return f
}

// Error implements error.
func (f *failure) Error() string { return f.e.Error() }

// Unwrap gives the error as the executor takes it.
func (f *failure) Unwrap() error { return &f.e }
