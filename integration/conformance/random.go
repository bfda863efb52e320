package main

import "math/rand/v2"

// dice draws what a random DAG is made of. One seed and number give one DAG,
// whatever other DAGs are made.
type dice struct{ *rand.Rand }

func newDice(seed uint64, stream int) dice {
	return dice{rand.New(rand.NewPCG(seed, uint64(stream)))}
}

// chance is true in the given share of draws.
func (d dice) chance(share float64) bool { return d.Float64() < share }

// between draws from lo to hi, both included.
func (d dice) between(lo, hi int) int { return lo + d.IntN(hi-lo+1) }

func pick[T any](d dice, from []T) T { return from[d.IntN(len(from))] }

// some draws a part of a list, in its order.
func some[T any](d dice, from []T, share float64) []T {
	var out []T
	for _, x := range from {
		if d.chance(share) {
			out = append(out, x)
		}
	}
	return out
}
