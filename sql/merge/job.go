package merge

import (
	"context"
	"fmt"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// Job is one batch to merge.
type Job struct {
	Spec   *Spec
	Source Source
	// Key is the effect's idempotency key, Owner and Fence the attempt's: of two
	// attempts of one task instance the one with the higher fence wins.
	Key   string
	Owner dag.TaskInstanceKey
	Fence int64
	// StillMine is asked just before a transaction commits; an error stops it.
	StillMine func(ctx context.Context) error
	// Logf writes a line for people; nil discards.
	Logf func(format string, args ...any)
	// Progress is told the number of rows read so far; nil discards.
	Progress func(rows int64)

	// replay is set when the rows are those of letters, which this batch decides.
	replay *Replay
}

// Engine merges batches into one target database.
type Engine struct {
	DB    *dialect.DB
	Clock dag.Clock
	// Rand draws the waits between tries.
	Rand dag.Rand
}

// Result is what a batch did. RowsRead = RowsMerged + RowsUnchanged +
// RowsQuarantined + RowsSuperseded, always.
type Result struct {
	RowsRead int64 `json:"rows_read"`
	// RowsMerged were inserted, updated or deleted.
	RowsMerged int64 `json:"rows_merged"`
	// RowsUnchanged were in the target already as they came, or no clause took
	// them.
	RowsUnchanged int64 `json:"rows_unchanged"`
	// RowsQuarantined are in airlock_dead_letter_row.
	RowsQuarantined int64 `json:"rows_quarantined"`
	// RowsSuperseded lost against a newer row with their key, in the batch or in
	// the target.
	RowsSuperseded int64 `json:"rows_superseded"`
	// WatermarkFrom and WatermarkTo are the watermark before and after; null
	// when there was none.
	WatermarkFrom *string `json:"watermark_from"`
	WatermarkTo   *string `json:"watermark_to"`
	BatchID       string  `json:"batch_id"`
}

// Detail is what is kept of a batch beside its result.
type Detail struct {
	Result
	RowsInserted int64 `json:"rows_inserted"`
	RowsUpdated  int64 `json:"rows_updated"`
	RowsDeleted  int64 `json:"rows_deleted"`
	// Rows of the target that the source has not; they are none of RowsRead.
	RowsUpdatedBySource int64 `json:"rows_updated_by_source,omitempty"`
	RowsDeletedBySource int64 `json:"rows_deleted_by_source,omitempty"`
	// RowsQuarantinedAgain are those of RowsQuarantined that had an open letter
	// from an earlier batch: no second one is written.
	RowsQuarantinedAgain int64 `json:"rows_quarantined_again"`
	// QuarantinedByCode counts the letters by their code.
	QuarantinedByCode map[string]int64 `json:"quarantined_by_code,omitempty"`
	Target            string           `json:"target"`
	Watermark         string           `json:"watermark,omitempty"`
	WatermarkColumn   string           `json:"watermark_column,omitempty"`
	// Sources are the parts that were read, at most a thousand.
	Sources []Part `json:"sources,omitempty"`
	// AlreadyDone is set when the effect was there before and nothing was done.
	AlreadyDone bool `json:"already_done,omitempty"`
	// Transactions counts those that were committed; Tries how often the work
	// had to be begun.
	Transactions int `json:"transactions,omitempty"`
	Tries        int `json:"tries,omitempty"`
}

func (j *Job) logf(format string, args ...any) {
	if j.Logf != nil {
		j.Logf(format, args...)
	}
}

// Lifetimes of rows in the target. An effect outlives every letter that refers
// to it.
const (
	effectTTL = 30 * 24 * time.Hour
	letterTTL = dag.LetterTTL
)

// Summary is the batch in one line for people.
func (d *Detail) Summary() string {
	text := fmt.Sprintf("read %d rows: %d merged (%d inserted, %d updated, %d deleted), %d unchanged, %d quarantined, %d superseded",
		d.RowsRead, d.RowsMerged, d.RowsInserted, d.RowsUpdated, d.RowsDeleted, d.RowsUnchanged, d.RowsQuarantined, d.RowsSuperseded)
	if d.RowsUpdatedBySource+d.RowsDeletedBySource > 0 {
		text += fmt.Sprintf("; of rows that the source has not %d updated, %d deleted", d.RowsUpdatedBySource, d.RowsDeletedBySource)
	}
	if d.WatermarkTo != nil {
		from := "nothing"
		if d.WatermarkFrom != nil {
			from = *d.WatermarkFrom
		}
		text += fmt.Sprintf("; watermark %s of %s: %s -> %s", d.Watermark, d.WatermarkColumn, from, *d.WatermarkTo)
	}
	return text
}
