// Package breaker decides about circuit breakers: when the breaker of a
// dependency opens, who may go through, and when it closes again. The decisions
// are pure functions of a breaker's row, the calls of its window and an
// instant; Guard is the worker's side, which asks before an attempt and counts
// after it.
//
// It may import dag.
package breaker
