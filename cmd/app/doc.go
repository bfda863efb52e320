// Package app is the composition root: it opens the state database, builds the
// operators, the loops and the notifiers, and runs them as standalone,
// scheduler, worker or one test run. Only cmd/cli and tests use it; it may
// import every room.
package app
