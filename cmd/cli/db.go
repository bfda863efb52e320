package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/airlock-dag/airlock/sql/store"
)

// dbCmd groups what is done with the state database as a whole.
type dbCmd struct {
	Migrate dbMigrateCmd `cmd:"" help:"Bring the schema to this binary's version."`
	Check   dbCheckCmd   `cmd:"" help:"Look for broken promises in the state database."`
	Clean   dbCleanCmd   `cmd:"" help:"Delete old history."`
	Reset   dbResetCmd   `cmd:"" help:"Delete everything in the state database."`
}

// rawStore opens the state database whatever its schema is.
func (s *session) rawStore(ctx context.Context) (*store.Store, error) {
	cfg, err := s.prepared()
	if err != nil {
		return nil, err
	}
	return store.Open(ctx, cfg.Database.Reveal(), store.Options{FernetKey: cfg.FernetKey.Reveal(), Log: s.quietLog(cfg)})
}

type dbMigrateCmd struct {
	Check bool `help:"Only tell whether the schema is this binary's; exit code 1 when it is not."`
}

// Run migrates, or tells whether that is needed.
func (c dbMigrateCmd) Run(ctx context.Context, s *session) (err error) {
	st, err := s.rawStore(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	before, want, err := st.SchemaVersion(ctx)
	if err != nil {
		return err
	}
	if c.Check {
		fmt.Fprintf(s.env.Stdout, "schema version %d, this binary's is %d\n", before, want)
		if before != want {
			return errReported
		}
		return nil
	}
	if err := st.Migrate(ctx); err != nil {
		return err
	}
	if before == want {
		fmt.Fprintf(s.env.Stdout, "schema version %d: nothing to do\n", want)
		return nil
	}
	fmt.Fprintf(s.env.Stdout, "schema version %d -> %d\n", before, want)
	return nil
}
