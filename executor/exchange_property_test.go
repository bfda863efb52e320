package executor

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/airlock-dag/airlock/dag"
)

// How an exchange with a troubled database ends.
const (
	works   = iota
	refuses // nothing was done
	swallow // all of it was done, and the answer was lost
	hidden  // the same, and whoever asks what he holds is refused once
)

// troubled is a state database with tasks in its queue that answers as a draw
// says. It keeps what no worker may break.
type troubled struct {
	mu      sync.Mutex
	places  int
	queue   []int64
	running map[int64]bool
	ended   map[int64]int // results that changed something
	plan    []int
	refuse  int // questions for what is held
	wrong   string
}

func (s *troubled) exchange(results []dag.Result, p dag.ClaimParams) ([]dag.ApplyStatus, []dag.Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how := works
	if len(s.plan) > 0 {
		how, s.plan = s.plan[0], s.plan[1:]
	}
	if how == refuses {
		return nil, nil, errRefused
	}
	status := make([]dag.ApplyStatus, len(results))
	for i, r := range results {
		status[i] = dag.Applied // again, too: the attempt is recognised
		if s.running[r.TaskInstanceID] {
			delete(s.running, r.TaskInstanceID)
			s.ended[r.TaskInstanceID]++
		}
	}
	var claims []dag.Claim
	for range min(p.N, len(s.queue)) {
		claims = append(claims, begun(s.queue[0]))
		s.running[s.queue[0]] = true
		s.queue = s.queue[1:]
	}
	if len(s.running) > s.places {
		s.wrong = fmt.Sprintf("%d run in %d places", len(s.running), s.places)
	}
	if how != works && p.N > 0 {
		if how == hidden {
			s.refuse = 1
		}
		return nil, nil, fmt.Errorf("exchange: %w", dag.ErrOutcomeUnknown)
	}
	return status, claims, nil
}

func (s *troubled) held() ([]dag.Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse > 0 {
		s.refuse--
		return nil, errRefused
	}
	var out []dag.Claim
	for id := range s.running {
		out = append(out, begun(id))
	}
	return out, nil
}

func begun(id int64) dag.Claim {
	c := claim(id, 1)
	c.TryNumber = 1
	return c
}

// asking gives brokenStore's exchange what is asked for.
type asking struct {
	brokenStore
	s *troubled
}

func (a asking) Exchange(_ context.Context, r []dag.Result, p dag.ClaimParams) ([]dag.ApplyStatus, []dag.Claim, error) {
	return a.s.exchange(r, p)
}

// TestEveryTaskIsDoneOnceWhateverTheDatabaseAnswers: no place is given twice or
// lost, no claim is forgotten, and each result counts once.
func TestEveryTaskIsDoneOnceWhateverTheDatabaseAnswers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(r, "tasks")
		s := &troubled{
			places: rapid.IntRange(1, 4).Draw(r, "places"), running: map[int64]bool{}, ended: map[int64]int{},
			plan: rapid.SliceOfN(rapid.IntRange(works, hidden), 0, 20).Draw(r, "answers"),
		}
		for i := range n {
			s.queue = append(s.queue, int64(i+1))
		}
		synctest.Test(t, func(t *testing.T) { s.play(t, n) })
		if s.wrong != "" {
			r.Fatal(s.wrong)
		}
	})
}

// play lets a worker do all n tasks, and says what went wrong.
func (s *troubled) play(t *testing.T, n int) {
	w := workerOn(t, asking{s: s, brokenStore: brokenStore{
		version: func() (*dag.DAG, error) { return echoDAG("x"), nil },
		held:    s.held,
		renew:   func([]dag.Lease) ([]dag.Lease, error) { return nil, nil },
		apply: func(r []dag.Result) ([]dag.ApplyStatus, error) {
			status, _, err := s.exchange(r, dag.ClaimParams{})
			return status, err
		},
	}})
	w.o.Concurrency = s.places
	ctx, stop := context.WithCancel(t.Context())
	told := map[int64]int{}
	w.o.OnEnd = func(c dag.Claim, _ dag.Result) {
		told[c.ID]++
		if len(told) == n {
			stop()
		}
	}
	x := &exchange{w: w, work: t.Context()}
	over, end := context.WithTimeout(t.Context(), time.Hour) // of the bubble's time
	defer end()
	context.AfterFunc(over, stop)
	x.run(ctx, over)
	for id := int64(1); id <= int64(n); id++ {
		if s.ended[id] != 1 || told[id] != 1 {
			s.wrong = fmt.Sprintf("task %d: %d results count and %d were told of, want one each", id, s.ended[id], told[id])
		}
	}
	if x.held != 0 {
		s.wrong = fmt.Sprintf("%d places are still held", x.held)
	}
}
