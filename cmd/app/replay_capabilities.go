package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/replay"
)

// capability turns a function into a replay.Capabilities.
type capability func(ctx context.Context, c *dag.ReplayCase) (string, error)

// Missing implements replay.Capabilities.
func (f capability) Missing(ctx context.Context, c *dag.ReplayCase) (string, error) { return f(ctx, c) }

// step tells whether the letter's step can be run at all: who took it out of the
// file does not want it done.
func (p *probes) step(ctx context.Context, c *dag.ReplayCase) (string, error) {
	def, err := p.a.store.Version(ctx, c.Instance.VersionID)
	switch {
	case dag.CodeOf(err) == dag.ErrNotFound:
		return "the DAG's version is not in the database any more", nil
	case err != nil:
		return "", err
	case def.Task(c.Letter.TaskID) == nil:
		return "the DAG has no such task any more", nil
	}
	return p.once("step "+c.Letter.DagID+"/"+c.Letter.TaskID, func() (string, error) {
		rows, err := p.a.store.DAGRows(ctx, dag.DAGFilter{IDs: []string{c.Letter.DagID}})
		if err != nil || len(rows) == 0 {
			return "", err
		}
		newest, err := p.a.store.Version(ctx, rows[0].VersionID)
		switch {
		case dag.CodeOf(err) == dag.ErrNotFound:
			return "", nil
		case err != nil || newest.Task(c.Letter.TaskID) != nil:
			return "", err
		}
		return fmt.Sprintf("DAG %s has no task %s any more: put it back, or resolve the letter", c.Letter.DagID, c.Letter.TaskID), nil
	})
}

// paused tells whether nothing of the letter's DAG would run.
func (p *probes) paused(ctx context.Context, c *dag.ReplayCase) (string, error) {
	return p.once("dag "+c.Letter.DagID, func() (string, error) {
		rows, err := p.a.store.DAGRows(ctx, dag.DAGFilter{IDs: []string{c.Letter.DagID}})
		if err != nil || len(rows) == 0 || !rows[0].IsPaused {
			return "", err
		}
		return fmt.Sprintf("DAG %s is paused: nothing of it would run until airlock dags unpause %[1]s", c.Letter.DagID), nil
	})
}

// circuit tells whether a circuit breaker keeps the step from anything that it
// depends on. One that is open from the first defers the letters; one that opens
// while a drain puts them back pauses it.
func (p *probes) circuit(ctx context.Context, c *dag.ReplayCase) (string, error) {
	def, err := p.a.store.Version(ctx, c.Instance.VersionID)
	if err != nil {
		return "", err
	}
	var names []string
	if task := def.Task(c.Letter.TaskID); task != nil && task.Circuit != "" {
		names = append(names, task.Circuit)
	}
	if p.names(def, c) {
		_, args, err := p.args(ctx, c)
		if err != nil {
			return "", err
		}
		for _, id := range connectionIDs(args) {
			conn, err := p.a.settings.Connection(ctx, id)
			if name, ok := conn.Extra["circuit"].(string); err == nil && ok && name != "" {
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		text, err := p.onceFor(circuitFor, "circuit "+name, func() (string, error) {
			open, _, err := p.a.store.CircuitOpen(ctx, name)
			if err != nil || !open {
				return "", err
			}
			return fmt.Sprintf("the circuit %s is open", name), nil
		})
		if err != nil {
			return "", err
		}
		if text == "" {
			p.closed[name] = true
			continue
		}
		if p.patient && p.closed[name] {
			return "", &replay.PauseError{Reason: dag.PausedByCircuit + name + " opened: what the letters need went away again"}
		}
		return text, nil
	}
	return "", nil
}

// names tells whether a letter's step names a connection.
func (p *probes) names(def *dag.DAG, c *dag.ReplayCase) bool {
	if bytes.Contains(c.Letter.Payload, []byte("conn_id")) {
		return true
	}
	if task := def.Task(c.Letter.TaskID); task != nil {
		for key := range task.Args {
			if strings.HasSuffix(key, "conn_id") {
				return true
			}
		}
	}
	return false
}

// connections tells whether the connections of the step are there and answer.
func (p *probes) connections(ctx context.Context, c *dag.ReplayCase) (string, error) {
	def, err := p.a.store.Version(ctx, c.Instance.VersionID)
	if err != nil {
		return "", err
	}
	if !p.names(def, c) {
		return "", nil
	}
	_, args, err := p.args(ctx, c)
	if err != nil {
		return "", err
	}
	for _, id := range connectionIDs(args) {
		t, err := p.target(ctx, id)
		if err != nil {
			return "", err
		}
		if t.trouble != "" {
			return t.trouble, nil
		}
	}
	return "", nil
}

// inputKeys are arguments that say what a step works on, not how: an answer
// about the machine does not depend on them.
func inputKeys() []string { return []string{"path", "asset", "output_dir"} }

// machine asks the step's operator whether this machine could do it.
func (p *probes) machine(ctx context.Context, c *dag.ReplayCase) (string, error) {
	op, found := p.a.o.Operators.Get(c.Instance.Operator)
	if !found {
		return fmt.Sprintf("this airlock has no operator %s", c.Instance.Operator), nil
	}
	prober, ok := op.(operator.Prober)
	if !ok {
		return "", nil
	}
	def, args, err := p.args(ctx, c)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(p.a.o.Config.DagsFolder, filepath.Dir(filepath.FromSlash(def.FileLoc)))
	how := maps.Clone(args)
	for _, key := range inputKeys() {
		delete(how, key)
	}
	raw, err := json.Marshal(how)
	if err != nil {
		return "", err
	}
	missing, err := p.once("machine "+c.Instance.Operator+dir+string(raw), func() (string, error) { return prober.Missing(ctx, args, dir) })
	if err != nil || missing != "" {
		return missing, err
	}
	return prober.InputGone(args, dir), nil
}
