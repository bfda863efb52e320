package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/airlock-dag/airlock/sql/merge/row"
)

// Reader gives the rows of a source in their order.
type Reader interface {
	// Next gives the next row, or io.EOF after the last. The record and its
	// values are valid until the next call. Another error concerns the source
	// as a whole.
	Next(ctx context.Context) (*row.Record, error)
	// Close frees what the reader holds. It may be called more than once.
	Close() error
}

// Wanted are the columns that a reader is asked for, by the source's own names.
type Wanted struct {
	// Names are the columns in the order of Record.Values.
	Names []string
	// Optional are those whose absence from a header is no error; JSON objects
	// may lack any field.
	Optional map[string]bool
	// All takes every column that the source has: Names is then empty, and the
	// reader's Columns tell what there is.
	All bool
	// RejectUnknown makes a field that is not wanted a fault of its row (JSON)
	// or of the file (CSV).
	RejectUnknown bool
}

// DefaultMaxRow is the greatest length of a row in bytes when nothing is said.
const DefaultMaxRow = 4 << 20

// rawKept is how much of a row beyond the limit is kept.
const rawKept = 64 << 10

// Problems of a source as a whole. Each is wrapped with the file's name.
var (
	// ErrEncoding: the file is in an encoding that is not supported.
	ErrEncoding = errors.New("encoding is not supported")
	// ErrHeader: the header lacks a wanted column, or names one twice.
	ErrHeader = errors.New("the header does not fit")
	// ErrTruncated: a packed file ends before its end.
	ErrTruncated = errors.New("the packed file is cut short")
	// ErrDamaged: a packed or Parquet file cannot be decoded.
	ErrDamaged = errors.New("the file is damaged")
	// ErrTooLarge: a part of the file would take more memory than is allowed.
	ErrTooLarge = errors.New("the file asks for too much memory")
	// ErrChanged: the file was written to while it was read.
	ErrChanged = errors.New("the file changed while it was read")
	// ErrNotAFile: a named pipe, a device or the like, which might never end.
	ErrNotAFile = errors.New("it is no regular file")
	// ErrNotFound: no file matches.
	ErrNotFound = errors.New("no file matches")
)

// fault builds a fault.
func fault(code row.Code, column, format string, args ...any) *row.Fault {
	return &row.Fault{Code: code, Column: column, Message: fmt.Sprintf(format, args...)}
}
