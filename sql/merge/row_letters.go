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
	Raw          string  `json:"raw" db:"raw"`
	ColumnName   *string `json:"column_name" db:"column_name"`
	ErrorCode    string  `json:"error_code" db:"error_code"`
	ErrorMessage string  `json:"error_message" db:"error_message"`
	Status       string  `json:"status" db:"status"`
	// SourceFormat is how the source was read, see source.Layout; nil for letters
	// of an earlier version. OriginalRaw is the row as it was read, when somebody
	// edited Raw since. ReturnCount is how often a replay has come back.
	SourceFormat *string   `json:"source_format" db:"source_format"`
	OriginalRaw  *string   `json:"original_raw" db:"original_raw"`
	ReturnCount  int       `json:"return_count" db:"return_count"`
	EnqueuedAt   time.Time `json:"enqueued_at" db:"-"`
	ExpiresAt    time.Time `json:"expires_at" db:"-"`
	// UpdatedAt is the last change of the status or the row; nil for none.
	UpdatedAt *time.Time `json:"updated_at" db:"-"`
}

// rowLetterRow reads instants as every dialect gives them.
type rowLetterRow struct {
	RowLetter
	Enqueued dialect.Time `db:"enqueued_at"`
	Expires  dialect.Time `db:"expires_at"`
	Updated  dialect.Time `db:"updated_at"`
}

// RowLetterFilter narrows a list of row letters. Every field that is set must
// match.
type RowLetterFilter struct {
	IDs                  []int64
	DagID, TaskID, RunID string
	BatchID              string
	Source               string
	ErrorCode            string
	Status               string
	// Since and Until narrow by the moment of quarantine; nil for any.
	Since, Until *time.Time
	// After passes over letters up to this id.
	After int64
	Limit int // 0 for 100, negative for all

	expiresBefore *time.Time
}

// RowLetters lists the rows that merges put aside in a target database, in the
// order in which they were. A database without the table has none.
func RowLetters(ctx context.Context, db *dialect.DB, f RowLetterFilter) ([]RowLetter, error) {
	have, err := ownColumns(ctx, db)
	if err != nil || have["airlock_dead_letter_row"] == nil {
		return nil, err
	}
	query := "SELECT " + strings.Join(letterColumns(have["airlock_dead_letter_row"]), ", ") + " FROM airlock_dead_letter_row"
	conditions, args := f.where()
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
		letters[i].EnqueuedAt, letters[i].ExpiresAt, letters[i].UpdatedAt = r.Enqueued.Time, r.Expires.Time, r.Updated.Ptr()
	}
	return letters, nil
}

// CountRowLetters counts the letters that a filter selects, whatever its limit.
func CountRowLetters(ctx context.Context, db *dialect.DB, f RowLetterFilter) (n int, err error) {
	there, err := tableExists(ctx, db, db.Reader(), "airlock_dead_letter_row")
	if err != nil || !there {
		return 0, err
	}
	query := "SELECT COUNT(*) FROM airlock_dead_letter_row"
	conditions, args := f.where()
	if len(conditions) > 0 {
		query += " WHERE " + strings.Join(conditions, " AND ")
	}
	if err := db.Reader().QueryRowxContext(ctx, query, args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the rows that were put aside: %w", err)
	}
	return n, nil
}

// letterColumns are the columns to read, with nothing in place of those that a
// table of an earlier version lacks.
func letterColumns(have map[string]bool) []string {
	out := []string{
		"id", "dag_id", "run_id", "task_id", "map_index", "batch_id", "source", "source_line", "byte_offset", "row_key", "raw",
		"column_name", "error_code", "error_message", "status", "enqueued_at", "expires_at",
	}
	for _, c := range laterColumns() {
		switch {
		case c.table != "airlock_dead_letter_row":
		case have[c.name]:
			out = append(out, c.name)
		case c.name == "return_count":
			out = append(out, "0 AS return_count")
		default:
			out = append(out, "NULL AS "+c.name)
		}
	}
	return out
}

func (f *RowLetterFilter) where() (conditions []string, args []any) {
	add := func(condition string, v any) {
		conditions, args = append(conditions, condition), append(args, v)
	}
	for _, c := range []struct{ column, value string }{
		{"dag_id", f.DagID}, {"task_id", f.TaskID}, {"run_id", f.RunID}, {"batch_id", f.BatchID}, {"source", f.Source},
		{"error_code", f.ErrorCode}, {"status", f.Status},
	} {
		if c.value != "" {
			add(c.column+" = ?", c.value)
		}
	}
	if f.Since != nil {
		add("enqueued_at >= ?", dialect.Stamp(*f.Since))
	}
	if f.Until != nil {
		add("enqueued_at < ?", dialect.Stamp(*f.Until))
	}
	if f.expiresBefore != nil {
		add("expires_at < ?", dialect.Stamp(*f.expiresBefore))
	}
	if f.After > 0 {
		add("id > ?", f.After)
	}
	if len(f.IDs) > 0 {
		conditions = append(conditions, "id IN ("+dialect.Marks(len(f.IDs))+")")
		for _, id := range f.IDs {
			args = append(args, id)
		}
	}
	return conditions, args
}
