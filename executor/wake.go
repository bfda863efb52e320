package executor

// Wake is a signal without a count: any number of Signal calls before the
// waiter looks are one. It lets the loops of one process tell each other that
// there is something to do, so that they need not poll to be quick.
type Wake chan struct{}

// NewWake makes a signal.
func NewWake() Wake { return make(Wake, 1) }

// Signal wakes the waiter; it never blocks. A nil Wake does nothing.
func (w Wake) Signal() {
	if w == nil {
		return
	}
	select {
	case w <- struct{}{}:
	default:
	}
}
