// Package store is the state database: DAGs and their versions, runs, task
// instances, claims, attempts, dead letters, callback events, pools, settings.
// One Store satisfies the interfaces that executor and callbacks declare, and
// Desk, the list of what commands and pages use.
//
// It may import dag, sql/dialect and sql/migrations; never executor, callbacks
// or cmd. DESIGN.md has its invariants.
package store
