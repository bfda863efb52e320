// Package httpapi serves what a process tells over HTTP: /metrics for
// Prometheus and /health for probes. Both are for machines of the house; there
// is nothing secret in them, and nothing that changes anything.
//
// It may import dag and the Prometheus client.
package httpapi
