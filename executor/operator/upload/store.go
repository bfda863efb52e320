package upload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
)

// store is a place for files. Errors are *dag.TaskError, the cause of ctx, or
// what fault.Error can name.
type store interface {
	// address is the key's whole address without login and query.
	address(key string) string
	// look says what is at a key; nil when nothing is.
	look(ctx context.Context, key string) (*found, error)
	// put sends the content to a key. With replace unset it fails with errTaken
	// when something is there, whoever put it there meanwhile. commit is asked just
	// before the content can become visible.
	put(ctx context.Context, p put) error
	// read opens what is at a key.
	read(ctx context.Context, key string) (io.ReadCloser, error)
	// sweep ends the unfinished uploads to a key and says how many there were;
	// those of this process only when live is set.
	sweep(ctx context.Context, key string, live bool) (int, error)
	// close lets go of connections.
	close()
}

// put is one write.
type put struct {
	key         string
	content     *content
	replace     bool
	contentType string
	metadata    map[string]string
	commit      func(context.Context) error
}

// found is what a store says of a key. What it does not say is empty.
type found struct {
	size int64 // -1 when it does not say
	// sha256 of all bytes as the store computed it, in hexadecimal.
	sha256 string
	// claimed is the hash that the object's writer left with it: enough to skip
	// what a verified upload put there, no proof of an upload of one's own.
	claimed string
	// composite is the checksum of S3 over parts, and their number.
	composite []byte
	parts     int
	etag      string
	version   string
	// proved: the file's content has been read and compared already.
	proved bool
}

// compare holds what a store says of its copy against a content, as far as it
// says something: known is false when it does not say enough.
func (f *found) compare(sha string, size int64, c *content) (same bool, why string, known bool) {
	switch {
	case size >= 0 && f.size >= 0 && f.size != size:
		return false, fmt.Sprintf("it has %d bytes, the file %d", f.size, size), true
	case f.proved:
		return true, "", true
	case f.sha256 != "":
		return f.sha256 == sha, "its SHA-256 is " + f.sha256 + ", the file's " + sha, true
	case c != nil && len(f.composite) > 0 && f.parts == len(c.parts):
		// Parts of other sizes give another checksum of the same bytes: only a match
		// says something.
		if string(f.composite) == string(c.composite()) {
			return true, "", true
		}
	}
	return false, "", false
}

// errTaken: the key has got a content since it was looked at.
var errTaken = errors.New("something is at the key now")

// errUploadGone: the unfinished upload is not there any more.
var errUploadGone = errors.New("the unfinished upload is gone")

// open finds the store that target and connection name.
func (o *Operator) open(ctx context.Context, a *attempt) (store, error) {
	s := a.s
	var conn *dag.Connection
	if s.connID != "" {
		c, err := a.t.Connection(ctx, s.connID)
		if err != nil {
			return nil, fault.Connection(err)
		}
		conn = &c
	}
	scheme, rest, whole := strings.Cut(s.target, "://")
	kind := strings.ToLower(scheme)
	if !whole {
		kind, rest = "", s.target
		if conn != nil {
			kind = conn.Type
		}
	}
	switch kind {
	case "", "file", "fs", "local":
		if whole { // an address has its odd characters escaped, a path has them as they are
			if plain, err := url.PathUnescape(rest); err == nil {
				rest = plain
			}
		}
		dir, err := folder(rest, conn, a.t.Dir)
		if err != nil {
			return nil, err
		}
		return o.openFolder(a, dir), nil
	case "s3", "s3a", "aws":
		return o.openS3(ctx, a, conn, rest, whole)
	case "http", "https":
		return o.openHTTP(ctx, a)
	default:
		e := fault.New(fault.CodeConnectionInvalid, fmt.Sprintf("%q is no kind of store that upload knows", kind))
		e.Hint = "the kinds are s3 (aws), http, https and file (fs)"
		return nil, e
	}
}

// folder is the absolute path that target and connection name together.
func folder(target string, conn *dag.Connection, dir string) (string, error) {
	base := dir
	if conn != nil {
		if p, _ := conn.Extra["path"].(string); p != "" {
			base = resolve(p, dir)
		} else if p := conn.Schema; p != "" && conn.Host == "" { // file:///srv/catalogue
			base = resolve("/"+strings.TrimPrefix(p, "/"), dir)
		} else if target == "" {
			return "", fault.New(fault.CodeConnectionInvalid, fmt.Sprintf("connection %q names no folder: write file:///srv/catalogue, or the extra path", conn.ID))
		}
	}
	if strings.ContainsRune(target, 0) {
		return "", fault.New(fault.CodeInvalidArgument, "target holds a zero byte")
	}
	return resolve(target, base), nil
}

func resolve(path, base string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(base, path)
}
