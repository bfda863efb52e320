package merge

import (
	"hash/maphash"
	"strconv"
	"strings"

	"github.com/airlock-dag/airlock/sql/merge/column"
)

// distinct finds out while the source is read whether every key is there once:
// the database need not look then. It may take two keys for the same that are
// not, never the other way round.
type distinct struct {
	at    []int  // of the key's values
	trim  []bool // texts whose blanks at the end do not count
	seed  maphash.Seed
	slots []uint64 // hashes, 0 for none; a power of two
	n     int
	// unsure is set when a key seems to be there twice, or when there are too many
	// to keep.
	unsure bool
}

// maxDistinct bounds the memory: hashes of eight bytes in a table at most three
// quarters full.
const maxDistinct = 1 << 21

// newDistinct is unsure from the start where a collation decides what is equal.
func newDistinct(p *plan) *distinct {
	d := &distinct{seed: maphash.MakeSeed(), slots: make([]uint64, 1<<10)}
	for _, k := range p.keys {
		c := &p.cols[k.at]
		tc := p.target.column(k.target)
		trim := false
		switch {
		case c.native || !tc.known:
			d.unsure = true
		case c.Type.Kind == column.Text && tc.typ.Kind == column.Text:
			trim = true
			if p.db.IsSQLite() {
				d.unsure = d.unsure || tc.numeric || (k.collation != "" && !strings.EqualFold(k.collation, "BINARY"))
			} else {
				d.unsure = d.unsure || !strings.HasSuffix(tc.ddl, "_bin")
			}
		case c.Type.Kind == tc.typ.Kind && (c.Type.Kind == column.Integer || c.Type.Kind == column.Date):
		case c.Type.Kind == column.Timestamp && tc.typ.Kind == column.Timestamp && !p.db.IsSQLite():
			// A fraction that the column would cut is refused, so equal instants are
			// equal texts.
		default:
			d.unsure = true
		}
		d.at, d.trim = append(d.at, k.at), append(d.trim, trim)
	}
	return d
}

// add takes a row's values.
func (d *distinct) add(values []any) {
	if d.unsure {
		return
	}
	var h maphash.Hash
	h.SetSeed(d.seed)
	for i, at := range d.at {
		switch x := values[at].(type) {
		case int64:
			var buf [20]byte
			_, _ = h.Write(strconv.AppendInt(buf[:0], x, 10))
		case string:
			if d.trim[i] {
				x = strings.TrimRight(x, " ")
			}
			_, _ = h.WriteString(x)
		default:
			d.unsure = true
			return
		}
		_ = h.WriteByte(0)
	}
	sum := h.Sum64() | 1 // 0 marks a free slot
	if d.n >= len(d.slots)/4*3 && !d.grow() {
		return
	}
	d.put(sum)
}

func (d *distinct) put(sum uint64) {
	mask := uint64(len(d.slots) - 1)
	// The lowest bit is always set and tells nothing.
	for i := sum >> 1 & mask; ; i = (i + 1) & mask {
		switch d.slots[i] {
		case 0:
			d.slots[i] = sum
			d.n++
			return
		case sum:
			d.unsure, d.slots = true, nil
			return
		}
	}
}

func (d *distinct) grow() bool {
	if len(d.slots) >= maxDistinct {
		d.unsure, d.slots = true, nil
		return false
	}
	old := d.slots
	d.slots, d.n = make([]uint64, 2*len(old)), 0
	for _, sum := range old {
		if sum != 0 {
			d.put(sum)
		}
	}
	return true
}
