// Package merge is the MERGE engine on a target database: it stages a batch,
// checks it, quarantines the rows that cannot be stored, upserts the rest, and
// moves the watermark and the effect key, all in one transaction of the target.
//
// Spec is what a step says, Source where the rows come from, Engine what runs
// it. DESIGN.md has the invariants. It may import dag, sql/dialect and its own
// sub-packages.
package merge
