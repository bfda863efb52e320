package source

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
)

// unpackPage unpacks a page, which must come to no more bytes than it says.
func unpackPage(codec format.CompressionCodec, b []byte, says int) ([]byte, error) {
	more := func() error {
		return fmt.Errorf("it unpacks to more than the %d bytes that it is said to have: %w", says, ErrDamaged)
	}
	broken := func(err error) error { return fmt.Errorf("it cannot be unpacked: %w: %w", err, ErrDamaged) }
	var r io.Reader
	switch codec {
	case format.Snappy:
		n, err := snappy.DecodedLen(b)
		if err != nil {
			return nil, broken(err)
		}
		if n > says {
			return nil, more()
		}
		out, err := snappy.Decode(nil, b)
		if err != nil {
			return nil, broken(err)
		}
		return out, nil
	case format.Lz4Raw, format.Lz4:
		// The library loses pages that LZ4 packs to more than a third.
		return nil, fmt.Errorf("it is packed with LZ4: %w; write the file with zstandard, snappy or gzip", ErrEncoding)
	case format.Gzip:
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, broken(err)
		}
		r = z
	case format.Zstd:
		z, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return nil, broken(err)
		}
		defer z.Close()
		r = z
	case format.Brotli:
		r = brotli.NewReader(bytes.NewReader(b))
	default:
		return b, nil // not packed, or in a way that the library refuses
	}
	out := bytes.NewBuffer(make([]byte, 0, says))
	n, err := io.Copy(out, io.LimitReader(r, int64(says)+1))
	if err != nil {
		return nil, broken(err)
	}
	if n > int64(says) {
		return nil, more()
	}
	return out.Bytes(), nil
}

// runs counts the values of a text of runs and packed bits; of each run it tells
// the value, of packed bits each value. More than there are to be is a fault: the
// library would write all of them down first.
func runs(b []byte, width, values int, each func(value uint64, n int) error) error {
	if width > 32 {
		return fmt.Errorf("its values have %d bits: %w", width, ErrDamaged)
	}
	// The last group of packed bits may have as many as seven too many, and some
	// writers pad to a group of 64.
	limit := int64(values) + 512
	for total := int64(0); len(b) > 0; {
		head, n := binary.Uvarint(b)
		if n <= 0 {
			return fmt.Errorf("a run has no length: %w", ErrDamaged)
		}
		b = b[n:]
		count := head >> 1
		packed := head&1 != 0
		if packed {
			if count > uint64(len(b)) && width > 0 {
				return fmt.Errorf("packed bits are longer than the page: %w", ErrDamaged)
			}
			count *= 8
		}
		if count > uint64(limit) || total+int64(count) > limit {
			return fmt.Errorf("its runs have more than the %d values that it is said to have: %w", values, ErrDamaged)
		}
		if packed {
			size := int(count) / 8 * width
			if size > len(b) {
				return fmt.Errorf("packed bits are longer than the page: %w", ErrDamaged)
			}
			if each != nil {
				for i := range int(min(int64(count), int64(values)-total)) {
					if err := each(bitsAt(b, i*width, width), 1); err != nil {
						return err
					}
				}
			}
			b = b[size:]
		} else {
			size := (width + 7) / 8
			if size > len(b) {
				return fmt.Errorf("a run has no value: %w", ErrDamaged)
			}
			var word [8]byte
			copy(word[:], b[:size])
			if each != nil && count > 0 {
				if err := each(binary.LittleEndian.Uint64(word[:]), int(count)); err != nil {
					return err
				}
			}
			b = b[size:]
		}
		total += int64(count)
	}
	return nil
}

// bitsAt reads a value of width bits at a place counted in bits.
func bitsAt(b []byte, at, width int) uint64 {
	var v uint64
	for i := range width {
		v |= uint64(b[(at+i)/8]>>((at+i)%8)&1) << i
	}
	return v
}

// deltas walks over numbers that are kept as differences, tells each and gives
// what follows them and how many there are.
func deltas(b []byte, values int, each func(int64)) (rest []byte, n int, err error) {
	short := fmt.Errorf("its numbers end too early: %w", ErrDamaged)
	number := func() (v uint64) {
		u, size := binary.Uvarint(b)
		if size <= 0 {
			err, b = short, nil
			return 0
		}
		b = b[size:]
		return u
	}
	block, minis, total := number(), number(), number()
	last := unzigzag(number())
	switch {
	case err != nil:
		return nil, 0, err
	case block == 0 || minis == 0 || block > 1<<16 || block%minis != 0 || block/minis%8 != 0:
		return nil, 0, fmt.Errorf("its numbers come in blocks of %d in %d: %w", block, minis, ErrDamaged)
	case total > uint64(values):
		return nil, 0, fmt.Errorf("it has %d numbers and is said to have %d values: %w", total, values, ErrDamaged)
	}
	if total > 0 && each != nil {
		each(last)
	}
	per := int(block / minis)
	for left := int(total) - 1; left > 0; {
		least := unzigzag(number())
		if err != nil || uint64(len(b)) < minis {
			return nil, 0, short
		}
		widths := b[:minis]
		b = b[minis:]
		for _, width := range widths {
			if left <= 0 {
				break
			}
			if width > 64 {
				return nil, 0, fmt.Errorf("its numbers have %d bits: %w", width, ErrDamaged)
			}
			size := per * int(width) / 8
			if each != nil {
				packed := b
				if size > len(b) { // the last block may be cut
					packed = make([]byte, size)
					copy(packed, b)
				}
				for i := range min(per, left) {
					last += least + int64(bitsAt(packed, i*int(width), int(width)))
					each(last)
				}
			}
			left -= min(per, left)
			b = b[min(size, len(b)):]
		}
	}
	return b, int(total), nil
}

func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }
