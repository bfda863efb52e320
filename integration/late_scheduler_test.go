package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/timetable"
	"github.com/airlock-dag/airlock/executor"
	"github.com/airlock-dag/airlock/sql/sqltest"
)

// oneFile is a folder with one DAG, of one task that needs a worker or none.
func oneFile(operator, schedule, more string) files {
	task := "{operator: empty}"
	if operator == "bash" {
		task = "{operator: bash, bash_command: 'true'}"
	}
	return files{"d.yml": fmt.Sprintf("d:\n  schedule: %s\n  is_paused_upon_creation: false\n%s  tasks:\n    only: %s\n", schedule, more, task)}
}

// worker ends all that is queued with success, at every fourth look, and keeps
// the greatest number of runs that were running at once.
func (c *clockwork) worker(most *int) func() bool {
	work := c.workerThat(func(dag.Claim) dag.State { return dag.StateSuccess })
	return func() bool {
		running, err := c.store.Runs(c.t.Context(), dag.RunFilter{States: []dag.RunState{dag.RunRunning}, Limit: -1})
		require.NoError(c.t, err)
		*most = max(*most, len(running))
		return work()
	}
}

// workerThat ends what is queued at every fourth look, each as end says.
func (c *clockwork) workerThat(end func(dag.Claim) dag.State) func() bool {
	looks := 0
	return func() bool {
		c.t.Helper()
		if looks++; looks%4 != 0 {
			waiting, err := c.store.Instances(c.t.Context(), dag.InstanceFilter{States: []dag.State{dag.StateQueued}})
			require.NoError(c.t, err)
			return len(waiting) > 0
		}
		claims, err := c.store.Claim(c.t.Context(), dag.ClaimParams{WorkerID: "w", Hostname: "h", N: 100, Lease: time.Hour})
		require.NoError(c.t, err)
		if len(claims) == 0 {
			return false
		}
		c.clock.Advance(time.Second)
		var results []dag.Result
		for _, cl := range claims {
			results = append(results, c.ending(cl, end(cl)))
		}
		_, err = c.store.Apply(c.t.Context(), results)
		require.NoError(c.t, err)
		return true
	}
}

// ending is the end of a claimed attempt now, with its letter when it failed.
func (c *clockwork) ending(cl dag.Claim, state dag.State) dag.Result {
	r := dag.Result{
		TaskInstanceID: cl.ID, Fence: cl.Fence, State: state, SpendTry: true,
		Attempt: dag.Attempt{WorkerID: "w", Hostname: "h", StartDate: *cl.StartDate, EndDate: c.clock.Now()},
	}
	if state != dag.StateFailed {
		return r
	}
	r.Spent = dag.BudgetFailures
	r.Attempt.ErrorClass, r.Attempt.ErrorCode, r.Attempt.ErrorMessage = dag.ClassTransient, "EXIT_CODE", "exit code 1"
	letter := dag.Seal(dag.SealInput{
		TI: cl.TaskInstance, Run: cl.Run, Attempts: cl.TryNumber, At: c.clock.Now(),
		Err: &dag.TaskError{Class: dag.ClassPermanent, Code: "EXIT_CODE", Message: "exit code 1"},
	})
	r.Letter = &letter
	return r
}

func hours(from time.Time, n int) []dag.PlannedRun {
	var out []dag.PlannedRun
	for i := range n {
		at := from.Add(time.Duration(i) * time.Hour)
		out = append(out, dag.PlannedRun{LogicalDate: at, DataIntervalStart: at, DataIntervalEnd: at.Add(time.Hour), RunAfter: at.Add(time.Hour)})
	}
	return out
}

func TestThreeDaysDown(t *testing.T) {
	t.Parallel()
	begin := date(2026, 5, 1, 0, 0)
	hourly := `{__type__: airflow.timetables.interval.CronDataIntervalTimetable, cron: "0 * * * *", timezone: UTC}`
	for _, catchup := range []bool{true, false} {
		t.Run(fmt.Sprintf("catchup %t", catchup), func(t *testing.T) {
			t.Parallel()
			c := newClockwork(t, sqliteFile(t), begin, oneFile("bash", hourly, fmt.Sprintf("  start_date: 2026-05-01\n  catchup: %t\n  max_active_runs: 2\n", catchup)))
			most := 0
			c.work = c.worker(&most)
			c.until(begin.Add(2*time.Hour + 10*time.Minute))
			const before = 2
			require.Len(t, c.runs("d"), before)

			// Down for 72 hourly times: the intervals from 02:00 on the first day to
			// 02:00 on the fourth.
			c.clock.Advance(72 * time.Hour)
			c.start(1)
			c.until(c.clock.Now().Add(20 * time.Minute))
			made := c.runs("d")[before:]
			if catchup {
				require.Equal(t, hours(begin.Add(2*time.Hour), 72), planned(made))
				require.Equal(t, 2, most, "two at a time")
				for i := 1; i < len(made); i++ {
					require.False(t, made[i].StartDate.Before(*made[i-1].StartDate), "in order")
				}
			} else {
				require.Equal(t, hours(begin.Add(73*time.Hour), 1), planned(made), "the latest complete interval")
			}
			for _, r := range made {
				require.Equal(t, dag.RunSuccess, r.State)
			}

			// Nothing stays blocked: it goes on with the next hour.
			c.until(c.clock.Now().Add(2 * time.Hour))
			require.Equal(t, hours(begin.Add(74*time.Hour), 2), planned(c.runs("d")[before+len(made):]))
		})
	}
}

func TestTwoThousandMissedMinutes(t *testing.T) {
	t.Parallel()
	begin := date(2026, 5, 1, 0, 0)
	c := newClockwork(t, sqliteFile(t), begin, oneFile("empty", `"* * * * *"`, "  start_date: 2026-05-01\n  catchup: true\n  max_active_runs: 2\n"))
	c.until(begin.Add(30 * time.Second))
	require.Len(t, c.runs("d"), 1)
	c.clock.Advance(2000 * time.Minute)
	// The last minute passes while it catches up; nothing of it takes an hour.
	c.until(c.clock.Now().Add(10 * time.Minute))
	runs := c.runs("d")
	require.Len(t, runs, 1+2000+10)
	for i, r := range runs {
		require.Equal(t, begin.Add(time.Duration(i)*time.Minute), *r.LogicalDate)
		require.Equal(t, dag.RunSuccess, r.State)
	}
}

func TestAClockThatJumpsBack(t *testing.T) {
	t.Parallel()
	begin := date(2026, 5, 1, 0, 0)
	for _, catchup := range []bool{true, false} {
		t.Run(fmt.Sprintf("catchup %t", catchup), func(t *testing.T) {
			t.Parallel()
			c := newClockwork(t, sqliteFile(t), begin, oneFile("empty", `"*/10 * * * *"`, fmt.Sprintf("  start_date: 2026-05-01\n  catchup: %t\n", catchup)))
			for _, minutes := range []int{65, 90, 125, 185, 300} {
				c.until(begin.Add(time.Duration(minutes) * time.Minute))
				c.clock.Advance(-time.Hour)
				c.start(1) // a restart, with the files read again while the clock is wrong
			}
			c.until(begin.Add(6 * time.Hour))
			runs := c.runs("d")
			require.Len(t, runs, 36)
			for i, r := range runs {
				require.Equal(t, begin.Add(time.Duration(i)*10*time.Minute), *r.LogicalDate)
			}
		})
	}
}

func TestTwoSchedulersSideBySide(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, _, dsn string) {
		begin := date(2026, 5, 1, 0, 0)
		f := oneFile("empty", `"* * * * *"`, "  start_date: 2026-05-01\n  catchup: false\n")
		f["e.yml"] = "e:\n  schedule: \"*/7 * * * *\"\n  start_date: 2026-04-30T22:00:00\n  catchup: true\n  is_paused_upon_creation: false\n  tasks:\n    a: {operator: empty}\n"
		c := newClockwork(t, dsn, begin, f)
		c.start(2)
		c.until(begin.Add(45 * time.Minute))
		c.start(3)
		c.until(begin.Add(90 * time.Minute))
		runs := c.runs("d")
		require.Len(t, runs, 90)
		for i, r := range runs {
			require.Equal(t, begin.Add(time.Duration(i)*time.Minute), *r.LogicalDate)
		}
		want := 0
		for at := begin.Add(-2 * time.Hour); at.Before(begin.Add(90 * time.Minute)); at = at.Add(time.Minute) {
			if at.Minute()%7 == 0 {
				require.Equal(t, at, *c.runs("e")[want].LogicalDate)
				want++
			}
		}
		require.Len(t, c.runs("e"), want)
	})
}

// A run that somebody started by hand may have the logical date of a tick: the
// tick counts as made, and the schedule goes on behind it.
func TestATickThatIsTaken(t *testing.T) {
	t.Parallel()
	begin := date(2026, 5, 1, 0, 30)
	for _, catchup := range []bool{true, false} {
		t.Run(fmt.Sprintf("catchup %t", catchup), func(t *testing.T) {
			t.Parallel()
			c := newClockwork(t, sqliteFile(t), begin, oneFile("empty", `"0 * * * *"`, fmt.Sprintf("  start_date: 2026-05-01\n  catchup: %t\n", catchup)))
			c.until(begin.Add(time.Minute))
			for _, h := range []int{2, 3, 5} {
				rows, err := c.store.DAGRows(t.Context(), dag.DAGFilter{})
				require.NoError(t, err)
				at := date(2026, 5, 1, h, 0)
				nr, err := executor.ManualRun(t.Context(), c.store, rows[0], executor.ManualRunRequest{LogicalDate: &at, Now: c.clock.Now()})
				require.NoError(t, err)
				nr.Run.RunID = fmt.Sprint("by_hand_", h)
				_, err = c.store.CreateRuns(t.Context(), []dag.NewRun{nr})
				require.NoError(t, err)
			}
			c.until(date(2026, 5, 1, 7, 30))
			runs := c.runs("d")
			require.Len(t, runs, 8)
			for h, r := range runs {
				require.Equal(t, date(2026, 5, 1, h, 0), *r.LogicalDate)
				require.Equal(t, h == 2 || h == 3 || h == 5, r.Type == dag.RunManual)
			}
		})
	}
}

// Backfilled dates count as made, and hide none of the ticks before them.
func TestTicksBeforeABackfill(t *testing.T) {
	t.Parallel()
	begin := date(2026, 5, 20, 12, 0)
	f := oneFile("empty", `"0 0 * * *"`, "  start_date: 2026-05-01\n  catchup: true\n")
	c := newClockwork(t, sqliteFile(t), begin, f)
	d := c.sync().DAGs[0]
	rows, err := c.store.DAGRows(t.Context(), dag.DAGFilter{})
	require.NoError(t, err)
	for day := 8; day <= 12; day++ {
		at := date(2026, 5, day, 0, 0)
		p := dag.PlannedRun{LogicalDate: at, DataIntervalStart: at, DataIntervalEnd: at, RunAfter: at}
		_, err := c.store.CreateRuns(t.Context(), []dag.NewRun{{
			Run: dag.Run{
				DagID: "d", RunID: timetable.RunID(dag.RunBackfill, p), Type: dag.RunBackfill, LogicalDate: &at,
				DataIntervalStart: &at, DataIntervalEnd: &at, RunAfter: at, VersionID: rows[0].VersionID,
			},
			Instances: dag.NewInstances(d),
		}})
		require.NoError(t, err)
	}
	// The file changes, so that the plan is made anew.
	c.files["d.yml"] += "    another: {operator: empty}\n"
	c.sync()
	c.until(begin.Add(time.Minute))
	runs := c.runs("d")
	require.Len(t, runs, 20)
	for i, r := range runs {
		require.Equal(t, date(2026, 5, 1+i, 0, 0), *r.LogicalDate)
	}
}
