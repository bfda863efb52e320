package source

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The library believes the lengths that a Parquet file's footer and page headers
// give for their texts and lists, and takes the memory before it looks for the
// content. thriftWalk goes over such a structure first, in Thrift's compact form,
// and takes no memory itself.
type thriftWalk struct {
	b  []byte
	at int
	// structs and items count what lists hold.
	structs, items int
}

// Bounds of a footer or page header.
const (
	thriftDepth   = 64
	thriftStructs = 500_000
	thriftItems   = 4_000_000
)

var (
	errThriftShort = errors.New("it ends too early")
	errThriftForm  = errors.New("it has a form that no such structure has")
)

// size walks over one structure at the front of b and gives its length.
func thriftSize(b []byte) (int, error) {
	w := thriftWalk{b: b}
	if err := w.structure(0); err != nil {
		return 0, err
	}
	return w.at, nil
}

func (w *thriftWalk) byte() (byte, error) {
	if w.at >= len(w.b) {
		return 0, errThriftShort
	}
	c := w.b[w.at]
	w.at++
	return c, nil
}

func (w *thriftWalk) uvarint() (uint64, error) {
	v, n := binary.Uvarint(w.b[w.at:])
	switch {
	case n == 0:
		return 0, errThriftShort
	case n < 0:
		return 0, errThriftForm
	}
	w.at += n
	return v, nil
}

func (w *thriftWalk) skip(n uint64) error {
	if n > uint64(len(w.b)-w.at) {
		return fmt.Errorf("a text is said to have %d bytes and %d are left: %w", n, len(w.b)-w.at, errThriftShort)
	}
	w.at += int(n)
	return nil
}

func (w *thriftWalk) structure(depth int) error {
	if depth > thriftDepth {
		return errThriftForm
	}
	for {
		head, err := w.byte()
		if err != nil || head == 0 {
			return err
		}
		if head>>4 == 0 { // the field's number follows
			if _, err := w.uvarint(); err != nil {
				return err
			}
		}
		if err := w.value(head&15, depth, false); err != nil {
			return err
		}
	}
}

// value walks over a value of a type; in a list a boolean has a byte of its own.
func (w *thriftWalk) value(typ byte, depth int, listed bool) error {
	switch typ {
	case 1, 2:
		if listed {
			return w.skip(1)
		}
		return nil
	case 3:
		return w.skip(1)
	case 4, 5, 6:
		_, err := w.uvarint()
		return err
	case 7:
		return w.skip(8)
	case 8:
		n, err := w.uvarint()
		if err != nil {
			return err
		}
		return w.skip(n)
	case 9, 10:
		return w.list(depth)
	case 11:
		return w.pairs(depth)
	case 12:
		return w.structure(depth + 1)
	default:
		return errThriftForm
	}
}

func (w *thriftWalk) count(typ byte, n uint64) error {
	if n > uint64(len(w.b)-w.at) {
		return fmt.Errorf("a list is said to have %d items and %d bytes are left: %w", n, len(w.b)-w.at, errThriftShort)
	}
	w.items += int(n)
	if typ == 12 {
		w.structs += int(n)
	}
	if w.items > thriftItems || w.structs > thriftStructs {
		return fmt.Errorf("its lists have more than %d structures or %d items: %w", thriftStructs, thriftItems, ErrTooLarge)
	}
	return nil
}

func (w *thriftWalk) list(depth int) error {
	head, err := w.byte()
	if err != nil {
		return err
	}
	n := uint64(head >> 4)
	if n == 15 {
		if n, err = w.uvarint(); err != nil {
			return err
		}
	}
	if err := w.count(head&15, n); err != nil {
		return err
	}
	for range n {
		if err := w.value(head&15, depth+1, true); err != nil {
			return err
		}
	}
	return nil
}

func (w *thriftWalk) pairs(depth int) error {
	n, err := w.uvarint()
	if err != nil || n == 0 {
		return err
	}
	types, err := w.byte()
	if err != nil {
		return err
	}
	if err := w.count(12, n); err != nil {
		return err
	}
	for range n {
		for _, typ := range []byte{types >> 4, types & 15} {
			if err := w.value(typ, depth+1, true); err != nil {
				return err
			}
		}
	}
	return nil
}
