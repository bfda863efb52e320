package sqlop

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/dag"
)

// result is what the statements did.
type result struct {
	Statements   int      `json:"statements"`
	RowsAffected int64    `json:"rows_affected"`
	Results      []answer `json:"results,omitempty"`
	// last is set when only the last result is kept.
	Last        bool `json:"last"`
	alreadyDone bool
}

// answer is one result set.
type answer struct {
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
	// Truncated is set when the result has more rows than are kept.
	Truncated bool `json:"truncated,omitempty"`
}

// outcome gives the result as Airflow's operator does: the rows of the last
// result, or a list of such with return_last: false; where no statement gives
// rows, the numbers.
func (r *result) outcome() dag.Outcome {
	out := dag.Outcome{Kind: dag.OutcomeSuccess, XComs: map[string]any{"rows_affected": r.RowsAffected}}
	if len(r.Results) == 0 {
		out.ReturnValue = map[string]any{"statements": r.Statements, "rows_affected": r.RowsAffected}
		return out
	}
	last := r.Results[len(r.Results)-1]
	out.XComs["columns"] = last.Columns
	out.XComs["truncated"] = last.Truncated
	if r.Last {
		out.ReturnValue = last.Rows
		return out
	}
	all := make([][][]any, len(r.Results))
	for i, a := range r.Results {
		all[i] = a.Rows
	}
	out.ReturnValue = all
	return out
}

type runner interface {
	sqlx.ExecerContext
	QueryxContext(ctx context.Context, query string, args ...any) (*sqlx.Rows, error)
}

// runAll runs the statements in their order.
func (s *step) runAll(ctx context.Context, q runner) (*result, error) {
	r := &result{Last: s.returnLast}
	for i := range s.statements {
		b := &s.statements[i]
		if s.t.Progress != nil {
			// A statement's own progress cannot be known.
			s.progress(i)
		}
		if b.ReturnsRows() {
			a, err := s.query(ctx, q, b)
			if err != nil {
				return nil, statementError(b, i, err)
			}
			if s.returnLast {
				r.Results = r.Results[:0]
			}
			r.Results = append(r.Results, *a)
			logf(s.t, "statement %d (%s): %d rows%s", i+1, b.Verb, len(a.Rows), map[bool]string{true: " and more, which are not kept"}[a.Truncated])
		} else {
			done, err := q.ExecContext(ctx, b.text, b.args...)
			if err != nil {
				return nil, statementError(b, i, err)
			}
			n, err := done.RowsAffected()
			if err != nil {
				return nil, statementError(b, i, err)
			}
			if changes(b.Verb) {
				r.RowsAffected += n
				logf(s.t, "statement %d (%s): %d rows affected", i+1, b.Verb, n)
			} else {
				logf(s.t, "statement %d (%s): done", i+1, b.Verb)
			}
		}
		r.Statements++
	}
	return r, nil
}

// changes tells whether the number of affected rows means something: SQLite
// gives the last statement's number after others.
func changes(verb string) bool {
	switch verb {
	case "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH", "LOAD":
		return true
	default:
		return false
	}
}

func statementError(b *bound, i int, err error) error {
	text := strings.Join(strings.Fields(b.SQL), " ")
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "..."
	}
	return fmt.Errorf("statement %d (line %d: %s): %w", i+1, b.Line, text, err)
}

func (s *step) query(ctx context.Context, q runner, b *bound) (*answer, error) {
	rows, err := q.QueryxContext(ctx, b.text, b.args...) //nolint:sqlclosecheck // it is closed below, whatever comes
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	types, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	a := &answer{Rows: [][]any{}}
	numeric := make([]bool, len(types))
	for i, t := range types {
		a.Columns = append(a.Columns, t.Name())
		name := strings.ToUpper(t.DatabaseTypeName())
		numeric[i] = strings.HasPrefix(name, "DECIMAL") || strings.HasPrefix(name, "NUMERIC")
	}
	for rows.Next() {
		if len(a.Rows) == s.maxRows {
			a.Truncated = true
			break
		}
		cells, err := rows.SliceScan()
		if err != nil {
			return nil, err
		}
		for i := range cells {
			cells[i] = plain(cells[i], numeric[i])
		}
		a.Rows = append(a.Rows, cells)
	}
	return a, rows.Err()
}

// plain gives a cell as JSON has it, with every digit.
func plain(v any, numeric bool) any {
	switch x := v.(type) {
	case []byte:
		return text(string(x), numeric)
	case string:
		return text(x, numeric)
	case time.Time:
		return x.UTC().Format("2006-01-02T15:04:05.999999Z07:00")
	default:
		return v
	}
}

func text(s string, numeric bool) any {
	if numeric && json.Valid([]byte(s)) {
		return json.Number(s)
	}
	if !utf8.ValidString(s) {
		return base64.StdEncoding.EncodeToString([]byte(s))
	}
	return s
}
