// Package webhook is the notifier that posts an event as JSON to a URL, signed
// with a shared secret.
//
// It may import dag and callbacks.
package webhook
