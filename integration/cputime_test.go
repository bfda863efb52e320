package integration

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used of the processors. On a machine that
// others use too it tells more than the clock on the wall.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
