package dag

import (
	"fmt"
	"time"
)

// WorkerNotice is what a worker tells of itself while it takes work.
type WorkerNotice struct {
	ID, Hostname string
	// Queues that it takes from; empty for all.
	Queues []string
	// Concurrency is how many attempts it runs at once.
	Concurrency int
	// Alive is for how long the notice counts, unless it is given again before.
	Alive time.Duration
}

// UnservedQueue is a queue in which task instances wait and from which no living
// worker takes.
type UnservedQueue struct {
	Queue string
	// Tasks counts the instances that wait, of all DAGs.
	Tasks int
	// Workers counts the living workers, which all take from other queues.
	Workers int
}

// What says what is wrong.
func (u UnservedQueue) What() string {
	tasks := "1 task waits"
	if u.Tasks != 1 {
		tasks = fmt.Sprintf("%d tasks wait", u.Tasks)
	}
	if u.Workers == 0 {
		return fmt.Sprintf("%s in the queue %s, and no worker runs", tasks, u.Queue)
	}
	return fmt.Sprintf("%s in the queue %s, and no living worker takes from it", tasks, u.Queue)
}

// Hint says what to do about it.
func (u UnservedQueue) Hint() string {
	if u.Workers == 0 {
		return "start `airlock standalone`, or `airlock worker` beside a scheduler"
	}
	return "start `airlock worker --queues " + u.Queue + "`, or name another queue in the DAG's file"
}
