package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/airlock-dag/airlock/dag"
)

// poolsCmd groups what is done with pools.
type poolsCmd struct {
	List   poolsListCmd   `cmd:"" help:"List pools and their use."`
	Get    poolsGetCmd    `cmd:"" help:"Show one pool."`
	Set    poolsSetCmd    `cmd:"" help:"Make or change a pool."`
	Delete poolsDeleteCmd `cmd:"" help:"Remove a pool."`
	Import poolsImportCmd `cmd:"" help:"Make or change the pools of a file."`
	Export poolsExportCmd `cmd:"" help:"Write all pools to a file."`
}

func printPools(w io.Writer, format string, pools []dag.Pool) error {
	return printRows(w, format, pools,
		kept(col("name", func(p dag.Pool) any { return p.Name })),
		col("slots", func(p dag.Pool) any { return p.Slots }),
		col("running_slots", func(p dag.Pool) any { return p.Running }),
		col("queued_slots", func(p dag.Pool) any { return p.Queued }),
		col("scheduled_slots", func(p dag.Pool) any { return p.Scheduled }),
		spared(1, col("include_deferred", func(p dag.Pool) any { return p.IncludeDeferred })),
		spared(2, col("description", func(p dag.Pool) any { return p.Description })),
	)
}

type poolsListCmd struct {
	outputFlag
}

// Run lists pools.
func (c poolsListCmd) Run(ctx context.Context, s *session) error {
	pools, err := s.pools(ctx)
	if err != nil {
		return err
	}
	return printPools(s.env.Stdout, c.Output, pools)
}

func (s *session) pools(ctx context.Context) ([]dag.Pool, error) {
	st, err := s.store(ctx)
	if err != nil {
		return nil, err
	}
	return st.Pools(ctx)
}

type poolsGetCmd struct {
	Name string `arg:"" help:"The pool's name."`
	outputFlag
}

// Run shows one pool.
func (c poolsGetCmd) Run(ctx context.Context, s *session) error {
	pools, err := s.pools(ctx)
	if err != nil {
		return err
	}
	for _, p := range pools {
		if p.Name == c.Name {
			return printPools(s.env.Stdout, c.Output, []dag.Pool{p})
		}
	}
	return s.noPool(ctx, c.Name)
}

// noPool is the error for a pool that is not there.
func (s *session) noPool(ctx context.Context, name string) error {
	pools, err := s.pools(ctx)
	if err != nil {
		return err
	}
	names := make([]string, len(pools))
	for i, p := range pools {
		names[i] = p.Name
	}
	return notFound("pool", name, names, "`airlock pools list` shows all")
}

type poolsSetCmd struct {
	Name            string `arg:"" help:"The pool's name."`
	Slots           int    `arg:"" help:"How many slots it has; -1 for no limit, behind a -- (pools set gpu -- -1)."`
	Description     string `arg:"" optional:"" help:"What it is for."`
	IncludeDeferred bool   `name:"include-deferred" help:"Deferred tasks hold slots too."`
}

// Run makes or changes a pool.
func (c poolsSetCmd) Run(ctx context.Context, s *session) error {
	return s.setPools(ctx, []dag.Pool{{Name: c.Name, Slots: c.Slots, Description: c.Description, IncludeDeferred: c.IncludeDeferred}})
}

// setPools checks all pools before it sets the first.
func (s *session) setPools(ctx context.Context, pools []dag.Pool) error {
	for _, p := range pools {
		if p.Slots < -1 {
			return wrong("set pool "+p.Name, "give a number from 0, or -1 for no limit", "%d slots", p.Slots)
		}
	}
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	for _, p := range pools {
		if err := st.SetPool(ctx, p); err != nil {
			return err
		}
		if err := s.audit(ctx, "pool.set", p.Name); err != nil {
			return err
		}
	}
	fmt.Fprintf(s.env.Stdout, "%s set\n", count(len(pools), "pool"))
	return nil
}

type poolsDeleteCmd struct {
	Name string `arg:"" help:"The pool's name."`
}

// Run removes a pool.
func (c poolsDeleteCmd) Run(ctx context.Context, s *session) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	if err := st.DeletePool(ctx, c.Name); err != nil {
		if dag.CodeOf(err) == dag.ErrNotFound {
			return s.noPool(ctx, c.Name)
		}
		return err
	}
	fmt.Fprintf(s.env.Stdout, "pool %s removed\n", c.Name)
	return s.audit(ctx, "pool.delete", c.Name)
}

// poolEntry is a pool in a file, with Airflow's keys.
type poolEntry struct {
	Slots           *int   `json:"slots"`
	Description     string `json:"description"`
	IncludeDeferred bool   `json:"include_deferred"`
}

type poolsImportCmd struct {
	importFlags
}

// Run makes or changes the pools of a file, or none when one is wrong.
func (c poolsImportCmd) Run(ctx context.Context, s *session) error {
	entries, err := c.read(s)
	if err != nil {
		return err
	}
	var pools []dag.Pool
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		var p poolEntry
		if err := json.Unmarshal(entries[name], &p); err != nil || p.Slots == nil {
			return wrong("read pool "+name, `write {"slots": 4, "description": "", "include_deferred": false}`, "it has no number of slots")
		}
		pools = append(pools, dag.Pool{Name: name, Slots: *p.Slots, Description: p.Description, IncludeDeferred: p.IncludeDeferred})
	}
	return s.setPools(ctx, pools)
}

type poolsExportCmd struct {
	exportFlags
}

// Run writes all pools to a file.
func (c poolsExportCmd) Run(ctx context.Context, s *session) error {
	pools, err := s.pools(ctx)
	if err != nil {
		return err
	}
	entries := make(map[string]any, len(pools))
	for _, p := range pools {
		entries[p.Name] = poolEntry{Slots: &p.Slots, Description: p.Description, IncludeDeferred: p.IncludeDeferred}
	}
	return c.write(s, entries, func(name string) (string, error) {
		return "", wrong("write pool "+name, "use json or yaml", "an env file cannot hold pools")
	})
}
