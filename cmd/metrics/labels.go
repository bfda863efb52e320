package metrics

import (
	"strings"
	"sync"
)

// maxValues is how many values one label of this process may take. Names in DAG
// files are few; a file that makes them up by the thousand must not fill the
// memory of whoever keeps the series.
const maxValues = 200

// other stands for all values beyond the limit, and for none.
const other = "other"

// values bounds the values of one label.
type values struct {
	mu   sync.Mutex
	seen map[string]bool
}

// bound gives the value, or other when there are too many already.
func (v *values) bound(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if s == "" || len(s) > 250 {
		return other
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seen[s] {
		return s
	}
	if len(v.seen) >= maxValues {
		return other
	}
	if v.seen == nil {
		v.seen = map[string]bool{}
	}
	v.seen[s] = true
	return s
}
