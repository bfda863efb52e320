package merge_test

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// modelRow is a row of the target as the model keeps it in memory.
type modelRow struct {
	v, ver int
	other  string // of a second unique key, "" for none
}

// TestRandomBatchesAgainstAModel merges random batches with duplicates, late,
// repeated and bad rows, and compares target, letters and counts with a model
// that treats row by row.
func TestRandomBatchesAgainstAModel(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{1, 2, 3} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, b *bench) { runModel(t, b, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func runModel(t *testing.T, b *bench, r *rand.Rand) {
	b.exec("CREATE TABLE m (k INT PRIMARY KEY, v INT NOT NULL CHECK (v < 900), ver INT, other VARCHAR(10) UNIQUE)")
	spec := b.spec(`
source: {file: m.csv}
target: m
key: [k]
version: ver
bad_rows: {max_ratio: 1}
columns: {k: {type: int}, v: {type: int, required: true}, ver: {type: int, required: true}, other: {type: varchar(10)}}
watermark: {column: ver, name: m}
`)
	model := map[int]modelRow{}
	watermark, letters := -1, 0
	for batch := range 12 {
		var lines []string
		type in struct {
			k, v, ver int
			other     string
			at        int
		}
		newest := map[int]in{}
		var good, bad, superseded, unchanged, merged int
		n := r.IntN(60)
		for i := range n {
			k, v, ver := r.IntN(30), r.IntN(5), r.IntN(6)+batch/3
			other := ""
			if r.IntN(3) == 0 {
				other = "o" + strconv.Itoa(r.IntN(12))
			}
			text := fmt.Sprintf("%d,%d,%d,%s", k, v, ver, other)
			switch r.IntN(12) {
			case 0:
				// The line numbers make each bad row a new one for the letters.
				lines = append(lines, fmt.Sprintf("%d,x%d-%d,%d,", k, batch, i, ver))
				bad++
				watermark = max(watermark, ver)
				continue
			case 1:
				lines = append(lines, fmt.Sprintf("%d,%d,1", k, batch*1000+i))
				bad++
				continue
			}
			if r.IntN(15) == 0 {
				v = 1000 + batch*100 + i // the table's CHECK refuses it
				text = fmt.Sprintf("%d,%d,%d,%s", k, v, ver, other)
			}
			lines = append(lines, text)
			good++
			watermark = max(watermark, ver)
			row := in{k, v, ver, other, len(lines)}
			if have, twice := newest[k]; twice {
				superseded++
				if have.ver > ver {
					continue
				}
			}
			newest[k] = row
		}
		// What wins within the batch is held against the target in its order:
		// updates first, then inserts, as the engine does.
		var rows []in
		for _, row := range newest {
			rows = append(rows, row)
		}
		sort.Slice(rows, func(i, j int) bool { return rows[i].at < rows[j].at })
		before := map[int]modelRow{}
		for k, m := range model {
			before[k] = m
		}
		taken := func(k int, other string) bool {
			for x, m := range model {
				if x != k && other != "" && m.other == other {
					return true
				}
			}
			return false
		}
		var refused []in
		for _, pass := range []bool{true, false} {
			for _, row := range rows {
				have, there := before[row.k]
				if there != pass {
					continue
				}
				switch {
				case there && row.ver < have.ver:
					superseded++
				case there && have == (modelRow{row.v, row.ver, row.other}):
					unchanged++
				case row.v >= 900:
					bad++
				case taken(row.k, row.other):
					refused = append(refused, row)
				default:
					merged++
					model[row.k] = modelRow{row.v, row.ver, row.other}
				}
			}
		}
		for progress := true; progress; {
			progress = false
			var rest []in
			for _, row := range refused {
				if taken(row.k, row.other) {
					rest = append(rest, row)
					continue
				}
				merged++
				model[row.k] = modelRow{row.v, row.ver, row.other}
				progress = true
			}
			refused = rest
		}
		bad += len(refused)
		b.file("m.csv", "k,v,ver,other\n"+strings.Join(lines, "\n")+"\n")
		d := b.run(spec)
		require.Equal(t, []int64{int64(len(lines)), int64(merged), int64(unchanged), int64(bad), int64(superseded)},
			[]int64{d.RowsRead, d.RowsMerged, d.RowsUnchanged, d.RowsQuarantined, d.RowsSuperseded}, "batch %d\n%s", batch, strings.Join(lines, "\n"))
		letters += int(d.RowsQuarantined - d.RowsQuarantinedAgain)
		var want []string
		for k, m := range model {
			other := m.other
			if other == "" {
				other = "null"
			}
			want = append(want, fmt.Sprintf("%02d|%d|%d|%s", k, m.v, m.ver, other))
		}
		sort.Strings(want)
		have := b.table("SELECT k, v, ver, other FROM m ORDER BY k")
		for i, h := range have {
			k, rest, _ := strings.Cut(h, "|")
			have[i] = fmt.Sprintf("%02s|%s", k, rest)
		}
		require.ElementsMatch(t, want, have, "batch %d", batch)
		require.Equal(t, []string{strconv.Itoa(letters)}, b.table("SELECT COUNT(*) FROM airlock_dead_letter_row"))
		if watermark >= 0 {
			require.Equal(t, strconv.Itoa(watermark), *d.WatermarkTo)
		}
		// The same file again changes nothing.
		again := b.run(spec)
		require.Zero(t, again.RowsMerged, "batch %d", batch)
	}
}
