// Package condition says whether a rendered argument is true. Templates give
// text, so the words that people and templates write for false count as false.
//
// It imports the standard library only.
package condition
