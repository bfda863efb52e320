package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge"
)

type dbCleanCmd struct {
	Before string   `required:"" placeholder:"DATE" help:"Delete what ended before; a date, or 90d or 12h: older than that."`
	Kinds  []string `name:"only" placeholder:"KIND" help:"Only these: runs, attempts, events, effects, desk, logs; all when it is not given."`
	DryRun bool     `name:"dry-run" help:"Count what would go, and delete nothing."`
	Yes    bool     `short:"y" help:"Do not ask."`
	outputFlag
}

// cleaned is one line of what db clean did.
type cleaned struct {
	Kind    dag.CleanKind `json:"kind"`
	Place   string        `json:"place"`
	Deleted int           `json:"deleted"`
}

// Run counts what would go, asks, and deletes it in small batches.
func (c dbCleanCmd) Run(ctx context.Context, s *session) error {
	for _, kind := range c.Kinds {
		if !slices.Contains(dag.CleanKinds(), dag.CleanKind(kind)) {
			return wrong("read --only", "use runs, attempts, events, effects, desk, logs", "%q is not known", kind)
		}
	}
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	now, err := st.Now(ctx) // this machine's clock may be off, and history would go that is young
	if err != nil {
		return err
	}
	before, err := s.before(now, c.Before)
	if err != nil {
		return err
	}
	if before == nil || before.After(now) {
		return wrong("clean", "give a date in the past", "--before is %s", c.Before)
	}
	would, err := c.clean(ctx, s, *before, true)
	if err != nil || c.DryRun {
		return c.told(s, would, "would_go", err)
	}
	n := 0
	for _, w := range would {
		n += w.Deleted
	}
	if n == 0 {
		return c.print(s, would, "would_go")
	}
	if !c.Yes {
		if err := c.print(s, would, "would_go"); err != nil {
			return err
		}
		if err := s.confirm(fmt.Sprintf("Delete all this from before %s?", before.Format(time.RFC3339))); err != nil {
			return err
		}
	}
	done, err := c.clean(ctx, s, *before, false)
	return c.told(s, done, "deleted", err)
}

// told prints what was counted before an error, if anything: "none" would say that
// there is nothing to delete.
func (c dbCleanCmd) told(s *session, lines []cleaned, title string, err error) error {
	if err != nil && len(lines) == 0 {
		return err
	}
	return errors.Join(c.print(s, lines, title), err)
}

func (c dbCleanCmd) print(s *session, lines []cleaned, title string) error {
	return printRows(s.env.Stdout, c.Output, lines,
		col("kind", func(l cleaned) any { return string(l.Kind) }),
		col("place", func(l cleaned) any { return l.Place }),
		col(title, func(l cleaned) any { return l.Deleted }),
	)
}

func (c dbCleanCmd) clean(ctx context.Context, s *session, before time.Time, dryRun bool) ([]cleaned, error) {
	a, err := s.open(ctx, false)
	if err != nil {
		return nil, err
	}
	cfg, err := s.config()
	if err != nil {
		return nil, err
	}
	var out []cleaned
	cleaner := a.Cleaner(s.quietLog(cfg))
	for _, kind := range dag.CleanKinds() {
		if len(c.Kinds) > 0 && !slices.Contains(c.Kinds, string(kind)) {
			continue
		}
		place := "state database"
		if kind == dag.CleanLogs {
			place = cfg.Logging.Folder
		}
		n, err := cleaner.Clean(ctx, kind, before, dryRun)
		out = append(out, cleaned{kind, place, n})
		if err != nil {
			return out, err
		}
		if kind == dag.CleanEffects {
			more, err := s.cleanTargets(ctx, before, dryRun)
			if out = append(out, more...); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

// cleanTargets deletes old effect keys in every database that a connection names.
func (s *session) cleanTargets(ctx context.Context, before time.Time, dryRun bool) ([]cleaned, error) {
	st, err := s.store(ctx)
	if err != nil {
		return nil, err
	}
	now, err := st.Now(ctx)
	if err != nil {
		return nil, err
	}
	long, err := st.LongEffects(ctx, merge.MaxEffectKey)
	if err != nil {
		return nil, err
	}
	lost, err := st.LostSpans(ctx)
	if err != nil {
		return nil, err
	}
	stays := func(ctx context.Context, old []merge.OldEffect) (map[string]bool, error) {
		keys := make([]string, len(old))
		for i, e := range old {
			keys[i] = e.Key
		}
		open, err := st.OpenEffects(ctx, keys)
		if err != nil {
			return nil, err
		}
		for _, e := range old {
			// A lost worker may have committed it under a key that its letter does not know.
			if at := e.CommittedAt.Time; !at.IsZero() && lost.Has(at) {
				open[e.Key] = true
			}
		}
		for _, key := range long {
			open[merge.EffectKey(key)] = true
		}
		return open, nil
	}
	var out []cleaned
	err = s.eachTarget(ctx, "cleaned", func(id string, db *dialect.DB) error {
		n, err := merge.CleanEffects(ctx, db, now, before, stays, dryRun)
		if n > 0 {
			out = append(out, cleaned{dag.CleanEffects, "connection " + id, n})
		}
		return err
	})
	return out, err
}

type dbResetCmd struct {
	Yes bool `short:"y" help:"Do not ask."`
}

// Run drops everything that Airlock has in the state database.
func (c dbResetCmd) Run(ctx context.Context, s *session) (err error) {
	st, err := s.rawStore(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if !c.Yes {
		if err := s.confirm(fmt.Sprintf("Delete all runs, dead letters, connections and settings in %s?", strings.TrimSpace(st.String()))); err != nil {
			return err
		}
	}
	if err := st.Reset(ctx); err != nil {
		return err
	}
	fmt.Fprintln(s.env.Stdout, "the state database is empty; target databases and logs were left alone")
	return nil
}
