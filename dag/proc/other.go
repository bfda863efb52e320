//go:build !unix

package proc

import (
	"context"
	"errors"
	"time"
)

// Run is not available on this system.
func Run(context.Context, Command) (Result, error) {
	return Result{}, errors.New("child processes need a Unix system")
}

// Sweep finds nothing on this system.
func Sweep(string, time.Duration) (int, error) { return 0, nil }

// Leftovers finds nothing on this system.
func Leftovers(string) ([]Process, error) { return nil, nil }

// SweepUnless finds nothing on this system.
func SweepUnless(string, func(string) bool, time.Duration) (int, error) { return 0, nil }
