// Package command is the notifier that runs a shell command, with the event in
// its environment and as JSON on its standard input.
//
// It may import dag, dag/proc and callbacks.
package command
