// Package row is the vocabulary that readers, column checks and the MERGE
// engine share: a record as a source gave it, its values before they are
// typed, and the closed list of reasons for which a row is quarantined.
//
// It imports the standard library only.
package row
