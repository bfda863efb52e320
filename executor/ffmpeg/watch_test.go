package ffmpeg_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/ffmpeg"
)

func TestWatch(t *testing.T) {
	t.Parallel()
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return t0.Add(time.Duration(s) * time.Second) }
	limits := ffmpeg.Limits{Startup: 30 * time.Second, Stall: 120 * time.Second, MaxSize: 1000, MaxFrames: 500}

	w := ffmpeg.NewWatch(limits, t0)
	require.Equal(t, at(30), w.Deadline())
	require.Nil(t, w.Check(at(29)))
	// A block that says nothing is no advance.
	require.Nil(t, w.Observe(at(29), ffmpeg.Progress{Frame: 0, OutTime: -1, TotalSize: 0}))
	require.Equal(t, ffmpeg.CodeStartupTimeout, w.Check(at(30)).Code)

	w = ffmpeg.NewWatch(limits, t0)
	require.Nil(t, w.Observe(at(10), ffmpeg.Progress{Frame: 5, OutTime: time.Second, TotalSize: 48}))
	require.Equal(t, at(130), w.Deadline())
	// Later versions print the same numbers again and again.
	require.Nil(t, w.Observe(at(100), ffmpeg.Progress{Frame: 5, OutTime: time.Second, TotalSize: 48}))
	require.Equal(t, at(130), w.Deadline())
	// Any of the three is an advance.
	require.Nil(t, w.Observe(at(101), ffmpeg.Progress{Frame: -1, OutTime: -1, TotalSize: 49}))
	require.Equal(t, at(221), w.Deadline())
	stop := w.Check(at(221))
	require.Equal(t, ffmpeg.CodeStalled, stop.Code)
	require.Equal(t, dag.ClassTransient, stop.Class)

	require.Equal(t, ffmpeg.CodeOutputTooLarge, w.Observe(at(222), ffmpeg.Progress{TotalSize: 1001}).Code)
	stop = w.Observe(at(222), ffmpeg.Progress{Frame: 501})
	require.Equal(t, ffmpeg.CodeTooManyFrames, stop.Code)
	require.Equal(t, dag.ClassPermanent, stop.Class)

	// The last pass over a finished file shows no progress.
	w = ffmpeg.NewWatch(ffmpeg.Limits{Stall: 120 * time.Second, Total: 100 * time.Second}, t0)
	require.Nil(t, w.Observe(at(50), ffmpeg.Progress{OutTime: 99 * time.Second}))
	require.Equal(t, at(50).Add(ffmpeg.FinalStall), w.Deadline())

	w = ffmpeg.NewWatch(ffmpeg.Limits{}, t0)
	require.True(t, w.Deadline().IsZero())
	require.Nil(t, w.Check(at(1e6)))
}
