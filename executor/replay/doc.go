// Package replay puts dead letters back to work: it decides about each letter,
// gate by gate, and paces what it lets through.
//
// The decisions are pure functions of a letter and of what probes found out;
// the state database carries each one out in one transaction and keeps the
// drain's place, so that a drain that is killed goes on where it was and two
// processes can share one.
//
// It imports dag, an expression library and the standard library.
package replay
