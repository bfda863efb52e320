// Package operatortest builds the context of one attempt for tests of
// operators: real folders, a log to look at, connections and XComs from maps.
//
// It may import dag and executor/operator; only tests import it.
package operatortest
