package app

import (
	"context"
	"errors"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/replay"
	"github.com/airlock-dag/airlock/sql/store"
)

var _ replay.Store = (*store.Store)(nil)

// Desk is the dead-letter desk of an application: the controller with its
// probes. Close it.
type Desk struct {
	*replay.Controller
	probes *probes
}

// Run is Controller.Run. A target that does not answer holds the drain up for a
// while before its letters are deferred: what restarts is soon back.
func (d *Desk) Run(ctx context.Context, id, actor string, tick func(replay.Tick)) (dag.Drain, error) {
	d.probes.patient = true
	return d.Controller.Run(ctx, id, actor, tick)
}

// NewDesk makes a desk. With probing it asks targets, connections and this
// machine's encoders before it puts a letter back; without, a letter is judged
// by the state database and the targets' ledgers alone.
func (a *App) NewDesk(probing bool) *Desk {
	p := &probes{a: a, targets: map[string]*target{}, answers: map[string]answer{}, closed: map[string]bool{}}
	set := replay.Probes{Effects: p, Poison: p, Capabilities: []replay.Capabilities{capability(p.step)}}
	if probing {
		set.Capabilities = append(set.Capabilities, capability(p.paused), capability(p.circuit), capability(p.connections), capability(p.machine))
	}
	return &Desk{
		Controller: replay.New(replay.Options{Store: a.store, Probes: set, Clock: a.o.Clock, IDs: a.o.IDs}),
		probes:     p,
	}
}

// Close closes the connections to targets.
func (d *Desk) Close() error {
	var errs []error
	for _, t := range d.probes.targets {
		if t.db != nil {
			errs = append(errs, t.db.Close())
		}
	}
	return errors.Join(errs...)
}
