package store

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// A run's row has a log of what the last passes over it changed, see changeLog.
// It is written by the pass, with the row locked, and is a chain: each step leads
// from the stamp of the one before it to its own. Whoever changes an instance
// without a pass moves the row's stamp on and leaves the log as it is, and so does
// a process of a version before it: the chain ends then before the row's stamp,
// and nobody goes by it. So what the log tells is complete, whatever the order in which
// transactions wrote their instances: each names its own, after it has the row.
//
// It is kept for wide runs only, and from when two processes change the run.

// changeLog is a log as it stands in the row: steps with a bar between them, each
// of them the key of a stamp, a colon, and ids, of which all but the first tell how
// much they are more than the one before; numbers have 36 digits. What led to the first
// step is of no use: it is where the log begins.
type changeLog string

// maxChangeLog is how long a log may be, in bytes: some 1,300 instances. A process
// that has not seen a run since before them reads it whole.
const maxChangeLog = 4000

// key tells a stamp from others in a log, to the microsecond that the tables have.
func (s stamp) key() string {
	number := func(t time.Time) string { return strconv.FormatInt(t.UnixMicro(), 36) }
	if s.next == nil {
		return number(s.updated) + "/:"
	}
	return number(s.updated) + "/" + number(*s.next) + ":"
}

// endsAt tells whether the log leads up to a stamp.
func (l changeLog) endsAt(at stamp) bool {
	return strings.HasPrefix(string(l[strings.LastIndexByte(string(l), '|')+1:]), at.key())
}

// and gives the log with one step more, from a stamp to the next. A log that does
// not lead up to the first begins anew at the second.
func (l changeLog) and(from, to stamp, ids []int64) changeLog {
	step := to.key()
	if !l.endsAt(from) {
		return changeLog(step)
	}
	var b strings.Builder
	b.WriteString(string(l) + "|" + step)
	ids = slices.Clone(ids)
	slices.Sort(ids)
	last := int64(0)
	for i, id := range slices.Compact(ids) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(id-last, 36))
		if last = id; b.Len() > 2*maxChangeLog { // it will not do, however much longer it gets
			return changeLog(step)
		}
	}
	text := b.String()
	for len(text) > maxChangeLog {
		_, text, _ = strings.Cut(text, "|")
	}
	if text == "" || strings.LastIndexByte(text, '|') < 0 { // not even the step itself: it is where others begin
		return changeLog(step)
	}
	return changeLog(text)
}

// since gives the instances that were changed between two stamps; false when the
// log does not tell.
func (l changeLog) since(before, now stamp) ([]int64, bool) {
	if l == "" || !l.endsAt(now) {
		return nil, false
	}
	steps := strings.Split(string(l), "|")
	key := before.key()
	begin := slices.IndexFunc(steps, func(step string) bool { return strings.HasPrefix(step, key) })
	if begin < 0 {
		return nil, false
	}
	var out []int64
	for _, step := range steps[begin+1:] {
		_, ids, found := strings.Cut(step, ":")
		if !found {
			return nil, false
		}
		last := int64(0)
		for text := range strings.SplitSeq(ids, ",") {
			if ids == "" {
				break
			}
			more, err := strconv.ParseInt(text, 36, 64)
			if err != nil {
				return nil, false
			}
			last += more
			out = append(out, last)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), true
}

// logOf is the log of a run after what this pass has changed of it.
func (t *tx) logOf(r *passRun) changeLog {
	switch {
	case r.decision.State.Finished():
		return ""
	case !r.shared || r.wait || r.err != nil || r.raced || r.fleeting || len(r.held) < keepsFrom || t.s.cluster:
		return r.log
	}
	var ids []int64
	for _, g := range t.ended {
		if g.row.DagRunID == r.run.ID {
			ids = append(ids, g.row.ID)
		}
	}
	for _, tr := range r.decision.Transitions {
		ids = append(ids, tr.TaskInstanceID)
	}
	return r.log.and(r.seen, r.written, ids)
}
