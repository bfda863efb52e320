package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/retry"
	"github.com/airlock-dag/airlock/dag/timetable"
	"github.com/airlock-dag/airlock/executor/fault"
)

type tasksRetryCmd struct {
	DagID     string `arg:"" name:"dag" help:"The DAG's id."`
	TaskID    string `arg:"" name:"task" help:"The task's id."`
	Date      string `short:"e" name:"logical-date" placeholder:"DATE" help:"The run's logical date, on which Airflow's delays depend; the next run's when it is not given."`
	FailedAt  string `name:"failed-at" placeholder:"DATE" help:"When the first attempt failed; now when it is not given."`
	ErrorCode string `name:"error-code" placeholder:"CODE" help:"As if every attempt failed with this code."`
	outputFlag
}

// retryLine is one retry; delays are in seconds.
type retryLine struct {
	Retry       int       `json:"retry"`
	Base        float64   `json:"base"`
	Jitter      float64   `json:"jitter"`
	Cap         float64   `json:"cap"`
	Min         float64   `json:"min_delay"`
	Max         float64   `json:"max_delay"`
	EarliestDue time.Time `json:"earliest_due"`
	Due         time.Time `json:"due"`
	Source      string    `json:"source"`
}

// Run lists the retries as if every attempt failed as soon as it started.
func (c tasksRetryCmd) Run(ctx context.Context, s *session) error {
	d, task, err := s.task(ctx, c.DagID, c.TaskID)
	if err != nil {
		return err
	}
	logical, err := s.date(c.Date)
	if err != nil {
		return err
	}
	if logical == nil {
		logical = nextLogicalDate(d, s.env.Clock.Now())
	}
	failed := s.env.Clock.Now()
	if at, err := s.date(c.FailedAt); err != nil {
		return err
	} else if at != nil {
		failed = *at
	}
	policy := task.Retry
	if c.ErrorCode != "" {
		if !fault.Known(c.ErrorCode) {
			fmt.Fprintf(s.env.Stderr, "%s is no code of Airlock's own\n", c.ErrorCode)
		}
		policy.Class, policy.Retries = retry.ClassFor(policy, c.ErrorCode), policy.RetriesFor(c.ErrorCode)
	}
	var lines []retryLine
	for _, p := range retry.Plan(policy, d.ID, task.ID, logical, failed) {
		lines = append(lines, retryLine{
			Retry: p.Retry, Base: p.Base.Seconds(), Jitter: p.Jitter.Seconds(), Cap: p.Cap.Seconds(), Min: p.Min.Seconds(), Max: p.Max.Seconds(),
			EarliestDue: p.EarliestDue, Due: p.Due, Source: p.Source,
		})
	}
	if len(lines) == 0 {
		fmt.Fprintf(s.env.Stderr, "%s has no retries: its first failure seals it\n", task.ID)
	}
	return printRows(s.env.Stdout, c.Output, lines,
		col("retry", func(l retryLine) any { return l.Retry }),
		col("base", func(l retryLine) any { return seconds(l.Base) }),
		col("jitter", func(l retryLine) any { return seconds(l.Jitter) }),
		col("cap", func(l retryLine) any {
			if l.Cap == 0 {
				return nil
			}
			return seconds(l.Cap)
		}),
		col("min_delay", func(l retryLine) any { return seconds(l.Min) }),
		col("max_delay", func(l retryLine) any { return seconds(l.Max) }),
		col("earliest_due", func(l retryLine) any { return l.EarliestDue }),
		col("due", func(l retryLine) any { return l.Due }),
		col("source", func(l retryLine) any { return l.Source }),
	)
}

// nextLogicalDate is the date of the DAG's next run as if it had never run; nil
// when there is none.
func nextLogicalDate(d *dag.DAG, now time.Time) *time.Time {
	t, err := timetable.ForDAG(d)
	if err != nil {
		return nil
	}
	next := t.Next(nil, timetable.RestrictionFor(d), now)
	if next == nil {
		return nil
	}
	return &next.LogicalDate
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}
