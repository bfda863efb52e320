package merge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge/row"
	"github.com/airlock-dag/airlock/sql/merge/source"
)

// badRow is a row on its way to the letters.
type badRow struct {
	seq          int64
	late         bool // refused when the stage was merged, not when it was filled
	source       string
	line, offset int64
	key, raw     string
	fault        row.Fault
	layout       string // of the source, see source.Layout
}

// badRows collects bad rows in a table beside the stage, so that any number of
// them takes no memory.
type badRows struct {
	p    *plan
	conn runner
	// limit ends the batch as soon as it is clear that there are too many; -1
	// for none.
	limit int64
	n     int64
	// spared are those of n that will be tried again.
	spared int64
	first  []badRow // the first ten, for messages
	// early and earlyFirst are n and len(first) when the stage was full.
	early      int64
	earlyFirst int
	args       []any
	rows       int
	bytes      int
}

const shownBad = 10

var errTooMany = errors.New("too many bad rows")

func (b *badRows) add(ctx context.Context, r badRow) error {
	b.n++
	if len(b.first) < shownBad {
		b.first = append(b.first, r)
	}
	if b.limit >= 0 && b.n-b.spared > b.limit {
		return errTooMany
	}
	b.args = append(b.args, r.columns()...)
	b.rows++
	b.bytes += 2 * len(r.raw)
	if r.late {
		return b.write(ctx)
	}
	if b.rows >= 100 || b.bytes >= stageBytes {
		return b.flush(ctx)
	}
	return nil
}

func (r *badRow) columns() []any {
	text := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	var offset any
	if r.offset >= 0 {
		offset = r.offset
	}
	name := r.fault.Column
	if len(name) > 128 {
		name = strings.ToValidUTF8(name[:128], "")
	}
	src := r.source
	if runes := []rune(src); len(runes) > 1024 {
		src = "..." + string(runes[len(runes)-1021:])
	}
	late := 0
	if r.late {
		late = 1
	}
	return []any{r.seq, late, src, r.line, offset, text(r.key), []byte(r.raw), text(name), string(r.fault.Code), messageText(r.fault.Message), text(r.layout)}
}

func messageText(s string) string {
	return dag.CutText(strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", `\0`), "\uFFFD"), dag.MaxErrorMessage)
}

const badCols = 11

func (b *badRows) insertSQL(n int) string {
	return "INSERT INTO " + b.p.bad() + " (seq, late, source, source_line, byte_offset, row_key, raw, column_name, error_code, error_message, source_format) VALUES " + dialect.Rows(n, badCols)
}

func (b *badRows) flush(ctx context.Context) error {
	if b.rows == 0 {
		return nil
	}
	return b.write(ctx)
}

func (b *badRows) write(ctx context.Context) error {
	_, err := b.conn.ExecContext(ctx, b.insertSQL(b.rows), b.args...)
	if isRowFault(err) {
		// A raw row that no packet takes: each row alone, cut where it must be.
		err = nil
		for i := 0; i < len(b.args) && err == nil; i += badCols {
			err = b.writeOne(ctx, b.args[i:i+badCols])
		}
	}
	if err != nil {
		return fmt.Errorf("keep a bad row: %w", err)
	}
	b.args, b.rows, b.bytes = b.args[:0], 0, 0
	return nil
}

func (b *badRows) writeOne(ctx context.Context, args []any) error {
	_, err := b.conn.ExecContext(ctx, b.insertSQL(1), args...)
	raw, _ := args[6].([]byte)
	if !isRowFault(err) || len(raw) <= 64<<10 {
		return err
	}
	layout, _ := args[10].(string)
	cut := append([]any(nil), args...)
	cut[10] = source.CutLayout(layout, int64(len(raw)))
	cut[6] = raw[:64<<10]
	cut[9] = fmt.Sprintf("%v (the row has %d bytes, the first %d are kept: the server takes no more in a packet)", args[9], len(raw), 64<<10)
	_, err = b.conn.ExecContext(ctx, b.insertSQL(1), cut...)
	return err
}

// settle ends the filling of the stage: what comes after is late.
func (b *badRows) settle() { b.early, b.earlyFirst = b.n, len(b.first) }

// restart forgets the late rows, from a number on, of an earlier try of the
// transaction.
func (b *badRows) restart(ctx context.Context, q runner, from int64) error {
	b.conn, b.n, b.first = q, b.early, b.first[:b.earlyFirst]
	b.args, b.rows, b.bytes = b.args[:0], 0, 0
	_, err := q.ExecContext(ctx, "DELETE FROM "+b.p.bad()+" WHERE late = 1 AND seq >= ?", from)
	return err
}

// remove takes a late row back that was stored after all.
func (b *badRows) remove(ctx context.Context, seq int64) error {
	b.n--
	for i := range b.first {
		if b.first[i].seq == seq {
			b.first = append(b.first[:i:i], b.first[i+1:]...)
			break
		}
	}
	_, err := b.conn.ExecContext(ctx, "DELETE FROM "+b.p.bad()+" WHERE seq = ?", seq)
	return err
}

// runner is a connection or a transaction on it.
type runner interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowxContext(ctx context.Context, query string, args ...any) *sqlx.Row
	QueryxContext(ctx context.Context, query string, args ...any) (*sqlx.Rows, error)
}
