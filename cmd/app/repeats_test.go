package app

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag/dagtest"
)

// TestAnOutageDoesNotFillTheLog: the state database is away for five minutes,
// and a loop complains twice a second.
func TestAnOutageDoesNotFillTheLog(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	var out bytes.Buffer
	log := withoutRepeats(slog.New(slog.NewTextHandler(&out, nil)), clock)
	refused, denied := errors.New("connection refused"), errors.New("access denied")
	lines := func() int { return strings.Count(out.String(), "\n") }
	for range 600 {
		log.Warn("no work could be claimed", "error", refused)
		clock.Advance(500 * time.Millisecond)
	}
	require.Equal(t, 5, lines(), "at 0, 60, 120, 180 and 240 seconds")
	require.Equal(t, 4, strings.Count(out.String(), "not_written_since=119"), "120 a minute, of which one is written")

	for range 30 { // another cause is news, but not each time when two take turns
		log.Warn("no work could be claimed", "error", denied)
		log.Warn("no work could be claimed", "error", refused)
		clock.Advance(time.Second)
	}
	require.Equal(t, 5+3, lines(), "at 300, 310 and 320 seconds")

	out.Reset()
	for range 3 {
		log.Warn("another trouble", "error", refused)
		log.Warn("a warning without a cause")
		log.Info("no complaint", "error", refused)
		log.Error("about one task", "error", refused, "task_instance", "d/r/t")
		log.With("event", 7).Error("about one callback", "error", refused)
	}
	require.Equal(t, 1+4*3, lines())

	out.Reset()
	clock.Advance(-time.Hour)
	log.Warn("another trouble", "error", refused)
	require.Equal(t, 1, lines(), "the clock was set back")
}
