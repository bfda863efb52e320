package source

import "github.com/parquet-go/parquet-go"

// size is about how long the row is as JSON.
func (p *Parquet) size() int {
	n := 0
	for _, f := range p.fields {
		n += len(f.name) + 4 + f.size(p.leaves)
	}
	return n
}

func (f *parquetField) size(leaves [][]parquet.Value) int {
	n := 0
	for _, values := range leaves[f.leaf : f.leaf+f.leaves] {
		n += 16 * (len(values) - 1)
		for _, v := range values {
			if k := v.Kind(); k == parquet.ByteArray || k == parquet.FixedLenByteArray {
				n += len(v.ByteArray())
			} else {
				n += 8
			}
		}
	}
	return n
}

// short is what is kept of a row that is too long: its short values.
func (p *Parquet) short() string {
	b := []byte{'{'}
	for _, f := range p.fields {
		if f.size(p.leaves) > 1<<10 || len(b) > rawKept {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(b, jsonText(f.name)...), ':')
		b = f.appendJSON(b, p.leaves)
	}
	return string(append(b, '}'))
}
