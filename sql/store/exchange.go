package store

import (
	"context"
	"errors"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// Exchange is Apply and Claim in one transaction, so that a busy worker pays for
// one commit where it would pay for two. The results come first: they lock by
// primary key and then wake runs, and the claim after them waits for nothing.
//
// When the database refuses the data of some result, the results are applied
// one by one, as Apply does, and nothing is claimed.
func (s *Store) Exchange(ctx context.Context, results []dag.Result, p dag.ClaimParams) ([]dag.ApplyStatus, []dag.Claim, error) {
	switch {
	case len(results) == 0:
		claims, err := s.Claim(ctx, p)
		return nil, claims, err
	case p.N <= 0:
		status, err := s.Apply(ctx, results)
		return status, nil, err
	}
	for i := range results {
		if err := s.checkResult(&results[i]); err != nil {
			return nil, nil, err
		}
	}
	var status []dag.ApplyStatus
	var claims []dag.Claim
	err := s.write(ctx, "exchange results for work", func(ctx context.Context, t *tx) error {
		var err error
		if status, err = t.apply(ctx, results); err == nil {
			claims, err = t.claim(ctx, p)
		}
		return err
	})
	s.idle.claims.Store(err == nil && len(claims) == 0)
	switch {
	case dialect.LostCommit(err):
		// Both halves can be asked for: a result is recognised by its attempt, a
		// claim by its fence, worker and lease.
		lost := err
		if status, err = s.apply(ctx, results); err == nil {
			claims, err = s.claimed(ctx, claims)
		}
		if err != nil {
			err = errors.Join(lost, err) // what was claimed is still unknown: see Held
		}
	case dialect.ClassOf(err) == dialect.ClassData:
		status, err = s.Apply(ctx, results)
		claims = nil
	}
	if err != nil {
		return nil, nil, err
	}
	return status, claims, nil
}
