// Package tracing tells an OpenTelemetry collector of runs and attempts: one
// trace a run, with a span for each attempt below it. It imports dag and the
// OpenTelemetry SDK, nothing else of Airlock.
//
// Spans are made when something has ended, from the times that the tables have,
// so that nothing is kept between and nothing is lost by a restart. Their ids
// are hashes of what they stand for: the worker that ends an attempt and the
// scheduler that ends its run, on two machines, give the same trace.
package tracing
