// Package plainfile opens and reads files by the names that users give, and
// refuses what only looks like a file: to open a named pipe is to wait for its
// writer, a device may never end, and a folder holds no text.
//
// It may import the standard library only.
package plainfile
