package merge

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// Rules of Check.
const (
	RuleAccounting = "effect-accounting"   // rows read are not what became of them
	RuleLetters    = "row-letters-missing" // fewer letters than rows quarantined
	RuleWatermark  = "watermark-behind"    // a watermark below what a batch moved it to
	RuleResult     = "effect-unreadable"   // the stored result is not what the columns say
	// RuleDecision: a row letter was closed and nobody's decision says so.
	RuleDecision = "row-letter-undecided"
)

// Check looks at a target database: whether every finished effect accounts for
// its rows and has its letters, and whether each watermark is where the batches
// left it. A database without Airlock's tables has no violations.
func Check(ctx context.Context, db *dialect.DB) ([]dag.Violation, error) {
	there, err := tableExists(ctx, db, db.Reader(), "airlock_effect")
	if err != nil || !there {
		return nil, err
	}
	letters, err := letterCounts(ctx, db)
	if err != nil {
		return nil, err
	}
	marks, err := storedMarks(ctx, db)
	if err != nil {
		return nil, err
	}
	changed, err := changes(ctx, db)
	if err != nil {
		return nil, err
	}
	rows, err := db.Reader().QueryxContext(ctx, `SELECT idempotency_key, rows_read, rows_merged, rows_unchanged, rows_quarantined, rows_superseded, result, committed_at
		FROM airlock_effect WHERE status = 'done' ORDER BY idempotency_key`)
	if err != nil {
		return nil, fmt.Errorf("read the effects: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var out []dag.Violation
	for rows.Next() {
		var key string
		var c Counts
		var result []byte
		var at dialect.Time
		if err := rows.Scan(&key, &c.Read, &c.Merged, &c.Unchanged, &c.Quarantined, &c.Superseded, &result, &at); err != nil {
			return nil, err
		}
		for _, v := range judge(key, c, result, letters, marks) {
			if v.Rule == RuleWatermark && !at.Time.After(changed[watermarkOf(result)]) {
				continue // a person has moved it since
			}
			out = append(out, v)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	undecided, err := undecidedLetters(ctx, db)
	return append(out, undecided...), err
}

// undecidedLetters finds closed letters without a row of the audit.
func undecidedLetters(ctx context.Context, db *dialect.DB) ([]dag.Violation, error) {
	there, err := tableExists(ctx, db, db.Reader(), "airlock_dead_letter_row_audit")
	if err != nil || !there {
		return nil, err
	}
	var found []struct {
		ID     int64  `db:"id"`
		Status string `db:"status"`
	}
	if err := db.Reader().SelectContext(ctx, &found, `SELECT l.id, l.status FROM airlock_dead_letter_row l WHERE l.status IN ('resolved', 'dropped', 'expired')
		AND NOT EXISTS (SELECT 1 FROM airlock_dead_letter_row_audit a WHERE a.dead_letter_id = l.id) ORDER BY l.id LIMIT 100`); err != nil {
		return nil, fmt.Errorf("look for closed letters without a decision: %w", err)
	}
	var out []dag.Violation
	for _, l := range found {
		out = append(out, dag.Violation{Rule: RuleDecision, Subject: fmt.Sprintf("row letter %d", l.ID), Found: "it is " + l.Status + " and no decision says so"})
	}
	return out, nil
}

func judge(key string, c Counts, result []byte, letters map[string]int64, marks map[string]string) []dag.Violation {
	var out []dag.Violation
	add := func(rule, format string, args ...any) {
		out = append(out, dag.Violation{Rule: rule, Subject: key, Found: fmt.Sprintf(format, args...)})
	}
	if sum := c.Merged + c.Unchanged + c.Quarantined + c.Superseded; sum != c.Read {
		add(RuleAccounting, "read %d rows, and %d are accounted for", c.Read, sum)
	}
	var d Detail
	if err := json.Unmarshal(result, &d); err != nil {
		add(RuleResult, "the result is not JSON: %v", err)
		return out
	}
	if d.BatchID == "" {
		return out // a sql step's effect
	}
	if d.RowsRead != c.Read || d.RowsMerged != c.Merged || d.RowsUnchanged != c.Unchanged || d.RowsQuarantined != c.Quarantined || d.RowsSuperseded != c.Superseded {
		add(RuleResult, "the result says %s, the columns %+v", d.Summary(), c)
	}
	if need := c.Quarantined - d.RowsQuarantinedAgain; letters[d.BatchID] < need {
		add(RuleLetters, "%d rows were quarantined and %d letters are there", need, letters[d.BatchID])
	}
	if d.Watermark != "" && d.WatermarkTo != nil {
		have, ok := marks[d.Watermark]
		switch {
		case !ok:
			add(RuleWatermark, "the watermark %s was moved to %s and is not there", d.Watermark, *d.WatermarkTo)
		case markLess(have, *d.WatermarkTo):
			add(RuleWatermark, "the watermark %s was moved to %s and stands at %s", d.Watermark, *d.WatermarkTo, have)
		}
	}
	return out
}

func watermarkOf(result []byte) string {
	var d Detail
	_ = json.Unmarshal(result, &d) // what cannot be read is another violation
	return d.Watermark
}

// markLess compares watermarks whose kind is not known: numbers as numbers.
func markLess(a, b string) bool {
	return markNumber.less(a, b)
}

func letterCounts(ctx context.Context, db *dialect.DB) (map[string]int64, error) {
	rows, err := db.Reader().QueryxContext(ctx, "SELECT batch_id, COUNT(*) FROM airlock_dead_letter_row GROUP BY batch_id")
	if err != nil {
		return nil, fmt.Errorf("count the row letters: %w", err)
	}
	defer func() { _ = rows.Close() }()
	out := map[string]int64{}
	for rows.Next() {
		var id string
		var n int64
		if err := rows.Scan(&id, &n); err != nil {
			return nil, err
		}
		out[id] = n
	}
	return out, rows.Err()
}

func storedMarks(ctx context.Context, db *dialect.DB) (map[string]string, error) {
	rows, err := db.Reader().QueryxContext(ctx, "SELECT pipeline, COALESCE(value, '') FROM airlock_watermark")
	if err != nil {
		return nil, fmt.Errorf("read the watermarks: %w", err)
	}
	defer func() { _ = rows.Close() }()
	out := map[string]string{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		out[name] = value
	}
	return out, rows.Err()
}
