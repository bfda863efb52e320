package cli

import (
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"

	"github.com/airlock-dag/airlock/dag"
)

// plainEvery is the time between two plain lines of progress.
const plainEvery = 5 * time.Second

// bar shows how far a long command is: a bar on a terminal, a plain line now and
// then elsewhere.
type bar struct {
	s       *session
	name    string
	writer  progress.Writer // nil where no terminal is
	tracker *progress.Tracker
	told    time.Time
	wait    dag.DrainWait
}

func (s *session) newBar(name string) *bar {
	b := &bar{s: s, name: name, told: s.env.Clock.Now()}
	if !s.env.Terminal {
		return b
	}
	b.writer = progress.NewWriter()
	b.writer.SetOutputWriter(s.env.Stderr)
	b.writer.SetAutoStop(false)
	b.writer.SetTrackerLength(30)
	b.writer.SetUpdateFrequency(100 * time.Millisecond)
	b.writer.SetStyle(progress.StyleBlocks)
	b.writer.Style().Visibility = progress.StyleVisibility{ETA: true, Percentage: true, Time: true, Tracker: true, Value: true}
	b.tracker = &progress.Tracker{Message: name}
	b.writer.AppendTracker(b.tracker)
	go b.writer.Render()
	return b
}

// waiting says what is waited for.
func (b *bar) waiting(w dag.DrainWait) { b.wait = w }

// set shows that done of total are done.
func (b *bar) set(done, total int) {
	text := b.name
	if words := map[dag.DrainWait]string{
		dag.WaitSlow: "a receiver asked for a rest", dag.WaitInFlight: "waiting for replays to end", dag.WaitCanary: "waiting for the canary's ends",
	}[b.wait]; words != "" {
		text += " (" + words + ")"
	}
	if b.writer != nil {
		b.tracker.UpdateMessage(text)
		b.tracker.UpdateTotal(int64(total))
		b.tracker.SetValue(int64(done))
		return
	}
	if now := b.s.env.Clock.Now(); now.Sub(b.told) >= plainEvery {
		b.told = now
		fmt.Fprintf(b.s.env.Stderr, "%s: %d of %d\n", text, done, total)
	}
}

// stop ends the bar; its last state stays on the screen.
func (b *bar) stop() {
	if b.writer == nil {
		return
	}
	b.tracker.MarkAsDone()
	b.writer.Stop()
	for b.writer.IsRenderInProgress() {
		<-b.s.env.Clock.After(10 * time.Millisecond)
	}
}
