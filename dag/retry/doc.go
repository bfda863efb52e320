// Package retry computes how long a task waits before it is tried again: the
// delays of Airflow to the second, and those of a queue's class policy. Every
// function is pure: randomness is passed in, and no attempt number overflows.
//
// It may import dag and the standard library only.
package retry
