//go:build !unix

package plainfile

// dontWait: named pipes are no files here.
const dontWait = 0
