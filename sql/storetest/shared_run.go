package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/sqltest"
	"github.com/airlock-dag/airlock/sql/store"
)

// sharer is one of several processes that work on one run.
type sharer struct {
	*wideRun
	s     *store.Store
	name  string
	own   map[int64]dag.Result // the results of the transaction that is being made
	wrong error                // what its last decision saw that is not in the tables
	stop  context.CancelFunc   // set where the transaction is to be taken back
	held  []dag.Claim
	more  []string // mapped tasks to expand
}

// decide holds what a decision sees against the tables. Others may change them
// while this process goes by what it remembers, but then its transaction is taken
// back; where it is not, they are as they were now.
func (p *sharer) decide(s *dag.RunSnapshot, now time.Time) (dag.Decision, error) {
	p.wrong = p.compare(s)
	d, err := p.wideRun.decide(s, now)
	if p.stop != nil {
		p.stop()
	}
	return d, err
}

// compare reads what is committed and adds the results of the transaction itself.
// That something waits, is queued or runs makes no difference to a decision.
func (p *sharer) compare(s *dag.RunSnapshot) error {
	list, err := p.wideRun.s.Instances(context.Background(), dag.InstanceFilter{DagID: p.run.DagID, RunID: p.run.RunID, Limit: -1})
	if err != nil {
		return err
	}
	alike := func(state dag.State) dag.State {
		if state == dag.StateScheduled || state == dag.StateRunning {
			return dag.StateQueued
		}
		return state
	}
	seen := map[int64]*dag.TaskInstance{}
	for i := range s.Instances {
		seen[s.Instances[i].ID] = &s.Instances[i]
	}
	if len(seen) != len(list) {
		return fmt.Errorf("%d instances, %d in the table", len(seen), len(list))
	}
	for _, want := range list {
		got := seen[want.ID]
		if got == nil || got.TaskID != want.TaskID || got.MapIndex != want.MapIndex {
			return fmt.Errorf("%s[%d] is not among them", want.TaskID, want.MapIndex)
		}
		next := want.NextTryAt
		switch own, ended := p.own[want.ID]; {
		case ended && want.State == dag.StateRunning && want.Fence == own.Fence:
			want.State, next = own.State, own.NextTryAt
		case ended && want.State == dag.StateRestarting: // cleared, and has stopped now
			want.State = dag.StateNone
		}
		if alike(got.State) != alike(want.State) {
			return fmt.Errorf("%s[%d] is %s, in the table %s", want.TaskID, want.MapIndex, got.State, want.State)
		}
		if want.State == dag.StateUpForRetry && (got.NextTryAt == nil || next == nil || !got.NextTryAt.Equal(*next)) {
			return fmt.Errorf("%s[%d] waits until %v, in the table %v", want.TaskID, want.MapIndex, got.NextTryAt, next)
		}
	}
	return nil
}

// params is what the process asks for.
func (p *sharer) params(n int) dag.ClaimParams {
	return dag.ClaimParams{WorkerID: p.name, Hostname: "h", N: n, Lease: time.Hour}
}

// trade hands in results and takes work. Now and then its transaction is taken
// back when the decision has been made, and made once more.
func (p *sharer) trade(ctx context.Context, results []dag.Result, fails bool, room int) error {
	p.own = map[int64]dag.Result{}
	for _, r := range results {
		p.own[r.TaskInstanceID] = r
	}
	if fails {
		within, stop := context.WithCancel(ctx)
		p.stop = stop
		_, _, _, err := p.s.ExchangeAndSchedule(within, results, p.params(room), p.decide)
		p.stop = nil
		stop()
		if err == nil {
			return errors.New("the transaction was to be taken back")
		}
	}
	_, claims, report, err := p.s.ExchangeAndSchedule(ctx, results, p.params(room), p.decide)
	return p.done(claims, report, err)
}

// pass makes a pass, of a process that works as well or of one that does not.
func (p *sharer) pass(ctx context.Context, works bool) error {
	p.own = nil
	if !works {
		report, err := p.s.Schedule(ctx, dag.SchedulePass{Limit: 100}, p.decide)
		return p.done(nil, report, err)
	}
	claims, report, err := p.s.ScheduleAndClaim(ctx, dag.SchedulePass{Limit: 100}, p.params(8), p.decide)
	return p.done(claims, report, err)
}

func (p *sharer) done(claims []dag.Claim, report dag.ScheduleReport, err error) error {
	if err == nil && len(report.Runs) > 0 { // else it decided nothing in the end
		err = p.wrong
	}
	p.wrong = nil
	p.held = append(p.held, claims...)
	for _, r := range report.Runs {
		p.more = append(p.more, r.Decision.Expand...)
		err = errors.Join(err, r.Err)
	}
	return err
}

// sharing is a run with the processes that work on it.
type sharing struct {
	*wideRun
	random *rand.Rand
	all    []*sharer
}

// round lets each process do something, all at once, and then what was left.
func (s *sharing) round(n int) {
	s.t.Helper()
	var acts []func(ctx context.Context) error
	for i, p := range s.all {
		s.random.Shuffle(len(p.held), func(i, j int) { p.held[i], p.held[j] = p.held[j], p.held[i] })
		part := min(1+s.random.IntN(6), len(p.held))
		results := s.results(p.held[:part])
		p.held = p.held[part:]
		fails, room := len(results) > 0 && s.random.IntN(10) == 0, s.random.IntN(9)
		switch act := s.random.IntN(20); {
		case act == 0 && len(results) > 0: // by a process that leaves the run to others
			acts = append(acts, func(ctx context.Context) error {
				_, err := p.s.Apply(ctx, results)
				return err
			})
		case act < 3 && len(results) == 0 || n == 0:
			acts = append(acts, func(ctx context.Context) error { return p.pass(ctx, i > 0) })
		case len(results) == 0:
			acts = append(acts, func(ctx context.Context) error {
				claims, err := p.s.Claim(ctx, p.params(8))
				return p.done(claims, dag.ScheduleReport{}, err)
			})
		default:
			acts = append(acts, func(ctx context.Context) error { return p.trade(ctx, results, fails, room) })
		}
	}
	if s.random.IntN(15) == 0 {
		task := fmt.Sprintf("u%02d", s.random.IntN(10))
		acts = append(acts, func(ctx context.Context) error {
			_, err := s.s.Clear(ctx, dag.ClearRequest{DagID: "d", RunID: "r", TaskIDs: []string{task}})
			return err
		})
	}
	errs := make([]error, len(acts))
	var busy sync.WaitGroup
	for i, act := range acts {
		busy.Go(func() { errs[i] = act(s.t.Context()) })
	}
	busy.Wait()
	require.NoError(s.t, errors.Join(errs...))
	for _, p := range s.all {
		for _, task := range p.more {
			s.expand(task)
		}
		p.more = nil
	}
}

// results are random ends of attempts.
func (s *sharing) results(claims []dag.Claim) (out []dag.Result) {
	for _, c := range claims {
		state := dag.StateSuccess
		switch n := s.random.IntN(12); {
		case c.TaskID == "root" || c.TaskID == "join": // else there is little to see
		case n == 0:
			state = dag.StateFailed
		case n < 3 && c.TryNumber < 3:
			state = dag.StateUpForRetry
		case n == 3:
			state = dag.StateSkipped
		}
		out = append(out, s.result(c, state))
	}
	return out
}

// testShared: several processes hand in results of one wide run at once, beside
// passes, clears, results that nobody decides about, and transactions that are taken
// back. Each decision that counts sees what is in the tables, comes to what a look
// at the whole comes to, and most go on from the one before in their process.
func testShared(t *testing.T, b *bundle) {
	s := &sharing{wideRun: newWideRun(b, wideDAG()), random: rand.New(rand.NewPCG(5, 13))}
	for i := range 4 {
		mine := *s.wideRun
		s.all = append(s.all, &sharer{wideRun: &mine, s: b.open(), name: fmt.Sprintf("w%d", i)})
	}
	for n := 0; s.bundle.run(s.run).State == dag.RunRunning || n == 0; n++ {
		require.Less(t, n, 400, "the run does not end")
		s.clock.Advance(time.Duration(1+s.random.IntN(1000)) * time.Millisecond)
		s.round(n)
		s.settled()
		idle := 0
		for _, p := range s.all {
			idle += len(p.held)
		}
		if idle == 0 { // what waits to be tried again, or for a pass
			s.clock.Advance(5 * time.Minute)
			require.NoError(t, s.all[n%4].pass(t.Context(), n%2 == 0))
			for _, task := range s.all[n%4].more {
				s.expand(task)
			}
			s.all[n%4].more = nil
			s.settled()
		}
	}
	went := 0
	for _, p := range s.all {
		went += p.went
	}
	require.Positive(t, went) // how many depends on who comes first: see testSharedInTurn
	states := s.states(s.run)
	require.Equal(t, dag.StateSuccess, states["join"])
	require.Contains(t, states, "mapped[69]")
	s.sound()
}

// inTurn is one process of testSharedInTurn, and its results.
func (s *sharing) inTurn(p *sharer, n int, fails bool) error {
	results := make([]dag.Result, n)
	for i, c := range p.held[:n] {
		results[i] = s.result(c, dag.StateSuccess)
	}
	p.held = p.held[n:]
	return p.trade(s.t.Context(), results, fails, n)
}

// testSharedInTurn: two processes that hand in results in turn go on from what each
// decided before, also where both have written theirs before either decides, and the
// one after another's transaction was taken back. Who gave up what it remembered
// reads the run, and goes on from there.
func testSharedInTurn(t *testing.T, b *bundle) {
	tasks := []string{"root"}
	for i := range 90 {
		tasks = append(tasks, fmt.Sprintf("t%02d<root", i))
	}
	s := &sharing{wideRun: newWideRun(b, oneDAG("d", tasks...))}
	for i := range 2 {
		mine := *s.wideRun
		s.all = append(s.all, &sharer{wideRun: &mine, s: b.open(), name: fmt.Sprintf("w%d", i)})
	}
	one, two := s.all[0], s.all[1]
	require.NoError(t, one.pass(t.Context(), true))
	require.NoError(t, s.inTurn(one, 1, false))
	for _, p := range s.all {
		claims, err := p.s.Claim(t.Context(), p.params(10))
		require.NoError(t, err)
		require.NoError(t, p.done(claims, dag.ScheduleReport{}, nil))
	}
	require.Len(t, two.held, 10)
	steps := func(p *sharer, want int, what string) {
		t.Helper()
		require.Equal(t, want, p.went, what)
		p.went = 0
	}
	turn := func(p *sharer, fails bool) {
		t.Helper()
		s.clock.Advance(time.Millisecond)
		require.NoError(t, s.inTurn(p, 2, fails))
	}
	for range 2 { // each finds that it is not alone
		turn(one, false)
		turn(two, false)
	}
	one.went, two.went = 0, 0
	for range 3 {
		turn(one, false)
		steps(one, 1, "what the other changed is read")
		turn(two, false)
		turn(two, false)
		steps(two, 2, "by the other, too, and what it did itself is known")
	}

	turn(one, true)
	one.went = 0
	turn(two, false)
	steps(two, 1, "what was taken back disturbs nobody")
	turn(one, false)
	steps(one, 1, "who was taken back has read the run since")

	if !b.s.DB().IsSQLite() { // where one writes after another
		held, err := b.s.DB().Writer().BeginTxx(t.Context(), nil)
		require.NoError(t, err)
		defer func() { _ = held.Rollback() }()
		var ids []int64
		require.NoError(t, held.SelectContext(t.Context(), &ids, "SELECT id FROM dag_run FOR UPDATE"))
		done := make(chan error, 2)
		for _, p := range s.all {
			go func() { done <- s.inTurn(p, 2, false) }()
		}
		sqltest.AwaitLockWaits(t, b.s.DB(), 2) // both wait for the run
		require.NoError(t, held.Commit())
		require.NoError(t, errors.Join(<-done, <-done))
		steps(one, 1, "whoever comes first")
		steps(two, 1, "and second")
	}
	turn(one, false)
	turn(two, false)
	require.Equal(t, 2, one.went+two.went)
	s.settled()
	s.sound()
}
