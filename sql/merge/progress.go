package merge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/jmoiron/sqlx"
)

// progress is how far an effect has come that is done in several transactions:
// each leaves it in the effect's row beside its rows, letters and watermark.
type progress struct {
	// Reading names the content that was read, Rows how many of its first rows
	// are done. A reading that cannot be named (a query's) begins anew; rows that
	// it gives once more are counted once more.
	Reading string `json:"reading,omitempty"`
	Rows    int64  `json:"rows,omitempty"`
	// Late are the bad rows that the target refused.
	Late int64 `json:"late,omitempty"`
	// Done sums up the transactions so far.
	Done Detail `json:"done"`
}

// readingOf names the content of parts; empty when a part has no hash.
func readingOf(parts []Part) string {
	h := sha256.New()
	for _, p := range parts {
		if p.SHA256 == "" {
			return ""
		}
		_, _ = fmt.Fprintf(h, "%d:%s:%s\n", len(p.Name), p.Name, p.SHA256)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// resume takes up the progress of an earlier attempt and gives the number of the
// first row that is not done.
func (b *batch) resume() int64 {
	b.reading = readingOf(b.parts)
	p := b.effect.progress
	if p == nil {
		return 1
	}
	b.sum = p.Done
	if p.Reading == "" || p.Reading != b.reading || p.Rows > b.load.read {
		b.job.logf("%d rows were done by earlier transactions of this effect; the source is another reading now and is merged from its start", p.Done.RowsRead)
		return 1
	}
	b.late = p.Late
	b.bad.n += p.Late
	b.bad.settle()
	b.job.logf("the first %d rows were done by earlier transactions of this effect; going on behind them", p.Rows)
	return p.Rows + 1
}

// tally adds what one transaction did to what was done before. Each row of the
// range must be accounted for.
func (b *batch) tally(ctx context.Context, tx *sqlx.Tx, c counts, again, lo, hi int64) (Detail, error) {
	var quarantined int64
	d := b.sum
	d.QuarantinedByCode = maps.Clone(b.sum.QuarantinedByCode)
	if b.dups > 0 {
		var n int64
		if err := tx.QueryRowxContext(ctx, "SELECT COUNT(*) FROM "+b.dupTable()+" WHERE seq >= ? AND seq < ?", lo, hi).Scan(&n); err != nil {
			return d, err
		}
		c.superseded += n
	}
	byCode, err := b.countCodes(ctx, tx, lo, hi)
	if err != nil {
		return d, err
	}
	for code, n := range byCode {
		quarantined += n
		if d.QuarantinedByCode == nil {
			d.QuarantinedByCode = map[string]int64{}
		}
		d.QuarantinedByCode[code] += n
	}
	d.Target, d.Sources, d.BatchID = b.p.spec.Target, b.parts, b.id
	d.RowsRead += hi - lo
	d.RowsMerged += c.inserted + c.updated + c.deleted
	d.RowsInserted += c.inserted
	d.RowsUpdated += c.updated
	d.RowsDeleted += c.deleted
	d.RowsUpdatedBySource += c.updatedBySource
	d.RowsDeletedBySource += c.deletedBySource
	d.RowsUnchanged += c.unchanged
	d.RowsSuperseded += c.superseded
	d.RowsQuarantined += quarantined
	d.RowsQuarantinedAgain += again
	d.Transactions++
	if sum := d.RowsMerged + d.RowsUnchanged + d.RowsQuarantined + d.RowsSuperseded; sum != d.RowsRead {
		return d, problem(codeAccounting, "read %d rows and can account for %d: %s", d.RowsRead, sum, d.Summary()).
			hint("nothing was written; report this with the table's triggers and the step")
	}
	return d, nil
}

func (d *Detail) counts() Counts {
	return Counts{Read: d.RowsRead, Merged: d.RowsMerged, Unchanged: d.RowsUnchanged, Quarantined: d.RowsQuarantined, Superseded: d.RowsSuperseded}
}

// step closes a transaction that is not the batch's last.
func (b *batch) step(ctx context.Context, tx *sqlx.Tx, d *Detail, hi int64) (*progress, error) {
	p := &progress{Reading: b.reading, Rows: hi - 1, Late: b.late + b.bad.n - b.bad.early, Done: *d}
	p.Done.Sources = nil
	return p, b.effect.save(ctx, tx, d.counts(), p)
}

// save notes the progress of an effect that is not done, in the transaction of
// the work.
func (e *Effect) save(ctx context.Context, tx *sqlx.Tx, c Counts, p *progress) error {
	raw, err := json.Marshal(openEffect{Owner: e.Owner.String(), Progress: p})
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE airlock_effect SET rows_read = ?, rows_merged = ?, rows_unchanged = ?, rows_quarantined = ?, rows_superseded = ?,
		result = ? WHERE idempotency_key = ?`, c.Read, c.Merged, c.Unchanged, c.Quarantined, c.Superseded, string(raw), EffectKey(e.Key))
	if err != nil {
		return fmt.Errorf("note the progress of the effect: %w", err)
	}
	return nil
}
