package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func testSync(t *testing.T, b *bundle) {
	ctx := t.Context()
	plan := &dag.PlannedRun{LogicalDate: start, DataIntervalStart: start, DataIntervalEnd: start.Add(time.Hour), RunAfter: start.Add(time.Hour)}
	one, two := oneDAG("b", "x"), oneDAG("a", "x")
	one.Owner, one.Description, one.Schedule.Text, one.FileLoc, one.Tags = "ann", "héllo", "@hourly", "f.yml", []string{"t"}
	ids, err := b.s.SyncDAGs(ctx, []dag.DAGUpdate{{DAG: one, Source: "abc123", Next: plan, Paused: true}, {DAG: two}})
	require.NoError(t, err)
	require.NotEqual(t, ids[0], ids[1])

	rows, err := b.s.DAGRows(ctx, dag.DAGFilter{})
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.Equal(t, "a", rows[0].DagID)
	_, hash, err := dag.EncodeDAG(one)
	require.NoError(t, err)
	require.Equal(t, dag.DAGRow{
		DagID: "b", FileLoc: "f.yml", Owner: "ann", Schedule: "@hourly", Description: "héllo", IsPaused: true, VersionID: ids[0],
		VersionHash: hash, Source: "abc123", Next: plan, UpdatedAt: start,
	}, rows[1])
	got, err := b.s.Version(ctx, ids[0])
	require.NoError(t, err)
	frozen := *one
	frozen.Freeze()
	require.Equal(t, &frozen, got)
	_, err = b.s.Version(ctx, 987)
	require.Equal(t, dag.ErrNotFound, dag.CodeOf(err))

	// The same content is the same version, also after another one, and a person's
	// unpausing is kept.
	changed, err := b.s.SetPaused(ctx, "b", false)
	require.NoError(t, err)
	require.True(t, changed)
	changed, err = b.s.SetPaused(ctx, "b", false)
	require.NoError(t, err)
	require.False(t, changed)
	other := oneDAG("b", "x", "y")
	for _, c := range []struct {
		d    *dag.DAG
		same bool
	}{{one, true}, {other, false}, {one, true}} {
		now, err := b.s.SyncDAGs(ctx, []dag.DAGUpdate{{DAG: c.d, Paused: true}})
		require.NoError(t, err)
		require.Equal(t, c.same, now[0] == ids[0])
	}
	rows, err = b.s.DAGRows(ctx, dag.DAGFilter{IDs: []string{"b"}})
	require.NoError(t, err)
	require.False(t, rows[0].IsPaused)
	require.Nil(t, rows[0].Next)
	require.Equal(t, 3, b.count("SELECT COUNT(*) FROM dag_version"))

	_, err = b.s.SetPaused(ctx, "nope", true)
	require.Equal(t, dag.ErrNotFound, dag.CodeOf(err))
}

func testStaleAndPaused(t *testing.T, b *bundle) {
	ctx := t.Context()
	due := &dag.PlannedRun{LogicalDate: start, DataIntervalStart: start, DataIntervalEnd: start, RunAfter: start}
	_, err := b.s.SyncDAGs(ctx, []dag.DAGUpdate{{DAG: oneDAG("a", "x"), Next: due}, {DAG: oneDAG("b", "x"), Next: due}, {DAG: oneDAG("c", "x"), Next: due, Paused: true}})
	require.NoError(t, err)
	dueIDs := func() (ids []string) {
		rows, err := b.s.DueDAGs(ctx, b.clock.Now(), 10)
		require.NoError(t, err)
		for _, r := range rows {
			ids = append(ids, r.DagID)
		}
		return ids
	}
	require.Equal(t, []string{"a", "b"}, dueIDs())
	require.NoError(t, b.s.MarkStale(ctx, []string{"a"}, "the file is gone"))
	require.NoError(t, b.s.MarkStale(ctx, nil, "nothing"))
	require.Equal(t, []string{"b"}, dueIDs())
	rows, err := b.s.DAGRows(ctx, dag.DAGFilter{OnlyActive: true})
	require.NoError(t, err)
	require.Len(t, rows, 2)
	rows, err = b.s.DAGRows(ctx, dag.DAGFilter{IDs: []string{"a"}})
	require.NoError(t, err)
	require.True(t, rows[0].IsStale)
	require.Equal(t, "the file is gone", rows[0].StaleReason)
	_, err = b.s.SyncDAGs(ctx, []dag.DAGUpdate{{DAG: oneDAG("a", "x"), Next: due}})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, dueIDs())

	// A paused DAG's runs are passed over until it is unpaused.
	d := oneDAG("p", "x")
	run := b.trigger(d, "r1")
	_, err = b.s.SetPaused(ctx, "p", true)
	require.NoError(t, err)
	require.Empty(t, b.pass().Runs)
	only, err := b.s.Schedule(ctx, dag.SchedulePass{Limit: 1, OnlyRun: run.ID}, b.decide)
	require.NoError(t, err)
	require.Len(t, only.Runs, 1, "a test run is driven though its DAG is paused")
	require.Equal(t, 1, only.Queued)
}

// testPausedEnds: while its DAG is paused a run in which a task waits stays as it
// is, and one whose last task has ended ends.
func testPausedEnds(t *testing.T, b *bundle) {
	waits, ends := b.trigger(oneDAG("waits", "a", "b<a"), "r"), b.trigger(oneDAG("ends", "a"), "r")
	b.pass()
	held := b.claim(2)
	require.Len(t, held, 2)
	for _, id := range []string{"waits", "ends"} {
		_, err := b.s.SetPaused(t.Context(), id, true)
		require.NoError(t, err)
	}
	require.Empty(t, b.pass().Runs, "both run")
	b.clock.Advance(time.Second)
	for _, c := range held {
		_, err := b.s.Apply(t.Context(), []dag.Result{b.result(c, dag.StateSuccess)})
		require.NoError(t, err)
	}
	b.pass()
	require.Equal(t, dag.RunSuccess, b.run(ends).State)
	require.Equal(t, dag.RunRunning, b.run(waits).State)
	require.Equal(t, dag.StateNone, b.instance(waits, "b").State)
	require.Empty(t, b.pass().Runs)
	b.sound()
}

func testImportErrors(t *testing.T, b *bundle) {
	ctx := t.Context()
	list := []dag.Problem{
		{File: "b.yml", Line: 3, Column: 7, Path: "x.y", Severity: dag.SeverityError, Code: "bad-cron", Message: "found \"5\"", Hint: "use 5 fields"},
		{File: "a.yml", Severity: dag.SeverityWarning, Code: "unknown-key", Message: "m\x00\xff"},
	}
	require.NoError(t, b.s.SetImportErrors(ctx, list))
	require.NoError(t, b.s.SetImportErrors(ctx, list))
	got, err := b.s.ImportErrors(ctx)
	require.NoError(t, err)
	list[1].Message = "m\uFFFD\uFFFD"
	require.Equal(t, list, got)
	require.NoError(t, b.s.SetImportErrors(ctx, nil))
	got, err = b.s.ImportErrors(ctx)
	require.NoError(t, err)
	require.Empty(t, got)
}

func testReplacePlan(t *testing.T, b *bundle) {
	ctx := t.Context()
	d := oneDAG("d", "a")
	_, err := b.s.SyncDAGs(ctx, []dag.DAGUpdate{{DAG: d, Next: minutely(0)}})
	require.NoError(t, err)
	row := func() dag.DAGRow {
		rows, err := b.s.DAGRows(ctx, dag.DAGFilter{IDs: []string{"d"}})
		require.NoError(t, err)
		return rows[0]
	}
	before := row()
	require.NoError(t, b.s.ReplacePlan(ctx, before, minutely(2)))
	require.Equal(t, minutely(2), row().Next)
	require.NoError(t, b.s.ReplacePlan(ctx, before, minutely(3)), "somebody else replanned since")
	require.Equal(t, minutely(2), row().Next)

	// A new version with the same next run: what comes after it may be another.
	before = row()
	changed := oneDAG("d", "a", "b")
	_, err = b.s.SyncDAGs(ctx, []dag.DAGUpdate{{DAG: changed, Next: minutely(2)}})
	require.NoError(t, err)
	require.NoError(t, b.s.ReplacePlan(ctx, before, minutely(4)))
	require.Equal(t, minutely(2), row().Next)
	made, err := b.s.CreateRuns(ctx, []dag.NewRun{b.scheduled(d, before.VersionID, *minutely(2), minutely(4))})
	require.NoError(t, err)
	require.True(t, made[0].Overtaken)
	require.NoError(t, b.s.ReplacePlan(ctx, row(), nil))
	require.Nil(t, row().Next)
}
