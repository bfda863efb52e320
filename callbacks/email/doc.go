// Package email is the notifier that sends an e-mail through an SMTP server.
//
// It may import dag and callbacks, and the SMTP library.
package email
