// Package metrics holds what Prometheus can ask of a process: counters of what
// this process did, and gauges that are read from the state database, so that
// every process that serves them tells the same.
//
// Labels are bounded: names from DAG files and closed lists, never ids or
// paths, and of each label a limited number of values.
//
// It may import dag, the executor's error codes and the Prometheus client.
package metrics
