package merge

import (
	"context"
	"fmt"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge/row"
)

// writeLetters moves the bad rows of a range into airlock_dead_letter_row, in the batch's
// transaction. A row that has a letter of the same task from an earlier batch
// (same place and bytes; a query's rows have no place) gets no second one while
// that letter is open for the same reason or after a replay, nor when somebody
// resolved or dropped it: again counts those.
func (b *batch) writeLetters(ctx context.Context, q runner, lo, hi int64) (again int64, err error) {
	if b.bad.n == 0 {
		return 0, nil
	}
	var bad int64
	if err := q.QueryRowxContext(ctx, "SELECT COUNT(*) FROM "+b.p.bad()+" WHERE seq >= ? AND seq < ?", lo, hi).Scan(&bad); err != nil {
		return 0, err
	}
	now := b.e.Clock.Now()
	o := b.job.Owner
	same := "IS"
	if !b.e.DB.IsSQLite() {
		same = "<=>"
	}
	r, err := q.ExecContext(ctx, `INSERT INTO airlock_dead_letter_row (dag_id, run_id, task_id, map_index, batch_id, source, source_line, byte_offset, row_key, raw,
			column_name, error_code, error_message, source_format, status, enqueued_at, expires_at)
		SELECT ?, ?, ?, ?, ?, b.source, b.source_line, b.byte_offset, b.row_key, b.raw, b.column_name, b.error_code, b.error_message, b.source_format, ?, ?, ?
		FROM `+b.p.bad()+` b WHERE b.seq >= ? AND b.seq < ? AND NOT EXISTS (SELECT 1 FROM airlock_dead_letter_row l WHERE l.status IN (?, ?, ?) AND l.dag_id = ? AND l.task_id = ?
			AND (l.source_line = b.source_line OR b.byte_offset IS NULL) AND l.byte_offset `+same+` b.byte_offset AND l.source = b.source
			AND (l.error_code = b.error_code OR l.return_count > 0 OR l.status <> ?) AND COALESCE(l.original_raw, l.raw) = b.raw) ORDER BY b.seq`,
		o.DagID, o.RunID, o.TaskID, o.MapIndex, b.id, string(dag.LetterQuarantined), dialect.Stamp(now), dialect.Stamp(now.Add(letterTTL)), lo, hi,
		string(dag.LetterQuarantined), string(dag.LetterResolved), string(dag.LetterDropped), o.DagID, o.TaskID, string(dag.LetterQuarantined))
	if isRowFault(err) {
		return 0, problem(codeLetters, "airlock_dead_letter_row of %s takes no letters: %s; nothing was written", b.e.DB, err).
			hint("repair the table; the step runs again then")
	}
	if err != nil {
		return 0, fmt.Errorf("write the dead letters: %w", err)
	}
	written, err := r.RowsAffected()
	if err != nil {
		return 0, err
	}
	return bad - written, nil
}

// countCodes counts the bad rows of a range by their code.
func (b *batch) countCodes(ctx context.Context, q runner, lo, hi int64) (map[string]int64, error) {
	if b.bad.n == 0 {
		return nil, nil
	}
	rows, err := q.QueryxContext(ctx, "SELECT error_code, COUNT(*) FROM "+b.p.bad()+" WHERE seq >= ? AND seq < ? GROUP BY error_code", lo, hi)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	out := map[string]int64{}
	for rows.Next() {
		var code string
		var n int64
		if err := rows.Scan(&code, &n); err != nil {
			return nil, err
		}
		out[code] = n
	}
	return out, rows.Err()
}

// tooManyBad is the failure of a batch with more bad rows than the step allows.
func (b *batch) tooManyBad(read int64) error {
	written := "nothing was written"
	if b.sum.RowsRead > 0 {
		written = fmt.Sprintf("nothing was written beyond the %d rows of the chunks before", b.sum.RowsRead)
	}
	text := fmt.Sprintf("%d of %d rows read are bad, which is more than bad_rows allows (%s); %s", b.bad.n, read, b.job.Spec.BadRows, written)
	for i := range b.bad.first {
		r := &b.bad.first[i]
		text += fmt.Sprintf("\n  %s:%d: %s", r.source, r.line, r.fault.Code)
		if r.fault.Column != "" {
			text += " " + r.fault.Column
		}
		text += ": " + r.fault.Message
	}
	return problem(CodeTooManyBadRows, "%s", text).hint("correct the source or the step's columns, or raise bad_rows")
}

// String says the limits.
func (b BadRows) String() string {
	switch {
	case b.Default:
		return fmt.Sprintf("by default at most %.0f%%, from %d bad rows on", defaultMaxRatio*100, defaultMinBad)
	case b.Max >= 0 && b.MaxRatio >= 0:
		return fmt.Sprintf("max: %d, max_ratio: %v", b.Max, b.MaxRatio)
	case b.Max >= 0:
		return fmt.Sprintf("max: %d", b.Max)
	default:
		return fmt.Sprintf("max_ratio: %v", b.MaxRatio)
	}
}

// lateCode names the refusal of a row by the target.
func lateCode(err error) row.Code {
	n, _ := dialect.Number(err)
	switch class := dialect.ClassOf(err); {
	case class == dialect.ClassDuplicate:
		return row.UniqueConflict
	case class == dialect.ClassForeignKey:
		return row.ForeignKey
	case n == 4025, n == 3819, n == 275: // CHECK: MariaDB, MySQL, SQLite
		return row.CheckConstraint
	case n == 1048, n == 1364, n == 1299: // NOT NULL, no default; SQLite's NOT NULL
		return row.NullNotAllowed
	default:
		return row.Rejected
	}
}
