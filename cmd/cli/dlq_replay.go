package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/cmd/app"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/replay"
)

// highPoison is the share of poison in a dry run from which on it is called out.
const highPoison = 0.1

type dlqReplayCmd struct {
	letterMatch
	Where       string  `placeholder:"EXPR" help:"Only letters for which this holds, such as: payload.codec == \"h264\" and attempt_count > 2."`
	Apply       bool    `help:"Do it. Without it nothing is changed."`
	Rate        string  `default:"50/s" placeholder:"N/s" help:"How many letters are put back in a second (or 10/m); 0 for no limit."`
	Burst       int     `default:"1" help:"How many of them may be put back at once."`
	MaxInFlight int     `name:"max-in-flight" placeholder:"N" help:"How many may be on their way and not ended; 0 for no limit, but one at a time for queues named gpu or gpu.*."`
	Limit       int     `placeholder:"N" help:"Decide about this many letters at most; 0 for all."`
	Canary      int     `placeholder:"N" help:"Put this many back first, wait for their ends, and go on only if all are good."`
	MaxReturns  int     `name:"max-returns" default:"3" help:"A letter whose effect came back more often goes into quarantine."`
	PauseShare  float64 `name:"pause-share" default:"0.5" help:"Pause when more than this share comes back or is poison; 1 for never."`
	NoProbe     bool    `name:"no-probe" help:"Do not ask whether connections, encoders and inputs are there (this machine is not like the workers)."`
	Wait        bool    `help:"Wait until everything that was put back has ended; the exit status is 1 when something came back."`
	outputFlag
}

// Run shows what a replay would do, or does it.
func (c dlqReplayCmd) Run(ctx context.Context, s *session) (err error) {
	r, err := c.request(ctx, s)
	if err != nil {
		return err
	}
	a, err := s.open(ctx, false)
	if err != nil {
		return err
	}
	if err := s.tellUnread(ctx, r.Filter.DagID); err != nil {
		return err
	}
	desk := a.NewDesk(!c.NoProbe)
	defer func() { err = errors.Join(err, desk.Close()) }()
	if !c.Apply {
		return c.dryRun(ctx, s, desk, r)
	}
	d, err := desk.Begin(ctx, r)
	if err != nil {
		return err
	}
	return s.drain(ctx, a, desk, d, c.Wait, c.Output)
}

func (c dlqReplayCmd) request(ctx context.Context, s *session) (replay.Request, error) {
	filter, err := c.match(ctx, s)
	if err != nil {
		return replay.Request{}, err
	}
	rate, err := parseRate(c.Rate)
	return replay.Request{
		Filter: filter, Where: c.Where, Rate: rate, Burst: c.Burst, MaxInFlight: c.MaxInFlight, Limit: c.Limit, Canary: c.Canary,
		MaxReturns: c.MaxReturns, PauseShare: c.PauseShare, Actor: s.actor(),
	}, err
}

// parseRate reads letters a second: 50/s, 10/m, 100/h, 50, 0.
func parseRate(text string) (float64, error) {
	number, unit, _ := strings.Cut(strings.TrimSpace(text), "/")
	per := map[string]float64{"": 1, "s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600}[strings.TrimSpace(unit)]
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || per == 0 || !(n >= 0) || n > 1e9 {
		return 0, wrong("read --rate", "write 50/s, 10/m, 100/h, or 0 for no limit", "%q is no rate", text)
	}
	return n / per, nil
}

func (c dlqReplayCmd) dryRun(ctx context.Context, s *session, desk *app.Desk, r replay.Request) error {
	bar := s.newBar("dry run")
	plan, err := desk.DryRun(ctx, r, bar.set)
	bar.stop()
	if err != nil {
		return err
	}
	if err := printCounts(s, c.Output, plan, plan.DrainCounts); err != nil {
		return err
	}
	for _, reason := range slices.SortedFunc(maps.Keys(plan.Reasons), func(a, b string) int {
		return cmp.Or(plan.Reasons[b]-plan.Reasons[a], cmp.Compare(plan.Samples[a], plan.Samples[b]))
	}) {
		fmt.Fprintf(s.env.Stderr, "%s: %s (letter %d)\n", count(plan.Reasons[reason], "letter"), reason, plan.Samples[reason])
	}
	if plan.Unsure > 0 {
		fmt.Fprintf(s.env.Stderr, "%s not selected, because --where cannot be asked about them: %s\n", count(plan.Unsure, "letter"), plan.WhyUnsure)
	}
	if plan.PoisonShare() > highPoison {
		fmt.Fprintf(s.env.Stderr, "%.0f %% of the letters are poison: the fault does not look fixed\n", 100*plan.PoisonShare())
	}
	if plan.Selected > 0 {
		fmt.Fprintln(s.env.Stderr, "a dry run: nothing was changed; --apply does it")
	}
	return nil
}

// printCounts prints a drain's counts, or whole as JSON or YAML.
func printCounts(s *session, format string, whole any, counts dag.DrainCounts) error {
	return printPairs(s.env.Stdout, format, whole, []pair{
		{"replayed", counts.Replayed}, {"drop_duplicate", counts.DropDuplicate}, {"quarantine", counts.Quarantine},
		{"deferred", counts.Deferred}, {"rejected", counts.Rejected}, {"selected", counts.Sum()},
	})
}

// drainReport is a drain with what came of it, as commands print it.
type drainReport struct {
	dag.Drain
	Selected int              `json:"selected"`
	Outcome  dag.DrainOutcome `json:"outcome"`
	// DoublePublished counts letters that the drain replayed more than once. A
	// unique key keeps it 0.
	DoublePublished int `json:"double_published"`
	// Reasons are why letters were not put back, the most frequent first.
	Reasons []dag.DrainReason `json:"reasons,omitempty"`
	// Joined are groups of letters that were sealed since the drain began and that
	// it would have selected.
	Joined []dag.LetterGroup `json:"joined,omitempty"`
	// MadeBefore says which mapped tasks do not take up what was replayed.
	MadeBefore []string `json:"made_before,omitempty"`
}

// drain works on a drain to its end, shows how it goes, and tells what came of
// it.
func (s *session) drain(ctx context.Context, a *app.App, desk *app.Desk, d dag.Drain, wait bool, format string) error {
	fmt.Fprintf(s.env.Stderr, "drain %s: %s to look at\n", d.ID, count(d.Total, "letter"))
	bar := s.newBar("drain " + d.ID)
	d, err := desk.Run(ctx, d.ID, s.actor(), func(t replay.Tick) {
		total := t.Drain.Total
		if t.Drain.Limit > 0 {
			total = min(total, t.Drain.Limit)
		}
		bar.waiting(t.WaitFor)
		bar.set(t.Drain.Sum(), total)
	})
	if err == nil && wait && ctx.Err() == nil {
		err = s.awaitEnds(ctx, a, d.ID, bar)
	}
	bar.stop()
	if err != nil {
		return err
	}
	report, err := s.report(context.WithoutCancel(ctx), a, desk, d)
	if err != nil {
		return err
	}
	if err := printCounts(s, format, report, d.DrainCounts); err != nil {
		return err
	}
	if err := s.tellDrain(report); err != nil || !wait || report.Outcome.Back == 0 {
		return err
	}
	return errReported // who waited for the ends asked whether they are good
}

// awaitEnds waits until all that a drain put back has ended.
func (s *session) awaitEnds(ctx context.Context, a *app.App, id string, bar *bar) error {
	for {
		ends, err := a.Store().DrainOutcome(ctx, id)
		if err != nil || ends.InFlight == 0 {
			return err
		}
		bar.waiting(dag.WaitInFlight)
		bar.set(ends.Resolved+ends.Back, ends.Resolved+ends.Back+ends.InFlight)
		select {
		case <-ctx.Done():
			return nil
		case <-s.env.Clock.After(200 * time.Millisecond):
		}
	}
}

// report asks what came of a drain.
func (s *session) report(ctx context.Context, a *app.App, desk *app.Desk, d dag.Drain) (drainReport, error) {
	out := drainReport{Drain: d, Selected: d.Sum()}
	var err error
	if out.Outcome, err = a.Store().DrainOutcome(ctx, d.ID); err != nil {
		return out, err
	}
	if out.DoublePublished, err = a.Store().DoublePublished(ctx, d.ID); err != nil {
		return out, err
	}
	if out.Reasons, err = a.Store().DrainReasons(ctx, d.ID); err != nil {
		return out, err
	}
	if out.Joined, err = desk.Joined(ctx, d); err != nil {
		return out, err
	}
	out.MadeBefore, err = madeBefore(ctx, a, d.ID)
	return out, err
}

// tellDrain says in words how a drain ended and what to do next.
func (s *session) tellDrain(r drainReport) error {
	w := s.env.Stderr
	fmt.Fprintf(w, "of %d replayed: %d ended well, %d came back, %d on their way; published twice: %d\n",
		r.Replayed, r.Outcome.Resolved, r.Outcome.Back, r.Outcome.InFlight, r.DoublePublished)
	for _, why := range r.Reasons {
		fmt.Fprintf(w, "%s: %s (letter %d)\n", count(why.Count, "letter"), why.Reason, why.Sample)
	}
	for _, g := range r.Joined {
		fmt.Fprintf(w, "new since it began: %s of %s.%s, %s, fingerprint %s: %s\n",
			count(g.Count, "letter"), g.DagID, g.TaskID, g.ErrorCode, g.Fingerprint, shorten(dag.ShownText(g.Message), 60))
	}
	for _, text := range r.MadeBefore {
		fmt.Fprintln(w, text)
	}
	switch r.State {
	case dag.DrainPaused:
		hint := "look at what came back; `airlock dlq resume %s` goes on in spite of it"
		if strings.HasPrefix(r.Reason, dag.PausedByCircuit) {
			hint = "`airlock circuits list` shows when it is closed again; then `airlock dlq resume %s` goes on"
		}
		fmt.Fprintf(w, "drain %s paused: %s\nhint: "+hint+"\n", r.ID, r.Reason, r.ID)
		return errReported
	case dag.DrainStopped:
		fmt.Fprintf(w, "drain %s stopped after %s: `airlock dlq resume %s` goes on\n", r.ID, count(r.Sum(), "letter"), r.ID)
		return errReported
	case dag.DrainRunning, dag.DrainDone:
	}
	return nil
}

type dlqDrainsCmd struct {
	Limit int `default:"20" help:"How many at most; 0 for all."`
	outputFlag
}

// Run lists drains, the newest first.
func (c dlqDrainsCmd) Run(ctx context.Context, s *session) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	list, err := st.Drains(ctx, noLimit(c.Limit))
	if err != nil {
		return err
	}
	reports := make([]drainReport, len(list))
	for i, d := range list {
		reports[i] = drainReport{Drain: d, Selected: d.Sum()}
		if reports[i].Outcome, err = st.DrainOutcome(ctx, d.ID); err != nil {
			return err
		}
		if reports[i].DoublePublished, err = st.DoublePublished(ctx, d.ID); err != nil {
			return err
		}
	}
	return printRows(s.env.Stdout, c.Output, reports,
		col("id", func(d drainReport) any { return d.ID }),
		col("state", func(d drainReport) any { return string(d.State) }),
		tableCol("begun", func(d drainReport) any { return minute(d.CreatedAt) }),
		plainCol("created_at", func(d drainReport) any { return d.CreatedAt }),
		plainCol("actor", func(d drainReport) any { return d.Actor }),
		col("total", func(d drainReport) any { return d.Total }),
		col("replayed", func(d drainReport) any { return d.Replayed }),
		tableCol("what came of them", func(d drainReport) any {
			return numbers(d.Outcome.Resolved, "ended well", d.Outcome.Back, "came back", d.Outcome.InFlight, "on their way")
		}),
		tableCol("others", func(d drainReport) any {
			return numbers(d.DropDuplicate, "duplicate", d.Quarantine, "quarantine", d.Deferred, "deferred", d.Rejected, "rejected")
		}),
		plainCol("drop_duplicate", func(d drainReport) any { return d.DropDuplicate }),
		plainCol("quarantine", func(d drainReport) any { return d.Quarantine }),
		plainCol("deferred", func(d drainReport) any { return d.Deferred }),
		plainCol("rejected", func(d drainReport) any { return d.Rejected }),
		plainCol("in_flight", func(d drainReport) any { return d.Outcome.InFlight }),
		plainCol("resolved", func(d drainReport) any { return d.Outcome.Resolved }),
		plainCol("back", func(d drainReport) any { return d.Outcome.Back }),
		col("reason", func(d drainReport) any { return d.Reason }),
	)
}

// numbers are numbers with words, those that are not 0.
func numbers(pairs ...any) string {
	var out []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] != 0 {
			out = append(out, fmt.Sprint(pairs[i], " ", pairs[i+1]))
		}
	}
	return strings.Join(out, ", ")
}

type dlqResumeCmd struct {
	Drain   string `arg:"" help:"The drain's id, see dlq drains."`
	NoProbe bool   `name:"no-probe" help:"Do not ask whether connections, encoders and inputs are there."`
	Wait    bool   `help:"Wait until everything that was put back has ended; the exit status is 1 when something came back."`
	outputFlag
}

// Run goes on with a drain at its cursor.
func (c dlqResumeCmd) Run(ctx context.Context, s *session) (err error) {
	a, err := s.open(ctx, false)
	if err != nil {
		return err
	}
	desk := a.NewDesk(!c.NoProbe)
	defer func() { err = errors.Join(err, desk.Close()) }()
	d, err := desk.Resume(ctx, c.Drain)
	if dag.CodeOf(err) == dag.ErrNotFound {
		list, lerr := a.Store().Drains(ctx, 0)
		if lerr != nil {
			return lerr
		}
		known := make([]string, len(list))
		for i := range list {
			known[i] = list[i].ID
		}
		return notFound("drain", c.Drain, known, "`airlock dlq drains` shows their ids")
	}
	if err != nil {
		return err
	}
	return s.drain(ctx, a, desk, d, c.Wait, c.Output)
}
