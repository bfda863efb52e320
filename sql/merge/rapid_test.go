package merge_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

// worldRow is a row of the model's target.
type worldRow struct{ v, ver int }

// world is the model: what target, watermark and letters must be.
type world struct {
	rows      map[int]worldRow
	watermark int // -1 for none
	letters   int
	batches   int
}

// lineKind says what is wrong with a line of a batch.
type lineKind int

const (
	lineGood lineKind = iota
	lineNoNumber
	lineShort
	lineRefused // by the target's CHECK
)

type line struct {
	k, v, ver int
	kind      lineKind
}

func (l line) text() string {
	switch l.kind {
	case lineNoNumber:
		return fmt.Sprintf("%d,x%d,%d", l.k, l.v, l.ver)
	case lineShort:
		return fmt.Sprintf("%d,%d", l.k, l.v)
	case lineRefused:
		return fmt.Sprintf("%d,%d,%d", l.k, 900+l.v, l.ver)
	default:
		return fmt.Sprintf("%d,%d,%d", l.k, l.v, l.ver)
	}
}

// tally is what the model counts.
type tally struct{ read, merged, unchanged, quarantined, superseded int }

// apply does the lines from place lo up to hi to the world, as one transaction;
// all lines of the batch decide which of a key is the newest.
func (w *world) apply(lines []line, lo, hi int, t *tally) {
	newest := map[int]int{}
	for i, l := range lines {
		if l.kind == lineNoNumber || l.kind == lineShort {
			continue
		}
		if have, twice := newest[l.k]; !twice || l.ver >= lines[have].ver {
			newest[l.k] = i
		}
	}
	// Updates are done before inserts, and no row looks at another's outcome: the
	// order within the transaction does not show.
	for i := lo; i < hi; i++ {
		l := lines[i]
		t.read++
		have, there := w.rows[l.k]
		switch {
		case l.kind == lineNoNumber || l.kind == lineShort:
			t.quarantined++
			w.letters++
		case newest[l.k] != i, there && l.ver < have.ver:
			t.superseded++
		case l.kind == lineRefused:
			t.quarantined++
			w.letters++
		case there && have == worldRow{l.v, l.ver}:
			t.unchanged++
		default:
			t.merged++
			w.rows[l.k] = worldRow{l.v, l.ver}
		}
	}
	// The watermark: the greatest that is done, but not past one to come.
	done, open := -1, -1
	for i, l := range lines {
		switch {
		case l.kind == lineShort: // it has no version that could be read
		case i < hi:
			done = max(done, l.ver)
		case open < 0 || l.ver < open:
			open = l.ver
		}
	}
	if open >= 0 && open < done {
		done = open
	}
	w.watermark = max(w.watermark, done)
}

// TestWorldOfBatches draws batches with duplicates, late rows and bad rows, with
// and without chunks; some are stopped before a COMMIT, replayed, or done by two
// workers at once. After every step target, watermark, letters and counts are
// the model's.
func TestWorldOfBatches(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		b := newBench(t, dsn)
		other, err := dialect.Open(t.Context(), dsn, dialect.Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, other.Close()) }()
		b.exec("CREATE TABLE m (k INT PRIMARY KEY, v INT NOT NULL CHECK (v < 900), ver INT NOT NULL)")
		require.NoError(t, merge.EnsureTables(t.Context(), b.db))
		rapid.Check(t, func(rt *rapid.T) {
			for _, table := range []string{"m", "airlock_effect", "airlock_watermark", "airlock_dead_letter_row"} {
				b.exec("DELETE FROM " + table)
			}
			w := &world{rows: map[int]worldRow{}, watermark: -1}
			for range rapid.IntRange(1, 4).Draw(rt, "batches") {
				w.batch(rt, b, other)
			}
		})
	})
}

// batch draws one batch and what happens to it.
func (w *world) batch(rt *rapid.T, b *bench, other *dialect.DB) {
	w.batches++
	lines := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) line {
		kind := lineGood
		if rapid.IntRange(0, 5).Draw(rt, "bad") == 0 {
			kind = rapid.SampledFrom([]lineKind{lineNoNumber, lineShort, lineRefused}).Draw(rt, "kind")
		}
		return line{rapid.IntRange(1, 12).Draw(rt, "k"), rapid.IntRange(0, 3).Draw(rt, "v"), rapid.IntRange(0, 6).Draw(rt, "ver"), kind}
	}), 0, 24).Draw(rt, "lines")
	chunk := rapid.SampledFrom([]int{0, 0, 3, 7}).Draw(rt, "chunk")
	name := fmt.Sprintf("m%d.csv", w.batches)
	text := "k,v,ver\n"
	for _, l := range lines {
		text += l.text() + "\n"
	}
	b.file(name, text)
	job := b.job(b.spec(fmt.Sprintf("{source: {file: %s}, target: m, key: [k], version: ver, chunk: %d, bad_rows: {max_ratio: 1}, "+
		"columns: {k: {type: int}, v: {type: int}, ver: {type: int}}, watermark: {column: ver, name: m}}", name, chunk)))
	transactions := 1
	if chunk > 0 {
		transactions = max(1, (len(lines)+chunk-1)/chunk)
	}
	var t tally
	at := 0
	step := func(n int) { // n transactions more
		for range n {
			hi := len(lines)
			if chunk > 0 {
				hi = min(hi, at+chunk)
			}
			w.apply(lines, at, hi, &t)
			at = hi
		}
	}
	how := rapid.SampledFrom([]string{"once", "stopped", "two workers"}).Draw(rt, "how")
	if how == "stopped" {
		stop := rapid.IntRange(1, transactions).Draw(rt, "stopped before")
		stopAt(job, stop)
		_, err := b.engine().Run(b.t.Context(), job)
		require.ErrorIs(rt, err, errStop)
		step(stop - 1)
		w.compare(rt, b)
		job.StillMine = nil
		job.Fence++
		transactions -= stop - 1
	}
	var d *merge.Detail
	var err error
	if how == "two workers" {
		d, err = twoWorkers(b, other, job)
	} else {
		d, err = b.engine().Run(b.t.Context(), job)
	}
	require.NoError(rt, err)
	step(transactions)
	got := tally{int(d.RowsRead), int(d.RowsMerged), int(d.RowsUnchanged), int(d.RowsQuarantined), int(d.RowsSuperseded)}
	require.Equal(rt, t, got, "%s", text)
	w.compare(rt, b)
	again, err := b.engine().Run(b.t.Context(), job)
	require.NoError(rt, err)
	require.True(rt, again.AlreadyDone)
	require.Equal(rt, d.Result, again.Result)
	w.compare(rt, b)
}

// twoWorkers runs two attempts of one task instance at once: the older one is
// fenced out or finds the work done, and the newer one's result counts.
func twoWorkers(b *bench, other *dialect.DB, job *merge.Job) (*merge.Detail, error) {
	older := *job
	older.Logf, job.Logf = nil, nil
	older.Source = &merge.FileSource{Spec: job.Spec.Source, Dir: b.dir}
	job.Fence++
	var g sync.WaitGroup
	g.Go(func() {
		e := &merge.Engine{DB: other, Clock: dag.SystemClock{}, Rand: dag.SystemRand{}}
		_, _ = e.Run(b.t.Context(), &older) // fenced, or first: the other one's result tells
	})
	d, err := b.engine().Run(b.t.Context(), job)
	g.Wait()
	return d, err
}

func (w *world) compare(rt *rapid.T, b *bench) {
	var want []string
	for _, k := range slices.Sorted(maps.Keys(w.rows)) {
		want = append(want, fmt.Sprintf("%d|%d|%d", k, w.rows[k].v, w.rows[k].ver))
	}
	require.Equal(rt, strings.Join(want, " "), strings.Join(b.table("SELECT k, v, ver FROM m ORDER BY k"), " "))
	require.Equal(rt, []string{fmt.Sprint(w.letters)}, b.table("SELECT COUNT(*) FROM airlock_dead_letter_row"))
	mark := []string(nil)
	if w.watermark >= 0 {
		mark = []string{fmt.Sprint(w.watermark)}
	}
	require.Equal(rt, mark, b.table("SELECT value FROM airlock_watermark"))
	violations, err := merge.Check(b.t.Context(), b.db)
	require.NoError(rt, err)
	require.Empty(rt, violations)
}
