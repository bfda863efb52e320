package dag

import "errors"

// ErrCode is the machine-readable kind of an Error.
type ErrCode string

// Codes of Error. cmd maps them to exit codes.
const (
	ErrNotFound ErrCode = "not_found"
	ErrExists   ErrCode = "exists"
	ErrInvalid  ErrCode = "invalid"  // wrong use: bad argument or input
	ErrConflict ErrCode = "conflict" // the state of the thing does not allow it
	ErrInternal ErrCode = "internal"
)

// Error is an error with a code to test for and a hint for a person.
type Error struct {
	Code ErrCode
	Op   string // what was tried: "trigger media_ingest"
	Hint string // what to do about it
	Err  error
}

// Error implements error.
func (e *Error) Error() string {
	s := e.Op
	if e.Err != nil {
		if s != "" {
			s += ": "
		}
		s += e.Err.Error()
	}
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf is the code of the first Error in the chain, ErrInternal for any
// other error and "" for nil.
func CodeOf(err error) ErrCode {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ErrInternal
}

// ErrOutcomeUnknown is what an error of the state database is, by errors.Is,
// when nobody can tell whether the change was made: the connection broke in
// COMMIT and the database could not be asked since.
var ErrOutcomeUnknown = errors.New("nobody knows whether the change was made")
