package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor"
	"github.com/airlock-dag/airlock/sql/sqltest"
	"github.com/airlock-dag/airlock/sql/store"
)

// TestNothingStartsBeforeItsTime: two engines beside each other, and the clock
// that the database has. Each second's runs are made before it, and none of them
// starts before it.
func TestNothingStartsBeforeItsTime(t *testing.T) {
	t.Parallel()
	sqltest.Each(t, func(t *testing.T, name, dsn string) {
		one := newEngine(t, dsn, 4)
		engines := []*engine{one}
		if name != "sqlite" {
			engines = append(engines, newEngine(t, dsn, 4))
		}
		var updates []dag.DAGUpdate
		for i := range 3 {
			next := time.Now().UTC().Truncate(time.Second).Add(3 * time.Second)
			updates = append(updates, dag.DAGUpdate{
				DAG:  everySeconds(fmt.Sprint("d", i), 1),
				Next: &dag.PlannedRun{LogicalDate: next, DataIntervalStart: next, DataIntervalEnd: next, RunAfter: next},
			})
		}
		_, err := one.st.SyncDAGs(t.Context(), updates)
		require.NoError(t, err)
		one.wake.Signal()
		db := one.st.DB()
		const begun = "SELECT COUNT(*) FROM dag_run WHERE state <> 'queued'"
		require.Eventually(t, func() bool {
			var n int
			err := db.Reader().GetContext(t.Context(), &n, begun+" AND queued_at < run_after")
			return err == nil && n >= 6
		}, patience, pause, "none is made ahead")
		for _, e := range engines {
			e.stop()
			for n := len(e.late); n > 0; n-- {
				require.GreaterOrEqual(t, <-e.late, time.Duration(0))
			}
		}
		again, err := store.Open(t.Context(), dsn, store.Options{})
		require.NoError(t, err)
		defer func() { _ = again.Close() }()
		for _, wrong := range []string{
			begun + " AND start_date < run_after",
			`SELECT COUNT(*) FROM task_instance ti JOIN dag_run r ON r.id = ti.dag_run_id
 WHERE ti.scheduled_at < r.run_after OR ti.queued_at < r.run_after OR ti.start_date < r.run_after`,
			"SELECT COUNT(*) FROM task_attempt WHERE try_number > 1",
		} {
			var n int
			require.NoError(t, again.DB().Reader().GetContext(t.Context(), &n, wrong))
			require.Zero(t, n, wrong)
		}
	})
}

// madeAhead are the runs of the DAG that were made and may not start yet.
func (c *clockwork) madeAhead() (out []dag.Run) {
	c.t.Helper()
	runs, err := c.store.Runs(c.t.Context(), dag.RunFilter{DagID: "d", States: []dag.RunState{dag.RunQueued}, Limit: -1})
	require.NoError(c.t, err)
	for _, r := range runs {
		if r.RunAfter.After(c.clock.Now()) {
			out = append(out, r)
		}
	}
	return out
}

// What happens to the DAG after its run was made, and before that is due, counts
// as if nothing had been made.
func TestBetweenMakingAndDue(t *testing.T) {
	t.Parallel()
	noon := date(2026, 5, 1, 12, 0)
	hourly := func(hours ...int) (out []time.Time) {
		for _, h := range hours {
			out = append(out, date(2026, 5, 1, h, 0))
		}
		return out
	}
	pause := func(c *clockwork, paused bool) {
		_, err := c.store.SetPaused(c.t.Context(), "d", paused)
		require.NoError(c.t, err)
	}
	for name, what := range map[string]struct {
		happens func(c *clockwork)
		// later happens in the afternoon, at 15:30; want are the ticks that run from
		// noon to four, without and with catchup.
		later         func(c *clockwork)
		latest, wants []time.Time
	}{
		"nothing":                {func(*clockwork) {}, nil, hourly(12, 13, 14, 15), hourly(12, 13, 14, 15)},
		"paused till later":      {func(c *clockwork) { pause(c, true) }, func(c *clockwork) { pause(c, false) }, hourly(15), hourly(12, 13, 14, 15)},
		"paused":                 {func(c *clockwork) { pause(c, true) }, nil, nil, nil},
		"paused for a moment":    {func(c *clockwork) { pause(c, true); pause(c, false) }, nil, hourly(12, 13, 14, 15), hourly(12, 13, 14, 15)},
		"nobody looks":           {func(c *clockwork) { c.clock.Set(noon.Add(3*time.Hour + time.Minute)) }, nil, hourly(15), hourly(12, 13, 14, 15)},
		"nobody looks, restart":  {func(c *clockwork) { c.clock.Set(noon.Add(3*time.Hour + time.Minute)); c.start(2) }, nil, hourly(15), hourly(12, 13, 14, 15)},
		"nobody looks for long":  {func(c *clockwork) { c.clock.Set(noon.Add(10 * time.Second)) }, nil, hourly(12, 13, 14, 15), hourly(12, 13, 14, 15)},
		"the clock is set back":  {func(c *clockwork) { c.clock.Advance(-time.Hour) }, nil, hourly(12, 13, 14, 15), hourly(12, 13, 14, 15)},
		"the file is gone":       {func(c *clockwork) { delete(c.files, "d.yml"); c.sync() }, nil, nil, nil},
		"another schedule":       {func(c *clockwork) { c.reschedule(`"30 * * * *"`) }, nil, nil, nil},
		"another task, same day": {func(c *clockwork) { c.files["d.yml"] += "    more: {operator: empty}\n"; c.sync() }, nil, hourly(12, 13, 14, 15), hourly(12, 13, 14, 15)},
	} {
		for _, catchup := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, catchup %t", name, catchup), func(t *testing.T) {
				t.Parallel()
				c := newClockwork(t, sqliteFile(t), noon.Add(-90*time.Minute), oneFile("empty", `"0 * * * *"`, fmt.Sprintf("  start_date: 2026-05-01T11:00:00\n  catchup: %t\n", catchup)))
				c.until(noon.Add(-time.Second))
				ahead := c.madeAhead()
				require.Len(t, ahead, 1)
				require.Equal(t, noon, ahead[0].RunAfter)
				require.Equal(t, noon.Add(-executor.Lead), *ahead[0].QueuedAt)
				what.happens(c)
				c.until(noon.Add(3*time.Hour + 30*time.Minute))
				if what.later != nil {
					require.Empty(t, c.madeAhead())
					what.later(c)
				}
				c.until(noon.Add(4*time.Hour - time.Minute))
				want := what.latest
				if catchup {
					want = what.wants
				}
				var got []time.Time
				for _, r := range c.runs("d") {
					require.Equal(t, dag.RunSuccess, r.State)
					require.False(t, r.StartDate.Before(r.RunAfter))
					if at := *r.LogicalDate; !at.Before(noon) && at.Minute() == 0 {
						got = append(got, at)
					}
				}
				require.Equal(t, want, got)
				if name == "another task, same day" {
					require.Len(t, c.states(c.runs("d")[1]), 2, "the run is of the version that was there when it was due")
				}
			})
		}
	}
}

// reschedule changes the schedule of the DAG in its file.
func (c *clockwork) reschedule(schedule string) {
	c.files["d.yml"] = oneFile("empty", schedule, "  start_date: 2026-05-01T11:00:00\n")["d.yml"]
	c.sync()
}

// A run that a person starts by hand shortly before the tick takes the room, or
// the date, as it would have if nothing had been made ahead.
func TestByHandJustBeforeTheTick(t *testing.T) {
	t.Parallel()
	noon := date(2026, 5, 1, 12, 0)
	for _, sameDate := range []bool{true, false} {
		t.Run(fmt.Sprintf("same date %t", sameDate), func(t *testing.T) {
			t.Parallel()
			c := newClockwork(t, sqliteFile(t), noon.Add(-30*time.Minute), oneFile("bash", `"*/10 * * * *"`, "  start_date: 2026-05-01T12:00:00\n  catchup: false\n  max_active_runs: 1\n"))
			hold := true
			work := c.workerThat(func(dag.Claim) dag.State { return dag.StateSuccess })
			c.work = func() bool { return !hold && work() }
			c.until(noon.Add(-time.Second))
			require.Len(t, c.madeAhead(), 1)
			rows, err := c.store.DAGRows(t.Context(), dag.DAGFilter{})
			require.NoError(t, err)
			ask := executor.ManualRunRequest{RunID: "by-hand", Now: c.clock.Now()}
			if sameDate {
				ask.LogicalDate = &noon
			}
			run, err := executor.ManualRun(t.Context(), c.store, rows[0], ask)
			require.NoError(t, err)
			made, err := c.store.CreateRuns(t.Context(), []dag.NewRun{run})
			require.NoError(t, err)
			require.False(t, made[0].Existed)
			c.until(noon.Add(25 * time.Minute)) // no worker: it holds the only place
			runs := c.runs("d")
			require.Len(t, runs, 1)
			require.Equal(t, "by-hand", runs[0].RunID)
			require.Equal(t, dag.RunRunning, runs[0].State)
			hold = false
			c.until(noon.Add(39 * time.Minute))
			var dates []time.Time
			for _, r := range c.runs("d") {
				require.Equal(t, dag.RunSuccess, r.State)
				if r.Type == dag.RunScheduled {
					dates = append(dates, *r.LogicalDate)
				}
			}
			require.Equal(t, []time.Time{noon.Add(20 * time.Minute), noon.Add(30 * time.Minute)}, dates, "the latest tick, and the next")
		})
	}
}
