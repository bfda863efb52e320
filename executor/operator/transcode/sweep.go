package transcode

import (
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// piecesKept is how long the pieces of an output are kept that nobody works at:
// an attempt that died comes back for them.
const piecesKept = 24 * time.Hour

// hidden is a temporary file of some output, its lock or the folder of its
// pieces; the first group is the input's hash.
var hidden = regexp.MustCompile(`^\.([0-9a-f]{64})\.(?:(?:[a-z0-9]+\.[0-9]+-[0-9]+\.part)|([a-z0-9]+\.lock)|([a-z0-9]+\.chunks))$`)

// sweepOthers removes what dead workers left in the folder of other keys, and
// returns how many files and folders it removed. Whose lock is taken is at work.
// Nobody else would remove it: a sealed input is not tried again.
func (t target) sweepOthers(now time.Time) int {
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return 0
	}
	byKey := map[string][]os.DirEntry{}
	for _, e := range entries {
		if m := hidden.FindStringSubmatch(e.Name()); m != nil && m[1] != t.stem() {
			byKey[m[1]] = append(byKey[m[1]], e)
		}
	}
	removed := 0
	for key, list := range byKey {
		lock := filepath.Join(t.dir, "."+key+filepath.Ext(t.name)+".lock")
		release, ok := tryAcquire(lock)
		if !ok {
			continue
		}
		for _, e := range list {
			path := filepath.Join(t.dir, e.Name())
			if e.IsDir() {
				info, err := e.Info()
				if err != nil || now.Sub(info.ModTime()) < piecesKept {
					continue
				}
			}
			if path != lock && os.RemoveAll(path) == nil {
				removed++
			}
		}
		release() // removes the lock file
	}
	return removed
}
