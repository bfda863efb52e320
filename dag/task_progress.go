package dag

import "time"

// TaskProgress is how far a running attempt says it is.
type TaskProgress struct {
	Lease Lease
	// Fraction is 0 to 1, or negative when unknown; ETA the time left, 0 when
	// unknown.
	Fraction float64
	ETA      time.Duration
	Text     string
	// Measures are numbers by name: "fps", "speed" (media time by wall time),
	// "frames". Those that are not known are left out.
	Measures  map[string]float64
	UpdatedAt time.Time
}
