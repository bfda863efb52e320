package cli

import (
	"context"
	"fmt"

	"github.com/airlock-dag/airlock/dag"
)

// inputsCmd groups what is done with media inputs that failed.
type inputsCmd struct {
	List    inputsListCmd    `cmd:"" help:"List media inputs that failed, by content."`
	Release inputsReleaseCmd `cmd:"" help:"Let workers open media inputs again."`
}

type inputsListCmd struct {
	All   bool `help:"Also those that are below the limit."`
	Limit int  `default:"100" help:"How many at most; 0 for all."`
	outputFlag
}

// inputShown is a media input with what follows from its count.
type inputShown struct {
	dag.MediaInput
	Sealed bool `json:"sealed"`
}

// Run lists inputs, the ones with the most failures first.
func (c inputsListCmd) Run(ctx context.Context, s *session) error {
	cfg, err := s.config()
	if err != nil {
		return err
	}
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	limit := cfg.Worker.MaxInputFailures
	filter := dag.MediaInputFilter{Limit: noLimit(c.Limit)}
	if !c.All {
		if limit == 0 {
			fmt.Fprintln(s.env.Stderr, "worker.max_input_failures is 0: no input is sealed; --all shows those that failed")
		}
		filter.MinFailures = limit
	}
	inputs, err := st.MediaInputs(ctx, filter)
	if err != nil {
		return err
	}
	shown := []inputShown{}
	for _, m := range inputs {
		if c.All || m.Poisoned(limit) {
			shown = append(shown, inputShown{m, m.Poisoned(limit)})
		}
	}
	return printRows(s.env.Stdout, c.Output, shown,
		col("asset_sha256", func(m inputShown) any { return m.AssetSHA256 }),
		col("failures", func(m inputShown) any { return m.Failures }),
		col("sealed", func(m inputShown) any { return m.Sealed }),
		col("last_error_code", func(m inputShown) any { return m.LastErrorCode }),
		col("last_failed_at", func(m inputShown) any { return m.LastFailedAt }),
		col("last_job_id", func(m inputShown) any { return m.LastJobID }),
		col("released_by", func(m inputShown) any { return m.ReleasedBy }),
	)
}

type inputsReleaseCmd struct {
	Hashes []string `arg:"" name:"asset_sha256" help:"The inputs' hashes."`
	Reason string   `placeholder:"TEXT" help:"Why, for the audit log."`
}

// Run sets the counts of inputs back to 0.
func (c inputsReleaseCmd) Run(ctx context.Context, s *session) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	for _, hash := range c.Hashes {
		if err := st.ReleaseInput(ctx, hash, s.actor(), c.Reason); err != nil {
			return err
		}
		fmt.Fprintf(s.env.Stdout, "%s is released: its failures count from 0\n", hash)
	}
	return nil
}
