package main

import (
	"os"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// sameRequest is the time in which signals are taken for one wish to stop.
// timeout(1), for one, signals the process and then its group, and so sends
// everything twice.
const sameRequest = time.Second

// stopOn calls stop at the first signal. Those that come within sameRequest of
// it are swallowed; after that release gives the signals their usual effect
// back, so that one more ends the process at once.
func stopOn(signals <-chan os.Signal, clock dag.Clock, stop, release func()) {
	<-signals
	after := clock.After(sameRequest)
	stop()
	for {
		select {
		case <-signals:
		case <-after:
			release()
			return
		}
	}
}
