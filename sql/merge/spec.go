package merge

import (
	"time"

	"github.com/airlock-dag/airlock/sql/merge/column"
	"github.com/airlock-dag/airlock/sql/merge/mergesql"
	"github.com/airlock-dag/airlock/sql/merge/source"
)

// Spec is what a merge step says, read and checked by ParseSpec.
type Spec struct {
	// Target is the table, with its database before a dot where it has one.
	Target string
	// CreateTarget makes the table when it is not there.
	CreateTarget bool
	Source       SourceSpec
	// Columns are empty when the step names none: they come from the query and
	// the target then.
	Columns []*column.Column
	// Key pairs the target's key columns with the source's names.
	Key []mergesql.Pair
	// Version is the column that tells newer from older; empty for none.
	Version string
	// FailOnDuplicates: the same key twice in a batch fails it; else the newest
	// row wins.
	FailOnDuplicates bool
	// FoldKeys: keys that differ as texts and are the same to the target's
	// collation are one key; else a batch that has both fails.
	FoldKeys bool
	// Clauses are tried in their order; Columns of a clause narrows All.
	Clauses   []Clause
	Watermark *WatermarkSpec
	BadRows   BadRows
	// Chunk is the number of rows in a transaction, 0 for all in one.
	Chunk int
	// SQL is the MERGE statement that the step was written as, or empty.
	SQL string
	// Parsed is SQL taken apart.
	Parsed *mergesql.Statement
	// keepEqual: a row of the target with the same version stays as it is.
	keepEqual bool
}

// Clause is one rule for matched or unmatched rows.
type Clause struct {
	mergesql.Clause
	// Columns are those that Update writes when All is set and the step names
	// some.
	Columns []string
}

// SourceSpec is where the rows come from; exactly one of Files, Query and XCom
// is set.
type SourceSpec struct {
	Files         []string // patterns
	Format        string   // csv or jsonl
	Delimiter     byte
	Quote         byte
	NoQuote       bool
	NoHeader      bool
	Names         []string
	Null          []string
	Encoding      source.Encoding
	RejectUnknown bool
	OnMissing     string // fail, skip or empty
	MaxRow        int
	FinalNewline  bool

	Query      string
	Parameters map[string]any
	ConnID     string // of the query; empty for the target's

	XCom    string // task id
	XComKey string
}

// WatermarkSpec is how far a pipeline has come.
type WatermarkSpec struct {
	Column string
	// Name of the pipeline in airlock_watermark.
	Name string
	// Lookback is read again before the watermark: a duration for timestamps
	// and dates, a number for integers. LookbackSet tells whether the step says.
	Lookback      time.Duration
	LookbackCount int64
	LookbackSet   bool
	// Lag keeps that much before the present time out of a query's batch.
	Lag time.Duration
	// TieBreaker is stored beside the watermark.
	TieBreaker string
	// AllowFuture lets rows from the future move it past the present.
	AllowFuture bool
	// Initial is the lower bound of the first batch of a query; empty for all.
	Initial string
}

// BadRows is how many bad rows a batch may have; a batch with more fails and
// changes nothing.
type BadRows struct {
	// Max is the greatest number, -1 for no limit.
	Max int64
	// MaxRatio is the greatest share of the rows read, negative for no limit.
	MaxRatio float64
	// Default is set when the step says nothing: a batch of which more than
	// nine in ten rows are bad fails, from ten bad rows on.
	Default bool
}

// Default limits of bad rows.
const (
	defaultMaxRatio = 0.9
	defaultMinBad   = 10
)

// Exceeded tells whether a batch has too many bad rows.
func (b BadRows) Exceeded(bad, read int64) bool {
	if b.Default {
		return bad >= defaultMinBad && float64(bad) > defaultMaxRatio*float64(read)
	}
	return (b.Max >= 0 && bad > b.Max) || (b.MaxRatio >= 0 && float64(bad) > b.MaxRatio*float64(read))
}
