package cli

import (
	"context"
	"strconv"
	"strings"
)

// metricsFlag is the flag of the processes that can serve metrics.
type metricsFlag struct {
	MetricsAddress string `name:"metrics-address" placeholder:"HOST:PORT" help:"Where /metrics and /health are served, or off (metrics.address)."`
}

// apply lays the flag over the settings.
func (f metricsFlag) apply(s *session) {
	if f.MetricsAddress != "" {
		s.flags["metrics.address"] = f.MetricsAddress
	}
}

type standaloneCmd struct {
	metricsFlag
}

// Run runs everything in this process until ctx ends.
func (c standaloneCmd) Run(ctx context.Context, s *session) error {
	c.apply(s)
	a, err := s.open(ctx, true)
	if err != nil {
		return err
	}
	if err := a.FindDAGs(ctx); err != nil {
		return err
	}
	return a.RunStandalone(ctx)
}

type schedulerCmd struct {
	metricsFlag
}

// Run schedules until ctx ends.
func (c schedulerCmd) Run(ctx context.Context, s *session) error {
	c.apply(s)
	a, err := s.open(ctx, true)
	if err != nil {
		return err
	}
	if err := a.FindDAGs(ctx); err != nil {
		return err
	}
	return a.RunScheduler(ctx)
}

type workerCmd struct {
	metricsFlag
	Queues      *string `short:"q" placeholder:"A,B" help:"The queues to take work from; all when it is not given (worker.queues)."`
	Concurrency *int    `short:"c" placeholder:"N" help:"How many tasks run at once (worker.concurrency)."`
}

// Run works until ctx ends.
func (c workerCmd) Run(ctx context.Context, s *session) error {
	c.apply(s)
	if c.Queues != nil {
		for q := range strings.SplitSeq(*c.Queues, ",") {
			if strings.TrimSpace(q) == "" { // an unset variable of a script must not mean all queues
				return wrong("worker", "name the queues, or leave --queues out for all", "a name of --queues is empty")
			}
		}
		s.flags["worker.queues"] = *c.Queues
	}
	if c.Concurrency != nil {
		s.flags["worker.concurrency"] = strconv.Itoa(*c.Concurrency)
	}
	a, err := s.open(ctx, true)
	if err != nil {
		return err
	}
	cfg, err := s.config()
	if err != nil {
		return err
	}
	return a.RunWorker(ctx, cfg.Worker.Queues, cfg.Worker.Concurrency)
}
