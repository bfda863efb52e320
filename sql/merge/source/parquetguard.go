package source

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// A Parquet file says of everything how much memory it will take, and a small
// file can ask for all there is: by a page header, by a page that unpacks to more
// than it says, by a run of two thousand million equal values, by one row with a
// list of all of them. So each row group is gone over before it is read: its
// pages are unpacked up to what they declare and their runs are counted, a page
// in memory at a time. It costs about a tenth of reading the rows.

// Bounds of a Parquet file.
const (
	maxFooter     = 64 << 20
	maxSchema     = 20_000   // columns and groups of columns
	maxPage       = 64 << 20 // bytes, unpacked
	maxPageValues = 16 << 20
	maxPages      = 1 << 30 // bytes of the greatest pages of all columns together
	maxRowValues  = 4 << 20 // of one column in one row
	pageHeader    = 1 << 20
)

// parquetGuard checks row groups.
type parquetGuard struct {
	r      io.ReaderAt
	size   int64
	meta   *format.FileMetaData
	leaves []parquetLeaf
}

// parquetLeaf is a column as far as it decides about memory.
type parquetLeaf struct {
	name           string
	repeat, define int
	codec          format.CompressionCodec
	kind           parquet.Kind
	width          int64 // of a value with a fixed length
}

// checkMeta goes over the footer before the library reads it.
func checkMeta(footer []byte) error {
	n, err := thriftSize(footer)
	if errors.Is(err, ErrTooLarge) {
		return err
	}
	if err != nil {
		return fmt.Errorf("the footer is broken at byte %d of %d: %w: %w", n, len(footer), err, ErrDamaged)
	}
	var meta format.FileMetaData
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), footer, &meta); err != nil {
		return fmt.Errorf("the footer cannot be decoded: %w: %w", err, ErrDamaged)
	}
	if len(meta.Schema) > maxSchema {
		return fmt.Errorf("the schema has %d columns and groups, the limit is %d: %w", len(meta.Schema), maxSchema, ErrTooLarge)
	}
	// A node's children follow it: open holds how many are to come on each level.
	var open []int32
	for _, s := range meta.Schema {
		for len(open) > 0 && open[len(open)-1] == 0 {
			open = open[:len(open)-1]
		}
		if len(open) > 0 {
			open[len(open)-1]--
		}
		if s.NumChildren.Valid && s.NumChildren.V > 0 {
			open = append(open, s.NumChildren.V)
		}
		if len(open) > thriftDepth {
			return fmt.Errorf("the schema is nested deeper than %d levels at %q: %w", thriftDepth, s.Name, ErrTooLarge)
		}
	}
	return nil
}

func newParquetGuard(r io.ReaderAt, size int64, f *parquet.File) *parquetGuard {
	g := &parquetGuard{r: r, size: size, meta: f.Metadata()}
	for i, path := range f.Schema().Columns() {
		leaf := parquetLeaf{name: strings.Join(path, ".")}
		if c, ok := f.Schema().Lookup(path...); ok {
			leaf.repeat, leaf.define = c.MaxRepetitionLevel, c.MaxDefinitionLevel
			leaf.kind = c.Node.Type().Kind()
			if leaf.kind == parquet.FixedLenByteArray {
				leaf.width = int64(c.Node.Type().Length())
			}
		}
		if len(g.meta.RowGroups) > 0 && i < len(g.meta.RowGroups[0].Columns) {
			leaf.codec = g.meta.RowGroups[0].Columns[i].MetaData.Codec // the library's choice for all groups
		}
		g.leaves = append(g.leaves, leaf)
	}
	return g
}

// check goes over a row group; longest is the greatest number of values that one
// of its rows has in a column.
func (g *parquetGuard) check(group int) (longest int, err error) {
	var total int64
	for i := range g.meta.RowGroups[group].Columns {
		if i >= len(g.leaves) {
			break
		}
		c := &chunkCheck{g: g, leaf: g.leaves[i]}
		md := &g.meta.RowGroups[group].Columns[i].MetaData
		if err := c.pages(md); err != nil {
			return 0, fmt.Errorf("row group %d, column %s, page %d: %w", group+1, c.leaf.name, c.page, err)
		}
		longest = max(longest, c.longest)
		if total += c.most; total > maxPages {
			return 0, fmt.Errorf("row group %d: the greatest pages of its columns take %d bytes together, the limit is %d: %w", group+1, total, maxPages, ErrTooLarge)
		}
	}
	return longest, nil
}

// chunkCheck goes over one column of a row group.
type chunkCheck struct {
	g    *parquetGuard
	leaf parquetLeaf
	page int
	// most is the memory that the greatest page and the dictionary take.
	most, largest, dictionary int64
	// row is the number of values of the row so far.
	row, longest int
}

func (c *chunkCheck) pages(md *format.ColumnMetaData) error {
	at := md.DataPageOffset
	if md.DictionaryPageOffset != 0 {
		at = md.DictionaryPageOffset
	}
	if at < 0 || md.TotalCompressedSize < 0 || at > c.g.size || md.TotalCompressedSize > c.g.size-at {
		return fmt.Errorf("%d bytes are said to lie at byte %d, the file has %d: %w", md.TotalCompressedSize, at, c.g.size, ErrDamaged)
	}
	end := at + md.TotalCompressedSize
	for at < end {
		c.page++
		h, n, err := c.header(at, end)
		if err != nil {
			return err
		}
		at += n
		if int64(h.CompressedPageSize) > end-at {
			return fmt.Errorf("it is said to have %d bytes, the column has %d left: %w", h.CompressedPageSize, end-at, ErrDamaged)
		}
		if err := c.sizes(h); err != nil {
			return err
		}
		body := make([]byte, h.CompressedPageSize)
		if _, err := c.g.r.ReadAt(body, at); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err := c.body(h, body); err != nil {
			return err
		}
		at += int64(h.CompressedPageSize)
	}
	c.most = c.largest + c.dictionary
	return nil
}

// header reads the page header at a place of the file, and gives its length.
func (c *chunkCheck) header(at, end int64) (*format.PageHeader, int64, error) {
	for size := int64(4 << 10); ; size *= 16 {
		b := make([]byte, min(size, end-at))
		if _, err := c.g.r.ReadAt(b, at); err != nil && !errors.Is(err, io.EOF) {
			return nil, 0, err
		}
		n, err := thriftSize(b)
		if errors.Is(err, errThriftShort) && size < pageHeader && size < end-at {
			continue
		}
		if err != nil {
			return nil, 0, fmt.Errorf("the page header at byte %d is broken: %w: %w", at, err, ErrDamaged)
		}
		h := new(format.PageHeader)
		if err := thrift.Unmarshal(new(thrift.CompactProtocol), b[:n], h); err != nil {
			return nil, 0, fmt.Errorf("the page header at byte %d cannot be decoded: %w: %w", at, err, ErrDamaged)
		}
		return h, int64(n), nil
	}
}

// values is the number of values that the page is said to have.
func pageValues(h *format.PageHeader) int64 {
	switch {
	case h.Type == format.DataPage && h.DataPageHeader.Valid:
		return int64(h.DataPageHeader.V.NumValues)
	case h.Type == format.DataPageV2 && h.DataPageHeaderV2.Valid:
		return int64(h.DataPageHeaderV2.V.NumValues)
	case h.Type == format.DictionaryPage && h.DictionaryPageHeader.Valid:
		return int64(h.DictionaryPageHeader.V.NumValues)
	}
	return 0
}

func (c *chunkCheck) sizes(h *format.PageHeader) error {
	values := pageValues(h)
	switch {
	case h.CompressedPageSize < 0 || h.UncompressedPageSize < 0 || values < 0:
		return fmt.Errorf("its header has a size below zero: %w", ErrDamaged)
	case h.UncompressedPageSize > maxPage || h.CompressedPageSize > maxPage:
		return fmt.Errorf("it has %d bytes, packed %d; the limit is %d: %w", h.UncompressedPageSize, h.CompressedPageSize, maxPage, ErrTooLarge)
	case values > maxPageValues:
		return fmt.Errorf("it is said to have %d values, the limit is %d: %w", values, maxPageValues, ErrTooLarge)
	case c.leaf.width > maxPage:
		return fmt.Errorf("its values have %d bytes each, the limit is %d: %w", c.leaf.width, maxPage, ErrTooLarge)
	}
	// The page, its packed form, and levels, offsets or places in the dictionary.
	need := int64(h.UncompressedPageSize) + int64(h.CompressedPageSize) + 6*values
	if h.Type == format.DictionaryPage {
		need += c.leaf.width * values
		c.dictionary = max(c.dictionary, need)
	} else {
		c.largest = max(c.largest, need)
	}
	if need > 4*maxPage {
		return fmt.Errorf("its %d values take %d bytes, the limit is %d: %w", values, need, 4*maxPage, ErrTooLarge)
	}
	return nil
}

// body looks at what the page holds.
func (c *chunkCheck) body(h *format.PageHeader, body []byte) error {
	values := int(pageValues(h))
	switch {
	case h.Type == format.DictionaryPage:
		_, err := unpackPage(c.leaf.codec, body, int(h.UncompressedPageSize))
		return err
	case h.Type == format.DataPage && h.DataPageHeader.Valid:
		v := &h.DataPageHeader.V
		data, err := unpackPage(c.leaf.codec, body, int(h.UncompressedPageSize))
		if err != nil {
			return err
		}
		for _, level := range []struct {
			most     int
			encoding format.Encoding
			repeats  bool
		}{{c.leaf.repeat, v.RepetitionLevelEncoding, true}, {c.leaf.define, v.DefinitionLevelEncoding, false}} {
			if level.most == 0 {
				continue
			}
			if len(data) < 4 || uint64(binary.LittleEndian.Uint32(data)) > uint64(len(data)-4) {
				return fmt.Errorf("its levels are longer than itself: %w", ErrDamaged)
			}
			n := int(binary.LittleEndian.Uint32(data))
			if err := c.levels(data[4:4+n], level.most, level.encoding, values, level.repeats); err != nil {
				return err
			}
			data = data[4+n:]
		}
		return c.data(v.Encoding, data, values)
	case h.Type == format.DataPageV2 && h.DataPageHeaderV2.Valid:
		v := &h.DataPageHeaderV2.V
		repeat, define := int64(v.RepetitionLevelsByteLength), int64(v.DefinitionLevelsByteLength)
		if repeat < 0 || define < 0 || repeat+define > int64(len(body)) {
			return fmt.Errorf("its levels are longer than itself: %w", ErrDamaged)
		}
		if c.leaf.repeat > 0 {
			if err := c.levels(body[:repeat], c.leaf.repeat, format.RLE, values, true); err != nil {
				return err
			}
		}
		if c.leaf.define > 0 {
			if err := c.levels(body[repeat:repeat+define], c.leaf.define, format.RLE, values, false); err != nil {
				return err
			}
		}
		data := body[repeat+define:]
		if !v.IsCompressed.Valid || v.IsCompressed.V {
			var err error
			if data, err = unpackPage(c.leaf.codec, data, int(h.UncompressedPageSize)); err != nil {
				return err
			}
		}
		return c.data(v.Encoding, data, values)
	}
	return nil
}

// levels counts the runs of levels, and of repetition levels how many values a
// row has.
func (c *chunkCheck) levels(b []byte, most int, encoding format.Encoding, values int, repeats bool) error {
	if encoding != format.RLE {
		return nil // packed bits are never more than eight values a byte
	}
	width := 0
	for 1<<width <= most {
		width++
	}
	return runs(b, width, values, func(value uint64, n int) error {
		if !repeats {
			return nil
		}
		if value == 0 {
			c.row = 1 // n rows of one value each; the last may go on
			c.longest = max(c.longest, 1)
			return nil
		}
		c.row += n
		if c.longest = max(c.longest, c.row); c.longest > maxRowValues {
			return fmt.Errorf("a row has more than %d values in a list: %w", maxRowValues, ErrTooLarge)
		}
		return nil
	})
}

// data looks at encodings that can stand for more than their bytes.
func (c *chunkCheck) data(encoding format.Encoding, b []byte, values int) error {
	switch encoding {
	case format.PlainDictionary, format.RLEDictionary: //nolint:staticcheck // old files have the old name
		if len(b) == 0 {
			return nil
		}
		return runs(b[1:], int(b[0]), values, nil)
	case format.RLE:
		if len(b) < 4 {
			return nil
		}
		return runs(b[4:], 1, values, nil)
	case format.DeltaBinaryPacked, format.DeltaLengthByteArray:
		_, _, err := deltas(b, values, nil)
		return err
	case format.DeltaByteArray:
		return c.prefixes(b, values)
	default:
		return nil
	}
}

// prefixes adds up what texts take that share their beginnings.
func (c *chunkCheck) prefixes(b []byte, values int) error {
	lengths := make([]int64, 0, min(values, 1<<16))
	rest, _, err := deltas(b, values, func(n int64) { lengths = append(lengths, n) })
	if err != nil {
		return err
	}
	var total int64
	at := 0
	_, _, err = deltas(rest, values, func(n int64) {
		if at < len(lengths) && lengths[at] >= 0 && n >= 0 {
			total += lengths[at] + n
		}
		at++
	})
	if err == nil && total > maxPage {
		err = fmt.Errorf("its texts have %d bytes, the limit is %d: %w", total, maxPage, ErrTooLarge)
	}
	return err
}
