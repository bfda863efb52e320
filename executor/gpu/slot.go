package gpu

import (
	"context"
	"errors"
	"sync"
)

// Slots limits how many encodes run on each device of this process. A pool
// limits how many run in all; a slot says on which device.
type Slots struct {
	// PerDevice is the number of sessions of one device; 1 when 0.
	PerDevice int

	mu   sync.Mutex
	used map[string]int
	// freed is closed and replaced whenever a slot becomes free.
	freed chan struct{}
}

// Acquire takes a slot on the least used of the devices, waiting until one is
// free. release gives it back and may be called more than once. The error is
// the cause of ctx, or says that there is no device.
func (s *Slots) Acquire(ctx context.Context, devices []Device) (dev Device, release func(), err error) {
	if len(devices) == 0 {
		return Device{}, nil, errors.New("no device to wait for")
	}
	for {
		s.mu.Lock()
		if s.used == nil {
			s.used, s.freed = map[string]int{}, make(chan struct{})
		}
		best := devices[0]
		for _, d := range devices[1:] {
			if s.used[d.ID] < s.used[best.ID] {
				best = d
			}
		}
		if s.used[best.ID] < max(s.PerDevice, 1) {
			s.used[best.ID]++
			s.mu.Unlock()
			var once sync.Once
			return best, func() { once.Do(func() { s.release(best.ID) }) }, nil
		}
		freed := s.freed
		s.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return Device{}, nil, context.Cause(ctx)
		}
	}
}

// Used is how many slots of a device are taken.
func (s *Slots) Used(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used[id]
}

func (s *Slots) release(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used[id]--
	close(s.freed)
	s.freed = make(chan struct{})
}
