// Package log is the notifier that writes an event as a line to the process's
// log.
//
// It may import dag and callbacks.
package log
