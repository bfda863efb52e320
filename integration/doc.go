// Package integration holds black-box tests on the built binary with real
// parts (databases, ffmpeg, processes that are killed), and the tests that hold
// the shape of the house: which package may import which.
//
// Nothing imports it. Its tests may see every package.
package integration
