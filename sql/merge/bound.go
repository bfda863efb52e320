package merge

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge/column"
)

func column0(t *target, name string) column.Type {
	if c := t.column(name); c != nil {
		return c.typ
	}
	return column.Type{}
}

// upperBound is the greatest watermark that the batch may reach. For times it
// is the source's present minus the lag: a row from the future, or one whose
// transaction has not committed yet, is read by a later batch. For numbers it is
// what the source holds now.
func (b *batch) upperBound(ctx context.Context, q *QuerySource, in Bounds) (string, error) {
	w := b.job.Spec.Watermark
	switch in.Kind {
	case markTime, markDate:
		now, err := b.sourceNow(ctx, q.DB)
		if err != nil {
			return "", err
		}
		now = now.Add(-w.Lag)
		if in.Kind == markDate {
			return now.Format(column.DateLayout), nil
		}
		return now.UTC().Format(column.TimestampLayout), nil
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
