package main

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag/dagtest"
)

func TestSignalsOfOneMomentAreOneRequest(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	signals := make(chan os.Signal) // unbuffered: a send that returns was taken
	stopped, released, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		stopOn(signals, clock, func() { close(stopped) }, func() { close(released) })
	}()
	signals <- syscall.SIGTERM
	<-stopped
	signals <- syscall.SIGTERM
	signals <- os.Interrupt
	select {
	case <-released:
		require.Fail(t, "a signal of the same moment would end the process at once")
	default:
	}
	clock.BlockUntil(1)
	clock.Advance(sameRequest)
	<-released
	<-ended
}
