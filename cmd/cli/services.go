package cli

import (
	"context"
	"strconv"
	"strings"
)

type standaloneCmd struct{}

// Run runs everything in this process until ctx ends.
func (standaloneCmd) Run(ctx context.Context, s *session) error {
	a, err := s.open(ctx, true)
	if err != nil {
		return err
	}
	return a.RunStandalone(ctx)
}

type schedulerCmd struct{}

// Run schedules until ctx ends.
func (schedulerCmd) Run(ctx context.Context, s *session) error {
	a, err := s.open(ctx, true)
	if err != nil {
		return err
	}
	return a.RunScheduler(ctx)
}

type workerCmd struct {
	Queues      []string `short:"q" placeholder:"A,B" help:"The queues to take work from; all when it is not given (worker.queues)."`
	Concurrency int      `short:"c" placeholder:"N" help:"How many tasks run at once (worker.concurrency)."`
}

// Run works until ctx ends.
func (c workerCmd) Run(ctx context.Context, s *session) error {
	if len(c.Queues) > 0 {
		s.flags["worker.queues"] = strings.Join(c.Queues, ",")
	}
	if c.Concurrency != 0 {
		s.flags["worker.concurrency"] = strconv.Itoa(c.Concurrency)
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
