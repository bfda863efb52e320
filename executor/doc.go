// Package executor holds what moves: the scheduler, worker and reaper loops,
// and the one decision that turns an attempt's outcome into a state change.
//
// It declares the small interfaces that it needs of a store and imports dag and
// its own sub-packages; never sql, never callbacks. DESIGN.md has its
// invariants.
package executor
