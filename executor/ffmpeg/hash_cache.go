package ffmpeg

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// maxHashes bounds what a HashCache remembers: a few MiB.
const maxHashes = 1 << 15

// settleTime is how old a file's last change must be before its hash is
// remembered: within the grain of the file system's clock two changes look like
// one.
const settleTime = 2 * time.Second

// identity names the content of a file as far as the file system can: a change
// of the content changes at least one of them. The time of the last change of
// the inode is among them, because a program may set the modification time back
// and cannot set that one.
type identity struct {
	device, inode    uint64
	size             int64
	modified, change int64 // nanoseconds since 1970
}

// HashCache remembers what reading a file gave for as long as device, inode,
// size and times stay the same. Its zero value is empty and ready; nil
// remembers nothing. It is safe for concurrent use.
type HashCache struct {
	// Clock tells how old a change is; the system's when nil.
	Clock dag.Clock

	mu    sync.Mutex
	known map[identity]Input
	order []identity // the oldest first
}

// ReadInput is the function of that name, without the reading where the file is
// the one that was read before.
func (c *HashCache) ReadInput(ctx context.Context, path string) (Input, error) {
	if c == nil {
		return ReadInput(ctx, path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return ReadInput(ctx, path) // which says why
	}
	return c.ReadSeen(ctx, path, info)
}

// ReadSeen is ReadInput for a file that the caller has just looked at.
func (c *HashCache) ReadSeen(ctx context.Context, path string, info os.FileInfo) (Input, error) {
	if c == nil {
		return ReadInput(ctx, path)
	}
	if ctx.Err() != nil {
		return Input{}, context.Cause(ctx)
	}
	before, ok := identity{}, false
	if info.Mode().IsRegular() {
		before, ok = identityOf(info)
	}
	if ok {
		if in, hit := c.get(before); hit {
			in.Path = path
			return in, nil
		}
	}
	in, err := ReadInput(ctx, path)
	if err != nil || !ok {
		return in, err
	}
	after, ok := identify(path)
	if ok && after == before && c.settled(after) {
		c.put(after, in)
	}
	return in, nil
}

func (c *HashCache) settled(id identity) bool {
	clock := c.Clock
	if clock == nil {
		clock = dag.SystemClock{}
	}
	return clock.Now().Sub(time.Unix(0, max(id.modified, id.change))) > settleTime
}

func (c *HashCache) get(id identity) (Input, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	in, ok := c.known[id]
	return in, ok
}

func (c *HashCache) put(id identity, in Input) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[identity]Input{}
	}
	if _, twice := c.known[id]; !twice {
		c.order = append(c.order, id)
	}
	c.known[id] = in
	for len(c.order) > maxHashes {
		delete(c.known, c.order[0])
		c.order = c.order[1:]
	}
}

// Detector finds out versions and remembers them for a while, as long as the
// programs' files are the same: asking costs as much as a short encode's
// verification. Its zero value is ready; nil asks each time. It is safe for
// concurrent use.
type Detector struct {
	// Clock measures the while; the system's when nil.
	Clock dag.Clock

	mu    sync.Mutex
	known map[string]detected
}

type detected struct {
	version Version
	id      [2]identity
	at      time.Time // when it was asked
	seen    time.Time // when the files were looked at
}

// seenFor is how long the programs' files are taken for what they were: thousands
// of assets that are done come by in that time.
const seenFor = time.Second

// detectMaxAge is how long a version holds: its libraries are files of their
// own and may be replaced under it.
const detectMaxAge = 5 * time.Minute

// Detect is the function of that name.
func (d *Detector) Detect(ctx context.Context, ffmpeg, ffprobe, marker string) (Tool, error) {
	if d == nil {
		return Detect(ctx, ffmpeg, ffprobe, marker)
	}
	clock := d.Clock
	if clock == nil {
		clock = dag.SystemClock{}
	}
	key := ffmpeg + "\x00" + ffprobe
	now := clock.Now()
	d.mu.Lock()
	k, hit := d.known[key]
	d.mu.Unlock()
	hit = hit && now.Sub(k.at) < detectMaxAge
	known := Tool{FFmpeg: ffmpeg, FFprobe: ffprobe, Version: k.version, Marker: marker}
	if since := now.Sub(k.seen); hit && since >= 0 && since < seenFor {
		return known, nil
	}
	id, ok := identifyPrograms(ffmpeg, ffprobe)
	if hit && ok && k.id == id {
		k.seen = now
		d.keep(key, k)
		return known, nil
	}
	t, err := Detect(ctx, ffmpeg, ffprobe, marker)
	if err == nil && ok {
		d.keep(key, detected{version: t.Version, id: id, at: now, seen: now})
	}
	return t, err
}

func (d *Detector) keep(key string, k detected) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil {
		d.known = map[string]detected{}
	}
	d.known[key] = k
}

func identifyPrograms(names ...string) (id [2]identity, ok bool) {
	for i, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			return id, false
		}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		if id[i], ok = identify(path); !ok {
			return id, false
		}
	}
	return id, true
}

// identify gives the identity of a regular file; ok is false when it is none or
// the system does not say enough.
func identify(path string) (identity, bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return identity{}, false
	}
	return identityOf(info)
}
