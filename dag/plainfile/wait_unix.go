//go:build unix

package plainfile

import "syscall"

// dontWait opens a named pipe without its writer: what took the file's place
// since it was looked at must not hold the process up.
const dontWait = syscall.O_NONBLOCK
