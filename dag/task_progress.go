package dag

import "time"

// TaskProgress is how far a running attempt says it is.
type TaskProgress struct {
	Lease Lease
	// Fraction is 0 to 1, or negative when unknown; ETA the time left, 0 when
	// unknown.
	Fraction  float64
	ETA       time.Duration
	Text      string
	UpdatedAt time.Time
}
