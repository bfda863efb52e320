// Package callbacks delivers callback events: the outbox dispatcher, and the
// seam to the notifiers, each of which is a package of its own below this one.
//
// An event was written in the transaction of the state change that it tells
// of. The dispatcher takes events from the outbox under a lease and hands each
// to its receiver at least once, in order for one task instance and receiver.
// A receiver that is away holds up nobody else, and an event that cannot be
// delivered is kept as dead.
//
// It may import dag and its sub-packages; never sql, never executor.
package callbacks
