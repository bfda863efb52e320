package upload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/plainfile"
	"github.com/airlock-dag/airlock/executor/fault"
)

// content is a file as it was read once, from end to end.
type content struct {
	path    string
	size    int64
	modTime time.Time
	sha256  string
	// partSize is the size of all parts but the last, parts their hashes; there is
	// always one.
	partSize int64
	parts    [][]byte
}

func notAFile(path string) *dag.TaskError {
	return &dag.TaskError{
		Class: dag.ClassConfiguration, Code: fault.CodeInvalidArgument,
		Message: path + " is no regular file", Hint: "name a file; for all files of a folder expand over {glob: ...}",
	}
}

// readContent hashes a file as a whole and by parts. The error is a
// *dag.TaskError or the cause of ctx. advance is told of the bytes read.
func readContent(ctx context.Context, path string, partSize int64, advance func(n int)) (*content, error) {
	f, err := plainfile.Open(path)
	if errors.Is(err, plainfile.ErrNotPlain) {
		return nil, notAFile(path)
	}
	if err != nil {
		return nil, sourceError(err, path)
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return nil, sourceError(err, path)
	}
	c := &content{path: path, modTime: before.ModTime(), partSize: partSizeFor(before.Size(), partSize)}
	all, part, inPart := sha256.New(), sha256.New(), int64(0)
	buf := make([]byte, 256<<10)
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		n, err := f.Read(buf)
		all.Write(buf[:n])
		c.size += int64(n)
		for rest := buf[:n]; len(rest) > 0; {
			take := min(int64(len(rest)), c.partSize-inPart)
			part.Write(rest[:take])
			rest, inPart = rest[take:], inPart+take
			if inPart == c.partSize {
				c.endPart(part)
				inPart = 0
			}
		}
		advance(n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, sourceError(err, path)
		}
	}
	if inPart > 0 || len(c.parts) == 0 {
		c.endPart(part)
	}
	c.sha256 = hex.EncodeToString(all.Sum(nil))
	return c, c.unchanged()
}

func (c *content) endPart(part hash.Hash) {
	c.parts = append(c.parts, part.Sum(nil))
	part.Reset()
}

// unchanged looks whether the file is still the one that was read.
func (c *content) unchanged() error {
	now, err := os.Stat(c.path)
	if err != nil {
		return sourceError(err, c.path)
	}
	if now.Size() != c.size || !now.ModTime().Equal(c.modTime) {
		return fault.New("INPUT_CHANGING", c.path+" changed while it was read")
	}
	return nil
}

// partSizeFor is the wanted size, or the least one that cuts a file into the
// number of parts that S3 takes.
func partSizeFor(size, wanted int64) int64 {
	if least := (size + maxParts - 1) / maxParts; least > wanted {
		return (least + 1<<20 - 1) >> 20 << 20
	}
	return wanted
}

// section is a part of an open file, from 0.
func (c *content) section(f io.ReaderAt, part int) *io.SectionReader {
	begin := int64(part) * c.partSize
	return io.NewSectionReader(f, begin, min(c.partSize, c.size-begin))
}

// composite is the checksum that S3 makes of the checksums of parts.
func (c *content) composite() []byte {
	h := sha256.New()
	for _, p := range c.parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

// sourceError names an error about the file to send.
func sourceError(err error, path string) *dag.TaskError {
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New("INPUT_MISSING", path+" does not exist")
	}
	e := fault.Error(err)
	if e.Code == fault.CodeInternal {
		e = fault.New(fault.CodeIOError, err.Error())
	}
	return e
}

// hashOf reads a stream to its end.
func hashOf(ctx context.Context, r io.Reader, advance func(n int)) (sum string, size int64, err error) {
	h, buf := sha256.New(), make([]byte, 256<<10)
	for {
		if ctx.Err() != nil {
			return "", size, context.Cause(ctx)
		}
		n, err := r.Read(buf)
		h.Write(buf[:n])
		size += int64(n)
		advance(n)
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(h.Sum(nil)), size, nil
		}
		if err != nil {
			return "", size, fmt.Errorf("read back: %w", err)
		}
	}
}
