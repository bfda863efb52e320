package source

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// zstdWindow bounds what a zstandard file may ask to be kept in memory.
const zstdWindow = 128 << 20

// unpack looks at the first bytes: gzip, zstandard and bzip2 are unpacked, other
// archives refused by name, anything else is read as it stands. A name that says
// packed over a content that is not is refused. done frees what it holds.
func unpack(r io.Reader, name string) (plain io.Reader, done func(), err error) {
	b := bufio.NewReaderSize(r, 64<<10)
	head, err := b.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	refuse := func(what string) error {
		return fmt.Errorf("%s: the file is packed with %s: %w; unpack it or use gzip or zstandard", name, what, ErrEncoding)
	}
	done = func() {}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		plain, err = gzip.NewReader(b)
	case bytes.HasPrefix(head, []byte("BZh")) && strings.HasSuffix(name, ".bz2"):
		plain = bzip2.NewReader(b)
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		var z *zstd.Decoder
		z, err = zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
		if err == nil {
			plain, done = z, z.Close
		}
	case bytes.HasPrefix(head, []byte{0xfd, '7', 'z', 'X', 'Z', 0}):
		return nil, nil, refuse("xz")
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return nil, nil, refuse("zip")
	case bytes.HasPrefix(head, []byte("PAR1")):
		return nil, nil, fmt.Errorf("%s: the file is Parquet and the step reads text: %w; say format: parquet", name, ErrEncoding)
	case len(head) > 0 && strings.HasSuffix(name, ".gz"):
		return nil, nil, fmt.Errorf("%s: the name says gzip and the content is not: %w", name, ErrEncoding)
	case len(head) > 0 && strings.HasSuffix(name, ".zst"):
		return nil, nil, fmt.Errorf("%s: the name says zstandard and the content is not: %w", name, ErrEncoding)
	default:
		return b, done, nil
	}
	if err != nil {
		return nil, nil, damaged(err)
	}
	return packed{plain}, done, nil
}

// packed says of a decoder's errors that the file is damaged.
type packed struct{ r io.Reader }

// Read implements io.Reader.
func (p packed) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	return n, damaged(err)
}

func damaged(err error) error {
	var file *fs.PathError
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &file) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}
