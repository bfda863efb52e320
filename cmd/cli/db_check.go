package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge"
)

type dbCheckCmd struct {
	StateOnly bool `help:"Look into the state database only, not into the targets of connections."`
	outputFlag
}

// Run prints each broken rule of the state database and of the targets, and
// fails when there is one.
func (c dbCheckCmd) Run(ctx context.Context, s *session) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	violations, err := st.Check(ctx)
	if err != nil {
		return err
	}
	if !c.StateOnly {
		found, err := s.checkTargets(ctx)
		if err != nil {
			return err
		}
		violations = append(violations, found...)
	}
	if len(violations) == 0 && c.Output == "table" {
		_, err := fmt.Fprintln(s.env.Stdout, "every promise holds")
		return err
	}
	err = printRows(s.env.Stdout, c.Output, violations,
		col("rule", func(v dag.Violation) any { return v.Rule }),
		col("subject", func(v dag.Violation) any { return v.Subject }),
		col("found", func(v dag.Violation) any { return v.Found }),
	)
	if err == nil && len(violations) > 0 {
		err = errReported
	}
	return err
}

// checkTargets proves the accounting in every database that a connection names.
func (s *session) checkTargets(ctx context.Context) ([]dag.Violation, error) {
	var all []dag.Violation
	err := s.eachTarget(ctx, "checked", func(id string, db *dialect.DB) error {
		found, err := merge.Check(ctx, db)
		for _, v := range found {
			v.Subject = id + ": " + v.Subject
			all = append(all, v)
		}
		return err
	})
	return all, err
}

// eachTarget opens every database that a connection names, in the order of the
// connections' ids. One that fails is told of and passed over: it may be away,
// or none that Airlock writes to. done says in the message what was not done.
func (s *session) eachTarget(ctx context.Context, done string, do func(id string, db *dialect.DB) error) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	stored, err := st.Connections(ctx)
	if err != nil {
		return err
	}
	ids := s.environment().ConnectionIDs()
	for _, c := range stored {
		ids = append(ids, c.ID)
	}
	slices.Sort(ids)
	settings := s.environment().Over(st)
	for _, id := range slices.Compact(ids) {
		conn, err := settings.Connection(ctx, id)
		if err == nil && !dialect.Speaks(conn.Type) {
			continue
		}
		if err == nil {
			err = withTarget(ctx, conn, func(db *dialect.DB) error { return do(id, db) })
		}
		if err != nil {
			fmt.Fprintf(s.env.Stderr, "connection %s was not %s: %v\n", id, done, err)
		}
	}
	return nil
}

func withTarget(ctx context.Context, conn dag.Connection, do func(*dialect.DB) error) error {
	db, err := dialect.OpenConnection(ctx, conn, dialect.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	return do(db)
}
