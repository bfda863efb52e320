package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/airlock-dag/airlock/dag"
)

// Pools implements Desk.
func (s *Store) Pools(ctx context.Context) ([]dag.Pool, error) {
	var rows []struct {
		Name            string `db:"name"`
		Slots           int    `db:"slots"`
		Description     string `db:"description"`
		IncludeDeferred bool   `db:"include_deferred"`
	}
	if err := s.db.Reader().SelectContext(ctx, &rows, "SELECT name, slots, description, include_deferred FROM pool ORDER BY name"); err != nil {
		return nil, fmt.Errorf("list pools: %w", err)
	}
	var used, replays []struct {
		Pool  string `db:"pool"`
		State string `db:"state"`
		Slots int    `db:"slots"`
	}
	if err := s.db.Reader().SelectContext(ctx, &used, `SELECT pool, state, SUM(pool_slots) AS slots FROM task_instance
 WHERE state IN ('scheduled', 'queued', 'running', 'restarting') GROUP BY pool, state`); err != nil {
		return nil, fmt.Errorf("list pools: %w", err)
	}
	// A replay takes a slot here besides those of its own pool.
	if err := s.db.Reader().SelectContext(ctx, &replays, `SELECT '`+dag.ReplayPool+`' AS pool, state, COUNT(*) AS slots FROM task_instance
 WHERE state IN ('scheduled', 'queued', 'running', 'restarting') AND replaying = 1 GROUP BY state`); err != nil {
		return nil, fmt.Errorf("list pools: %w", err)
	}
	used = append(used, replays...)
	out := make([]dag.Pool, len(rows))
	for i, r := range rows {
		p := dag.Pool{Name: r.Name, Slots: r.Slots, Description: r.Description, IncludeDeferred: r.IncludeDeferred}
		for _, u := range used {
			if u.Pool != r.Name {
				continue
			}
			switch dag.State(u.State) {
			case dag.StateScheduled:
				p.Scheduled += u.Slots
			case dag.StateQueued:
				p.Queued += u.Slots
			default:
				p.Running += u.Slots
			}
		}
		out[i] = p
	}
	return out, nil
}

// SetPool implements Desk. Instances that wait get what a larger pool gives.
func (s *Store) SetPool(ctx context.Context, p dag.Pool) error {
	fail := func(what string) error {
		return &dag.Error{Code: dag.ErrInvalid, Op: "pool " + p.Name, Err: errors.New(what)}
	}
	switch {
	case p.Name == "" || len([]rune(p.Name)) > 250:
		return fail("a pool's name has 1 to 250 characters")
	case p.Slots < -1:
		return fail(fmt.Sprintf("slots is %d; it is -1 for no limit, or 0 and more", p.Slots))
	}
	return s.write(ctx, "set pool "+p.Name, func(ctx context.Context, t *tx) error {
		// Runs come before pools, as in a pass: see DESIGN.md.
		var runs []int64
		if err := t.SelectContext(ctx, &runs, "SELECT DISTINCT dag_run_id FROM task_instance WHERE state = 'scheduled' AND pool = ? ORDER BY dag_run_id",
			p.Name); err != nil {
			return err
		}
		if err := t.wakeRuns(ctx, runs); err != nil {
			return err
		}
		if err := t.changePools(ctx); err != nil {
			return err
		}
		_, err := t.exec(ctx, "INSERT INTO pool (name, slots, description, include_deferred) VALUES (?, ?, ?, ?)"+
			s.db.Upsert([]string{"name"}, []string{"slots", "description", "include_deferred"}),
			p.Name, p.Slots, clean(p.Description), boolInt(p.IncludeDeferred))
		return err
	})
}

// DeletePool implements Desk. Instances that wait for it stay scheduled until it
// is made again.
func (s *Store) DeletePool(ctx context.Context, name string) error {
	if name == dag.DefaultPool || name == dag.ReplayPool {
		return &dag.Error{Code: dag.ErrConflict, Op: "delete pool " + name, Err: errors.New("it exists always"), Hint: "its slots can be changed"}
	}
	return s.write(ctx, "delete pool "+name, func(ctx context.Context, t *tx) error {
		if err := t.changePools(ctx); err != nil {
			return err
		}
		return t.deleteOne(ctx, "pool "+name, "DELETE FROM pool WHERE name = ?", name)
	})
}

// deleteOne deletes what must be there.
func (t *tx) deleteOne(ctx context.Context, what, query string, args ...any) error {
	n, err := t.exec(ctx, query, args...)
	if err == nil && n == 0 {
		return &dag.Error{Code: dag.ErrNotFound, Op: what, Err: errors.New("there is none")}
	}
	return err
}
