package gpu

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// learnedFor is how long a limit that a driver showed is believed: others may
// have held its sessions.
const learnedFor = 10 * time.Minute

// Slots limits how many encodes run on each device of this process. A pool
// limits how many run in all; a slot says on which device. The zero value gives
// one slot a device.
type Slots struct {
	// PerDevice is the number of sessions of one device; 1 when 0.
	PerDevice int
	// Clock tells how old a learned limit is; the system's when nil.
	Clock dag.Clock

	mu      sync.Mutex
	used    map[string]int
	learned map[string]learned
	// freed is closed and replaced whenever a slot becomes free.
	freed chan struct{}
}

type learned struct {
	limit int
	at    time.Time
}

func (s *Slots) clock() dag.Clock {
	if s.Clock == nil {
		return dag.SystemClock{}
	}
	return s.Clock
}

// ready makes the maps; the lock is held.
func (s *Slots) ready() {
	if s.used == nil {
		s.used, s.learned, s.freed = map[string]int{}, map[string]learned{}, make(chan struct{})
	}
}

// limit of a device now; the lock is held.
func (s *Slots) limit(id string) int {
	n := max(s.PerDevice, 1)
	if l, ok := s.learned[id]; ok && s.clock().Now().Sub(l.at) < learnedFor {
		n = min(n, l.limit)
	}
	return n
}

// Learn notes that a device was found to open so many sessions, 1 at least; it
// never raises PerDevice.
func (s *Slots) Learn(id string, sessions int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready()
	s.learned[id] = learned{limit: max(sessions, 1), at: s.clock().Now()}
}

// Full notes that a device refused a session while this process had its slots:
// there is room for one less than it uses, and for one at least. Others may
// hold the rest.
func (s *Slots) Full(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready()
	s.learned[id] = learned{limit: max(s.used[id]-1, 1), at: s.clock().Now()}
}

// Acquire takes a slot on the least used of the devices, waiting until one is
// free. release gives it back and may be called more than once. The error is
// the cause of ctx, or says that there is no device.
func (s *Slots) Acquire(ctx context.Context, devices []Device) (dev Device, release func(), err error) {
	if len(devices) == 0 {
		return Device{}, nil, errors.New("no device to wait for")
	}
	for {
		if ctx.Err() != nil {
			return Device{}, nil, context.Cause(ctx)
		}
		s.mu.Lock()
		s.ready()
		best, room := devices[0], 0
		for _, d := range devices {
			if left := s.limit(d.ID) - s.used[d.ID]; left > room {
				best, room = d, left
			}
		}
		if room > 0 {
			s.used[best.ID]++
			s.mu.Unlock()
			var once sync.Once
			return best, func() { once.Do(func() { s.release(best.ID) }) }, nil
		}
		freed := s.freed
		s.mu.Unlock()
		select {
		case <-freed:
		case <-s.clock().After(learnedFor): // a learned limit is forgotten without anybody's doing
		case <-ctx.Done():
		}
	}
}

// AwaitChange waits until a slot is given back, and at most for a while: what
// other processes hold is freed without a word. The error is the cause of ctx.
func (s *Slots) AwaitChange(ctx context.Context, atMost time.Duration) error {
	s.mu.Lock()
	s.ready()
	freed := s.freed
	s.mu.Unlock()
	select {
	case <-freed:
		return nil
	case <-s.clock().After(atMost):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Used is how many slots of a device are taken.
func (s *Slots) Used(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used[id]
}

// Limit is how many slots a device has now.
func (s *Slots) Limit(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready()
	return s.limit(id)
}

func (s *Slots) release(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used[id]--
	close(s.freed)
	s.freed = make(chan struct{})
}
