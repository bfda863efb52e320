package merge

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// RowLetter is one row that a merge put aside: table airlock_dead_letter_row of
// the target database.
type RowLetter struct {
	ID int64 `json:"id" db:"id"`
	dag.TaskInstanceKey
	BatchID string `json:"batch_id" db:"batch_id"`
	Source  string `json:"source" db:"source"`
	// SourceLine counts from 1; ByteOffset and RowKey are nil where the source
	// has none.
	SourceLine int64   `json:"source_line" db:"source_line"`
	ByteOffset *int64  `json:"byte_offset" db:"byte_offset"`
	RowKey     *string `json:"row_key" db:"row_key"`
	// Raw is the row as it was read.
	Raw          string    `json:"raw" db:"raw"`
	ColumnName   *string   `json:"column_name" db:"column_name"`
	ErrorCode    string    `json:"error_code" db:"error_code"`
	ErrorMessage string    `json:"error_message" db:"error_message"`
	Status       string    `json:"status" db:"status"`
	EnqueuedAt   time.Time `json:"enqueued_at" db:"-"`
	ExpiresAt    time.Time `json:"expires_at" db:"-"`
}

// rowLetterRow reads instants as every dialect gives them.
type rowLetterRow struct {
	RowLetter
	Enqueued dialect.Time `db:"enqueued_at"`
	Expires  dialect.Time `db:"expires_at"`
}

// RowLetterFilter narrows a list of row letters. Every field that is set must
// match.
type RowLetterFilter struct {
	DagID, TaskID, RunID string
	BatchID              string
	ErrorCode            string
	Status               string
	Limit                int // 0 for 100, negative for all
}

// RowLetters lists the rows that merges put aside in a target database, in the
// order in which they were. A database without the table has none.
func RowLetters(ctx context.Context, db *dialect.DB, f RowLetterFilter) ([]RowLetter, error) {
	there, err := tableExists(ctx, db, db.Reader(), "airlock_dead_letter_row")
	if err != nil || !there {
		return nil, err
	}
	query := `SELECT id, dag_id, run_id, task_id, map_index, batch_id, source, source_line, byte_offset, row_key, raw,
		column_name, error_code, error_message, status, enqueued_at, expires_at FROM airlock_dead_letter_row`
	var conditions []string
	var args []any
	for _, c := range []struct{ column, value string }{
		{"dag_id", f.DagID}, {"task_id", f.TaskID}, {"run_id", f.RunID}, {"batch_id", f.BatchID}, {"error_code", f.ErrorCode}, {"status", f.Status},
	} {
		if c.value != "" {
			conditions = append(conditions, c.column+" = ?")
			args = append(args, c.value)
		}
	}
	if len(conditions) > 0 {
		query += " WHERE " + strings.Join(conditions, " AND ")
	}
	query += " ORDER BY id"
	if f.Limit == 0 {
		f.Limit = 100
	}
	if f.Limit > 0 {
		query += " LIMIT ?"
		args = append(args, f.Limit)
	}
	var rows []rowLetterRow
	if err := db.Reader().SelectContext(ctx, &rows, query, args...); err != nil {
		return nil, fmt.Errorf("list the rows that were put aside: %w", err)
	}
	letters := make([]RowLetter, len(rows))
	for i, r := range rows {
		letters[i] = r.RowLetter
		letters[i].EnqueuedAt, letters[i].ExpiresAt = r.Enqueued.Time, r.Expires.Time
	}
	return letters, nil
}
