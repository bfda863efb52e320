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
	status, claims, _, err := s.exchange(ctx, results, p, nil)
	return status, claims, err
}

// ExchangeAndSchedule is Exchange with a scheduling pass in between, over the
// runs whose results are written: what follows from them is queued in the same
// transaction, and may be claimed by it. Runs whose decision takes more than a
// look at their tasks are left to Schedule.
//
// When the transaction's outcome is not known, or some result cannot be stored,
// the runs are left as well.
func (s *Store) ExchangeAndSchedule(ctx context.Context, results []dag.Result, p dag.ClaimParams, decide Decide) (
	[]dag.ApplyStatus, []dag.Claim, dag.ScheduleReport, error,
) {
	s.follows.Store(true)
	return s.exchange(ctx, results, p, decide)
}

// exchange is both; decide is nil where the runs are left to others.
func (s *Store) exchange(ctx context.Context, results []dag.Result, p dag.ClaimParams, decide Decide) (
	[]dag.ApplyStatus, []dag.Claim, dag.ScheduleReport, error,
) {
	var status []dag.ApplyStatus
	var claims []dag.Claim
	var report dag.ScheduleReport
	var followed []*passRun
	unlocked := false
	if err := s.checkResults(results); err != nil {
		return nil, nil, report, err
	}
	err := s.writeTrusting(ctx, "exchange results for work", func(ctx context.Context, t *tx) error {
		var good []settled
		var err error
		claims, followed, report = nil, nil, dag.ScheduleReport{Now: t.now}
		if status, good, err = t.applyOnly(ctx, results); err != nil {
			return err
		}
		switch {
		case len(good) == 0:
		case decide == nil:
			err = t.wakeRuns(ctx, runsOf(good))
		default:
			if p.N > 0 {
				t.takes = &p
			}
			report, followed, err = t.follow(ctx, good, decide, p.OnlyRun)
		}
		if err != nil {
			return err
		}
		report.Left = report.Left || t.woke // also where a cleared attempt has stopped
		claims, err = t.takeWork(ctx, p, followed, report.Queued)
		unlocked = t.unlocked
		return err
	})
	if err == nil {
		s.remember(followed)
	} else {
		report, unlocked = dag.ScheduleReport{Left: true}, false
	}
	status, claims, err = s.exchanged(ctx, results, status, claims, err)
	if err != nil || !unlocked || s.db.IsSQLite() || s.cluster || len(claims) >= p.N {
		return status, claims, report, err
	}
	p.N -= len(claims)
	more, err := s.freed(ctx, p, &report)
	if err != nil {
		return nil, nil, report, err
	}
	s.idle.claims.Store(len(claims)+len(more) == 0)
	return status, append(claims, more...), report, nil
}

// ScheduleAndClaim is Schedule and Claim in one transaction, for a process that
// schedules and works: what is due starts in the commit that finds it due. The
// claims count also where the report is an error that says that the outcome is
// not known: the tables were asked.
func (s *Store) ScheduleAndClaim(ctx context.Context, pass dag.SchedulePass, p dag.ClaimParams, decide Decide) ([]dag.Claim, dag.ScheduleReport, error) {
	if report, nothing, err := s.nothingDue(ctx, pass); err != nil || nothing {
		return nil, report, err
	}
	var claims []dag.Claim
	var report dag.ScheduleReport
	var runs []*passRun
	s.follows.Store(true)
	err := s.writeTrusting(ctx, "schedule and claim", func(ctx context.Context, t *tx) error {
		var err error
		claims, t.takes = nil, &p
		if report, runs, err = t.schedule(ctx, pass, decide); err == nil && report.Queued > 0 {
			claims, err = t.takeWork(ctx, p, runs, report.Queued)
		}
		return err
	})
	s.scheduled(report, runs, err)
	if lost := err; dialect.LostCommit(lost) {
		if claims, err = s.claimed(ctx, claims); err != nil {
			return nil, report, errors.Join(lost, err)
		}
		return claims, report, lost
	}
	if err != nil {
		return nil, report, err
	}
	return claims, report, nil
}

// takeWork gives what was started already, and claims for what is left of the
// worker's room unless that is known to find nothing: all that the pass gave a
// slot has started.
func (t *tx) takeWork(ctx context.Context, p dag.ClaimParams, followed []*passRun, queued int) ([]dag.Claim, error) {
	known := make(map[int64]dag.Run, len(followed))
	for _, r := range followed {
		known[r.run.ID] = r.run
	}
	claims, err := t.s.claims(ctx, t, t.starts, known)
	if p.N -= len(claims); err != nil || p.N <= 0 || len(claims) > 0 && len(claims) == queued {
		return claims, err
	}
	more, err := t.claim(ctx, p, known)
	if t.stands != nil {
		t.stands.drained = len(more) < p.N
	}
	return append(claims, more...), err
}

func (s *Store) checkResults(results []dag.Result) error {
	for i := range results {
		if err := s.checkResult(&results[i]); err != nil {
			return err
		}
	}
	return nil
}

// exchanged settles what a transaction of an exchange came to.
func (s *Store) exchanged(ctx context.Context, results []dag.Result, status []dag.ApplyStatus, claims []dag.Claim, err error) ([]dag.ApplyStatus, []dag.Claim, error) {
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
