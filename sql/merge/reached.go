package merge

// mark is a place in the order of a watermark: a value, and the tie breaker's
// among equal values.
type mark struct{ value, tie string }

// order says how marks compare.
type order struct {
	kind, tie watermarkKind
}

func (o order) less(a, b mark) bool {
	switch {
	case o.kind.less(a.value, b.value):
		return true
	case o.kind.less(b.value, a.value):
		return false
	default:
		return o.tie.less(a.tie, b.tie)
	}
}

// span is the least and the greatest mark of a chunk's rows.
type span struct{ least, most mark }

// marks are the spans of a reading, a chunk each: what a transaction may move
// the watermark to depends on the rows that are still to come.
type marks struct {
	order
	chunk int64 // rows, 0 for one span
	spans []span
}

func (m *marks) at(seq int64) int {
	if m.chunk == 0 {
		return 0
	}
	return int((seq - 1) / m.chunk)
}

func (m *marks) add(seq int64, v mark) {
	at := m.at(seq)
	for len(m.spans) <= at {
		m.spans = append(m.spans, span{})
	}
	s := &m.spans[at]
	if s.least.value == "" || m.less(v, s.least) {
		s.least = v
	}
	if s.most.value == "" || m.less(s.most, v) {
		s.most = v
	}
}

// reached is the watermark once the rows before seq are done: their greatest,
// but not past a row that is still to come; last tells that none is. The empty
// mark is no step.
func (m *marks) reached(seq int64, last bool) mark {
	var done, open mark
	end := len(m.spans)
	if !last {
		end = min(end, int((seq-1)/m.chunk)) // a chunk that is not whole counts as open
	}
	for i, s := range m.spans {
		switch {
		case s.least.value == "":
		case i < end:
			if done.value == "" || m.less(done, s.most) {
				done = s.most
			}
		case open.value == "" || m.less(s.least, open):
			open = s.least
		}
	}
	switch {
	case open.value == "" || m.less(done, open):
		return done
	case done.value == "":
		return mark{}
	default:
		return mark{value: open.value}
	}
}
