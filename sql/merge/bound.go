package merge

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge/column"
	"github.com/airlock-dag/airlock/sql/merge/row"
	"github.com/airlock-dag/airlock/sql/merge/source"
)

func column0(t *target, name string) column.Type {
	if c := t.column(name); c != nil {
		return c.typ
	}
	return column.Type{}
}

// sourceType is the type of a query's column that neither the step nor the
// target knows: what the source database calls it, and for texts of SQLite what
// a value of it looks like.
func sourceType(ctx context.Context, q *QuerySource, name string) (column.Type, error) {
	text, args, err := q.bound(Bounds{})
	if err != nil {
		return column.Type{}, err
	}
	col := "airlock_q." + dialect.Quote(name)
	rows, err := q.DB.Reader().DB.QueryContext(ctx, "SELECT "+col+" FROM ("+text+") AS airlock_q WHERE "+col+" IS NOT NULL LIMIT 1", args...) //nolint:rowserrcheck // the caller asks for it
	if err != nil {
		return column.Type{}, fmt.Errorf("look at the watermark column %s of the source: %w", name, err)
	}
	reader, err := source.NewQuery(rows, "query", source.Wanted{All: true})
	if err != nil {
		return column.Type{}, err
	}
	defer func() { _ = reader.Close() }()
	typ, err := column.ParseType(strings.TrimPrefix(reader.Types()[0], "UNSIGNED "))
	if err != nil {
		typ = column.Type{Kind: column.Text}
	}
	rec, err := reader.Next(ctx)
	switch {
	case errors.Is(err, io.EOF):
		return typ, nil
	case err != nil:
		return typ, err
	}
	switch v := rec.Values[0]; {
	case v.Kind == row.Time && typ.Kind != column.Date:
		return column.Type{Kind: column.Timestamp, Scale: 6}, nil
	case v.Kind == row.Number && typ.Kind == column.Text:
		return column.Type{Kind: column.Integer, Bits: 64}, nil
	case typ.Kind == column.Text:
		probe := column.Column{Type: column.Type{Kind: column.Timestamp, Scale: 6}, Zone: time.UTC}
		if _, f := probe.Convert(v); f == nil {
			return probe.Type, nil
		}
	}
	return typ, nil
}

// upperBound is the greatest watermark that the batch may reach. For times it
// is the source's present minus the lag: a row from the future, or one whose
// transaction has not committed yet, is read by a later batch. For numbers it is
// what the source holds now.
func (b *batch) upperBound(ctx context.Context, q *QuerySource, in Bounds) (string, error) {
	w := b.job.Spec.Watermark
	switch in.Kind {
	case markTime, markDate:
		if w.AllowFuture && w.Lag == 0 {
			return "", nil
		}
		now, err := b.sourceNow(ctx, q.DB)
		if err != nil {
			return "", err
		}
		now = now.Add(-w.Lag)
		return in.Kind.format(now), nil
	case markNumber:
		text, args, err := q.bound(Bounds{Kind: in.Kind})
		if err != nil {
			return "", err
		}
		var top sql.NullString
		err = q.DB.Reader().QueryRowxContext(ctx, "SELECT MAX(airlock_q."+dialect.Quote(in.Column)+") FROM ("+text+") AS airlock_q", args...).Scan(&top)
		if err != nil {
			return "", fmt.Errorf("freeze the upper bound of the watermark: %w", err)
		}
		return top.String, nil
	default:
		return "", nil
	}
}

// sourceNow is the source's own clock; a file has none but the machine's.
func (b *batch) sourceNow(ctx context.Context, db *dialect.DB) (time.Time, error) {
	if db.IsSQLite() {
		return b.e.Clock.Now(), nil
	}
	var now dialect.Time
	if err := db.Reader().QueryRowxContext(ctx, "SELECT UTC_TIMESTAMP(6)").Scan(&now); err != nil {
		return time.Time{}, fmt.Errorf("ask the source for its time: %w", err)
	}
	return now.Time, nil
}

// bounds freezes the limits of a batch before it is read.
func (b *batch) bounds(ctx context.Context, t *target) (Bounds, error) {
	w, spec := b.job.Spec.Watermark, b.job.Spec
	if w == nil {
		return Bounds{}, nil
	}
	out := Bounds{Column: w.Column, Tie: w.TieBreaker}
	typ, tie := column0(t, w.Column), column0(t, w.TieBreaker)
	for _, c := range spec.Columns {
		if c.Name == w.Column {
			out.Column, typ = c.Source(), c.Type
		}
		if c.Name == w.TieBreaker {
			out.Tie, tie = c.Source(), c.Type
		}
	}
	q, isQuery := b.job.Source.(*QuerySource)
	if !isQuery {
		return Bounds{}, b.notPastNow(ctx, watermarkKindOf(typ))
	}
	var err error
	if typ.Kind == 0 {
		if typ, err = sourceType(ctx, q, out.Column); err != nil {
			return out, err
		}
	}
	if tie.Kind == 0 && out.Tie != "" {
		if tie, err = sourceType(ctx, q, out.Tie); err != nil {
			return out, err
		}
	}
	b.markType = typ
	out.Kind, out.TieKind = watermarkKindOf(typ), watermarkKindOf(tie)
	// A query in chunks is read in the watermark's order, so that it moves with
	// each of them.
	out.Sorted = spec.Chunk > 0
	if err := b.lowerBound(ctx, &out); err != nil {
		return out, err
	}
	if out.To, err = b.upperBound(ctx, q, out); err != nil {
		return out, err
	}
	b.upper, out.CutTo = out.To, w.Lag > 0 || out.Kind == markNumber
	return out, nil
}

// lowerBound is where the batch begins: the stored watermark less the lookback,
// or the step's initial value.
func (b *batch) lowerBound(ctx context.Context, out *Bounds) error {
	w := b.job.Spec.Watermark
	stored, err := readMark(ctx, b.conn, "", w)
	switch {
	case err != nil:
		return err
	case stored == nil:
		out.From, err = out.Kind.canonical(w.Initial, w)
		return err
	}
	out.FromTie = stored.tie
	out.From, err = out.Kind.back(stored.value, w)
	return err
}

// notPastNow keeps the watermark of files from passing the present.
func (b *batch) notPastNow(ctx context.Context, kind watermarkKind) error {
	if b.job.Spec.Watermark.AllowFuture || (kind != markTime && kind != markDate) {
		return nil
	}
	now, err := b.sourceNow(ctx, b.e.DB)
	b.upper = kind.format(now)
	return err
}
