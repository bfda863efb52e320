// Package post is what the notifiers that speak HTTP share: one request with a
// limit of its own, and what its answer means for the event. It is no notifier.
//
// What it says of a failure names the host only: paths, queries, users and
// headers may hold secrets.
//
// It may import dag and callbacks.
package post
