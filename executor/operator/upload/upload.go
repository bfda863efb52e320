package upload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator"
)

// Result is the operator's return value.
type Result struct {
	// URL is the address of the object: s3://bucket/key, https://..., file://...
	URL string `json:"url"`
	Key string `json:"key"`
	// Path of the file that was sent, absolute.
	Path string `json:"path"`
	// SHA256 of the object, AssetSHA256 of what it was made from.
	SHA256      string `json:"sha256"`
	AssetSHA256 string `json:"asset_sha256"`
	Profile     string `json:"profile,omitempty"`
	Size        int64  `json:"size"`
	// Skipped: the key held this content already.
	Skipped bool   `json:"skipped"`
	ETag    string `json:"etag,omitempty"`
	Version string `json:"version_id,omitempty"`
}

// attempt is one Run.
type attempt struct {
	t  *operator.Task
	s  *settings
	st store
	m  *meter
	// key and address are set as soon as they are known.
	key, address string
	// The transfer, while sending is set.
	sending atomic.Bool
	sent    atomic.Int64 // bytes
	// reported is when progress was told last, in nanoseconds after begun.
	reported atomic.Int64
	total    int64
	begun    time.Time
}

// Run implements operator.Operator.
func (o *Operator) Run(ctx context.Context, t *operator.Task) dag.Outcome {
	s, fail := readSettings(t.Args, t.Dir)
	if fail != nil {
		return dag.Failed(fault.Apply(t.Def, fail, ""))
	}
	a := &attempt{t: t, s: s, m: &meter{clock: t.Clock, budget: &budget{}}}
	a.m.onMove = a.progress
	res, err := o.run(ctx, a)
	if err == nil {
		return dag.Success(res)
	}
	fail = taskError(ctx, err)
	fail.AssetSHA256 = cmp.Or(fail.AssetSHA256, s.file.assetSHA256)
	fail.IdempotencyKey = cmp.Or(fail.IdempotencyKey, a.address)
	return dag.Failed(fault.Apply(t.Def, fail, fail.Stack))
}

// taskError names an error; what stopped the attempt comes before what it said.
func taskError(ctx context.Context, err error) *dag.TaskError {
	if ctx.Err() != nil {
		return fault.Stopped(context.Cause(ctx))
	}
	if errors.Is(err, operator.ErrLeaseLost) {
		return fault.Stopped(operator.ErrLeaseLost)
	}
	return fault.Error(err)
}

func (a *attempt) logf(format string, args ...any) {
	fmt.Fprintf(a.t.Log, "airlock: "+format+"\n", args...)
}

func (o *Operator) run(ctx context.Context, a *attempt) (*Result, error) {
	watched, stop := a.m.watch(ctx, a.s.stall)
	defer stop()
	res, err := o.upload(watched, a)
	if err != nil && watched.Err() != nil && ctx.Err() == nil {
		return nil, context.Cause(watched) // the watch ended it
	}
	return res, err
}

func (o *Operator) upload(ctx context.Context, a *attempt) (*Result, error) {
	st, err := o.open(ctx, a)
	if err != nil {
		return nil, err
	}
	a.st = st
	defer st.close()
	s := a.s
	// With a hash from an earlier step the key is known before the file is read,
	// and what is done is skipped at once.
	sha := s.file.sha256
	if sha != "" {
		if err := a.name(sha); err != nil {
			return nil, err
		}
		if a.again() {
			a.sweep(ctx, false)
		}
		if res, err := a.skip(ctx, sha, -1, nil); res != nil || err != nil {
			return res, err
		}
	}
	c, err := a.readFile(ctx)
	if err != nil {
		return nil, err
	}
	if sha == "" {
		if err := a.name(c.sha256); err != nil {
			return nil, err
		}
		if a.again() {
			a.sweep(ctx, false)
		}
		if res, err := a.skip(ctx, c.sha256, c.size, c); res != nil || err != nil {
			return res, err
		}
	}
	return a.send(ctx, c)
}

// again tells whether an attempt of this task instance may have died: what it
// began is then nobody's.
func (a *attempt) again() bool { return a.t.TI.Fence > 1 }

// name makes key and address.
func (a *attempt) name(sha string) error {
	f := a.s.file
	template := cmp.Or(a.s.key, f.key, defaultKey)
	base := filepath.Base(f.path)
	ext := filepath.Ext(base)
	key, err := expandKey(template, func(name string) (string, error) {
		v := map[string]string{
			"sha256": sha, "asset_sha256": cmp.Or(f.assetSHA256, sha), "profile": f.profile,
			"name": base, "stem": strings.TrimSuffix(base, ext), "ext": ext,
		}[name]
		if v == "" && name != "ext" {
			return "", fmt.Errorf("key has {%s}, and path gives none: it is the record of a transcode step that has one", name)
		}
		return v, nil
	})
	if err == nil {
		err = checkKey(key)
	}
	if err != nil {
		return fault.New(fault.CodeInvalidArgument, err.Error())
	}
	a.key, a.address = key, a.st.address(key)
	return nil
}

// readFile reads the file to send and compares it with its record.
func (a *attempt) readFile(ctx context.Context) (*content, error) {
	f := &a.s.file
	c, err := readContent(ctx, f.path, a.s.partSize, a.m.advance)
	if err != nil {
		return nil, err
	}
	switch {
	case f.sha256 != "" && c.sha256 != f.sha256:
		e := fault.New(fault.CodeHashMismatch, fmt.Sprintf("%s has the hash %s, the step that made it recorded %s", f.path, c.sha256, f.sha256))
		e.Hint = "the file was replaced since: run that step again"
		return nil, e
	case c.size == 0 && !a.s.allowEmpty:
		e := fault.New("INPUT_EMPTY", f.path+" is empty")
		e.Hint = "it is the usual sign of a file that is still being written; allow_empty: true takes it"
		return nil, e
	}
	f.assetSHA256 = cmp.Or(f.assetSHA256, c.sha256)
	return c, nil
}

// skip gives the result when the key holds the content already, nil when it
// holds nothing or what may be overwritten, and OBJECT_EXISTS for anything
// else. size is -1 and c nil while the file has not been read.
func (a *attempt) skip(ctx context.Context, sha string, size int64, c *content) (*Result, error) {
	is, err := a.st.look(ctx, a.key)
	if is == nil || err != nil {
		return nil, err
	}
	same, why, known := is.compare(sha, size, c)
	switch {
	case known:
	case is.claimed != "":
		same, why = is.claimed == sha, "its SHA-256 is "+is.claimed+", the file's "+sha
	default:
		same, why, err = a.sameBytes(ctx, is, sha, size)
	}
	switch {
	case err != nil:
		return nil, err
	case same:
		a.logf("%s is there with this content: skipped", a.address)
		if a.again() {
			a.sweep(ctx, true)
		}
		return a.result(sha, is, true), nil
	case a.s.overwrite:
		a.logf("%s is overwritten: %s", a.address, why)
		return nil, nil
	default:
		return nil, fault.New(fault.CodeObjectExists, "the key holds something else ("+why+"): "+a.address)
	}
}

// sameBytes reads the object and compares hashes.
func (a *attempt) sameBytes(ctx context.Context, is *found, sha string, size int64) (same bool, why string, err error) {
	r, err := a.st.read(ctx, a.key)
	if err != nil {
		return false, "", err
	}
	defer r.Close()
	if size >= 0 {
		r = limited(r, size+1)
	}
	sum, n, err := hashOf(ctx, r, a.m.advance)
	switch {
	case err != nil:
		return false, "", err
	case size >= 0 && n != size:
		return false, fmt.Sprintf("its length is not the file's %d bytes", size), nil
	case sum != sha:
		return false, "its SHA-256 is " + sum + ", the file's " + sha, nil
	}
	is.size = n
	return true, "", nil
}

// send puts the content, and verifies what the store then holds.
func (a *attempt) send(ctx context.Context, c *content) (*Result, error) {
	a.begun, a.total = a.t.Clock.Now(), c.size
	a.sending.Store(true)
	err := a.st.put(ctx, put{
		key: a.key, content: c, replace: a.s.overwrite, contentType: a.contentType(), metadata: a.s.metadata,
		commit: func(ctx context.Context) error {
			if err := c.unchanged(); err != nil {
				return err
			}
			return a.t.StillMine(ctx)
		},
	})
	a.sending.Store(false)
	if errors.Is(err, errTaken) || errors.Is(err, errUploadGone) {
		a.logf("another worker was faster: %v", err)
		gone := errors.Is(err, errUploadGone)
		res, err := a.skip(ctx, c.sha256, c.size, c)
		switch {
		case res != nil || err != nil:
			return res, err
		case gone:
			return nil, fault.New(fault.CodeUploadLost, "somebody else ended the unfinished upload: "+a.address)
		}
		return nil, fault.New(fault.CodeUploadLost, "the key was taken and is free again: "+a.address)
	}
	if err != nil {
		return nil, err
	}
	is, err := a.verify(ctx, c)
	if err != nil {
		return nil, err
	}
	if a.again() || (len(c.parts) > 1 && !a.s.overwrite) {
		a.sweep(ctx, true)
	}
	a.logf("published %s: %d bytes", a.address, c.size)
	a.t.Progress(operator.Progress{Fraction: 1, Text: "verified"})
	return a.result(c.sha256, is, false), nil
}

// verify compares what the store holds now with what was sent.
func (a *attempt) verify(ctx context.Context, c *content) (*found, error) {
	is, err := a.st.look(ctx, a.key)
	if err != nil {
		return nil, err
	}
	if is == nil {
		return nil, fault.New(fault.CodeUploadMismatch, "the store took the file and has nothing there: "+a.address)
	}
	why, same := "", false
	switch a.s.verify {
	case verifySize:
		if same = is.size == c.size; !same {
			why = fmt.Sprintf("it has %d bytes, the file %d", is.size, c.size)
		}
	case verifyRead:
		same, why, err = a.sameBytes(ctx, is, c.sha256, c.size)
	default:
		var known bool
		if same, why, known = is.compare(c.sha256, c.size, c); !known {
			same, why, err = a.sameBytes(ctx, is, c.sha256, c.size)
		}
	}
	if err != nil {
		return nil, err
	}
	if !same {
		return nil, fault.New(fault.CodeUploadMismatch, "the store's copy is not what was sent ("+why+"): "+a.address)
	}
	return is, nil
}

// sweep ends unfinished uploads to the key. That it does not work is no reason
// to fail.
func (a *attempt) sweep(ctx context.Context, live bool) {
	n, err := a.st.sweep(ctx, a.key, live)
	if err != nil {
		a.logf("could not look for unfinished uploads: %v", err)
	}
	if n > 0 {
		a.logf("ended %d unfinished upload(s) to %s", n, a.address)
	}
}

func (a *attempt) contentType() string {
	return cmp.Or(a.s.contentType, mime.TypeByExtension(path.Ext(a.key)), "application/octet-stream")
}

func (a *attempt) result(sha string, is *found, skipped bool) *Result {
	return &Result{
		URL: a.address, Key: a.key, Path: a.s.file.path, SHA256: sha, AssetSHA256: cmp.Or(a.s.file.assetSHA256, sha),
		Profile: a.s.file.profile, Size: is.size, Skipped: skipped, ETag: is.etag, Version: is.version,
	}
}
