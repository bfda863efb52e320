// Package cli is the command line: a grammar of structs, one file for each group
// of commands, and the ways of printing what they find.
//
// Nothing in it is global: Run takes the arguments, the streams and the
// environment, and returns the exit code. It may import every room.
package cli
