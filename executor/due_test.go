package executor

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
)

func TestPassesGrowWhileTheyAreQuick(t *testing.T) {
	t.Parallel()
	const usual, quick, slow = 50, quickPass, 3*quickPass + 1
	for _, c := range []struct {
		limit int
		more  bool
		took  time.Duration
		want  int
	}{
		{50, true, quick, 100},
		{100, true, quick, 200},
		{800, true, quick, 800},
		{800, false, quick, 50},
		{200, true, quick + 1, 200},
		{200, true, slow, 100},
		{60, true, slow, 50},
		{50, true, slow, 50},
		{50, false, slow, 50},
	} {
		require.Equal(t, c.want, nextLimit(c.limit, usual, c.more, c.took), "%+v", c)
	}
}

// dueStore is a SchedulerStore of one DAG.
type dueStore struct {
	awayStore
	now     func() time.Time
	dag     *dag.DAG
	row     dag.DAGRow
	last    map[string]dag.Run
	made    *[]dag.NewRun
	replans *[]*dag.PlannedRun
	wake    func(later time.Time, ahead time.Duration) time.Time
}

func (s dueStore) Now(context.Context) (time.Time, error) { return s.now(), nil }

func (s dueStore) Version(context.Context, int64) (*dag.DAG, error) { return s.dag, nil }

func (s dueStore) DueDAGs(_ context.Context, by time.Time, _ int) ([]dag.DAGRow, error) {
	if s.row.Next == nil || s.row.Next.RunAfter.After(by) {
		return nil, nil
	}
	return []dag.DAGRow{s.row}, nil
}

func (s dueStore) LatestScheduledRuns(context.Context, []string) (map[string]dag.Run, error) {
	return s.last, nil
}

func (s dueStore) CreateRuns(_ context.Context, runs []dag.NewRun) ([]dag.CreatedRun, error) {
	*s.made = append(*s.made, runs...)
	out := make([]dag.CreatedRun, len(runs))
	for i := range runs {
		out[i].Run = runs[i].Run
	}
	return out, nil
}

func (s dueStore) ReplacePlan(_ context.Context, _ dag.DAGRow, next *dag.PlannedRun) error {
	*s.replans = append(*s.replans, next)
	return nil
}

func (s dueStore) Expired(context.Context, int) ([]dag.Claim, error) { return nil, nil }

func (s dueStore) NextWake(_ context.Context, later time.Time, ahead time.Duration) (time.Time, error) {
	return s.wake(later, ahead), nil
}

func tick(at time.Time) *dag.PlannedRun {
	return &dag.PlannedRun{LogicalDate: at, DataIntervalStart: at, DataIntervalEnd: at, RunAfter: at}
}

// TestWhatIsMadeAhead: hourly ticks, and what is made of the plan in the row.
func TestWhatIsMadeAhead(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	hour := func(h int) *dag.PlannedRun { return tick(noon.Add(time.Duration(h) * time.Hour)) }
	for name, c := range map[string]struct {
		now          time.Time
		row          *dag.PlannedRun
		last         *dag.PlannedRun
		catchup      bool
		made, next   *dag.PlannedRun
		replan       bool
		replannedFor *dag.PlannedRun
	}{
		"too early":                              {now: noon.Add(-Lead - time.Microsecond), row: hour(0), last: hour(-1)},
		"just ahead":                             {now: noon.Add(-Lead), row: hour(0), last: hour(-1), made: hour(0), next: hour(1)},
		"just ahead, catching up":                {now: noon.Add(-Lead), row: hour(0), last: hour(-1), catchup: true, made: hour(0), next: hour(1)},
		"ahead, and the tick before it is taken": {now: noon.Add(-time.Second), row: hour(0), last: hour(-3), made: hour(0), next: hour(1)},
		"ahead, and none was made":               {now: noon.Add(-time.Second), row: hour(0), made: hour(0), next: hour(1)},
		"due":                                    {now: noon, row: hour(0), last: hour(-1), made: hour(0), next: hour(1)},
		"late, nothing is missed":                {now: noon.Add(3*time.Hour + time.Second), row: hour(0), last: hour(-1), catchup: true, made: hour(0), next: hour(1)},
		"late, the latest counts":                {now: noon.Add(3*time.Hour + time.Second), row: hour(0), last: hour(-1), made: hour(3), next: hour(4)},
		"late and just before the next tick":     {now: noon.Add(4*time.Hour - time.Second), row: hour(0), last: hour(-1), made: hour(3), next: hour(4)},
		"an old plan, the next tick is far":      {now: noon.Add(time.Minute), row: hour(-1), last: hour(0), replan: true, replannedFor: hour(1)},
		"an old plan, the next tick is near":     {now: noon.Add(time.Hour - time.Second), row: hour(-1), last: hour(0), made: hour(1), next: hour(2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := echoDAG("")
			d.ID, d.MaxActiveRuns, d.Catchup, d.StartDate = "d", 16, c.catchup, new(noon.Add(-24*time.Hour))
			d.Schedule = dag.Schedule{Kind: dag.ScheduleCronTrigger, Crons: []string{"0 * * * *"}}
			var made []dag.NewRun
			var replans []*dag.PlannedRun
			away, asked, reaped := false, 0, 0
			st := dueStore{
				awayStore: awayStore{away: &away, asked: &asked, reaped: &reaped}, now: func() time.Time { return c.now }, dag: d,
				row: dag.DAGRow{DagID: "d", VersionID: 1, Next: c.row}, made: &made, replans: &replans,
			}
			if c.last != nil {
				st.last = map[string]dag.Run{"d": {
					LogicalDate: &c.last.LogicalDate, DataIntervalStart: &c.last.DataIntervalStart, DataIntervalEnd: &c.last.DataIntervalEnd, RunAfter: c.last.RunAfter,
				}}
			}
			s := NewScheduler(SchedulerOptions{Store: st, Catalog: st, Results: st, Clock: dagtest.NewClock(c.now)})
			busy, err := s.Pass(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.made != nil, busy)
			if c.made == nil {
				require.Empty(t, made)
			} else {
				require.Len(t, made, 1)
				require.Equal(t, c.made.RunAfter, made[0].Run.RunAfter)
				require.Equal(t, c.made.LogicalDate, *made[0].Run.LogicalDate)
				require.Equal(t, c.now, *made[0].Run.QueuedAt)
				require.Equal(t, c.row.RunAfter, made[0].PlannedFor)
				require.Equal(t, c.next, made[0].Next)
			}
			require.Equal(t, c.replan, len(replans) == 1)
			if c.replan {
				require.Equal(t, c.replannedFor, replans[0])
			}
		})
	}
}

// TestTheSchedulerWakesAtTheInstant: it sleeps until what is due next, by the
// database's clock, counted from its last look.
func TestTheSchedulerWakesAtTheInstant(t *testing.T) {
	t.Parallel()
	looked := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		passed time.Duration // since the look
		next   time.Duration // after the look; 0 for never
		sleeps time.Duration
	}{
		"soon":                 {10 * time.Millisecond, 300 * time.Millisecond, 290 * time.Millisecond},
		"never":                {0, 0, time.Second},
		"far":                  {0, time.Hour, time.Second},
		"came since the look":  {10 * time.Millisecond, 5 * time.Millisecond, 0},
		"at this very instant": {10 * time.Millisecond, 10 * time.Millisecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := looked
			clock := &sleepClock{Clock: dagtest.NewClock(looked.Add(time.Hour))} // this machine's is wrong
			away, asked, reaped := false, 0, 0
			st := dueStore{awayStore: awayStore{away: &away, asked: &asked, reaped: &reaped}, now: func() time.Time { return now }}
			st.wake = func(later time.Time, ahead time.Duration) time.Time {
				require.Equal(t, looked, later)
				require.Equal(t, Lead, ahead)
				if c.next == 0 {
					return time.Time{}
				}
				return looked.Add(c.next)
			}
			s := NewScheduler(SchedulerOptions{Store: st, Catalog: st, Results: st, Clock: clock})
			_, err := s.Pass(t.Context())
			require.NoError(t, err)
			now = now.Add(c.passed)
			s.Wait(t.Context())
			require.Equal(t, []time.Duration{c.sleeps}, clock.slept)
		})
	}
}

// TestNoRestBeyondTheInstant: after a pass a scheduler lets changes gather, but
// not beyond the time of a run that it made ahead.
func TestNoRestBeyondTheInstant(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	s := NewScheduler(SchedulerOptions{Clock: clock})
	const rest = 20 * time.Millisecond
	require.Equal(t, rest, s.untilDue(rest))
	for _, in := range []time.Duration{-time.Second, 0, Lead, 500 * time.Millisecond, 500*time.Millisecond + time.Microsecond} {
		s.dueIn(in)
	}
	require.Len(t, s.due, 2)
	for _, c := range []struct{ advance, want time.Duration }{
		{480 * time.Millisecond, rest},
		{15 * time.Millisecond, 5 * time.Millisecond},
		{5 * time.Millisecond, rest},
		{1490 * time.Millisecond, 10 * time.Millisecond},
		{-time.Hour, rest}, // what was known does not count any more
		{time.Hour, rest},
	} {
		clock.Advance(c.advance)
		require.Equal(t, c.want, s.untilDue(rest), "%+v", c)
	}
	require.Empty(t, s.due)
}

// sleepClock keeps what was waited for, and waits for nothing.
type sleepClock struct {
	dag.Clock
	slept []time.Duration
}

func (c *sleepClock) After(d time.Duration) <-chan time.Time {
	c.slept = append(c.slept, d)
	done := make(chan time.Time)
	close(done)
	return done
}
