package app

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge"
)

// answersFor is how long an answer of a probe holds, circuitFor that about a
// circuit breaker; targetTimeout bounds how
// long a target may take to answer at all; targetPatience is how long a drain
// waits for one that does not.
const (
	answersFor     = 15 * time.Second
	circuitFor     = time.Second
	targetTimeout  = 5 * time.Second
	targetPatience = 30 * time.Second
)

// probes ask what lies outside the state database. They are used by one drain
// at a time.
type probes struct {
	a       *App
	targets map[string]*target
	answers map[string]answer
	// patient waits for targets that do not answer.
	patient bool
	// closed are the circuits that were seen closed.
	closed map[string]bool
}

type answer struct {
	text string
	at   time.Time
}

// target is a database behind a connection; trouble says why it cannot be
// asked, since when it does not answer.
type target struct {
	db      *dialect.DB
	trouble string
	at      time.Time
	since   time.Time
}

// once keeps what a question was answered.
func (p *probes) once(key string, ask func() (string, error)) (string, error) {
	return p.onceFor(answersFor, key, ask)
}

// onceFor is once for an answer that holds another while.
func (p *probes) onceFor(holds time.Duration, key string, ask func() (string, error)) (string, error) {
	now := p.a.o.Clock.Now()
	if known, ok := p.answers[key]; ok && now.Sub(known.at) < holds {
		return known.text, nil
	}
	text, err := ask()
	if err != nil {
		return "", err
	}
	p.answers[key] = answer{text, now}
	return text, nil
}

// args are the arguments of a letter's step as far as they are known: what the
// DAG's file says, under what the letter's payload has. Those that still hold a
// template are left out.
func (p *probes) args(ctx context.Context, c *dag.ReplayCase) (def *dag.DAG, args map[string]any, err error) {
	def, err = p.a.store.Version(ctx, c.Instance.VersionID)
	if err != nil {
		return nil, nil, err
	}
	args = map[string]any{}
	if task := def.Task(c.Letter.TaskID); task != nil {
		maps.Copy(args, task.Args)
	}
	payload := map[string]any{}
	if json.Unmarshal(c.Letter.Payload, &payload) == nil {
		maps.Copy(args, payload)
	}
	maps.DeleteFunc(args, func(_ string, v any) bool {
		raw, err := json.Marshal(v)
		return err != nil || strings.Contains(string(raw), "{{") || strings.Contains(string(raw), "{%")
	})
	return def, args, nil
}

// connectionIDs are the connections that a step names, sorted.
func connectionIDs(args map[string]any) []string {
	var ids []string
	for key, v := range args {
		if id, ok := v.(string); ok && id != "" && (key == "conn_id" || strings.HasSuffix(key, "_conn_id")) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Done implements replay.Effects: it asks the ledger in the target of each SQL
// step.
func (p *probes) Done(ctx context.Context, cases []dag.ReplayCase) (map[int64]string, error) {
	byConn := map[string][]int{}
	for i := range cases {
		c := &cases[i]
		if c.Instance.ID == 0 || (c.Instance.Operator != "merge" && c.Instance.Operator != "sql") {
			continue
		}
		_, args, err := p.args(ctx, c)
		if dag.CodeOf(err) == dag.ErrNotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, id := range connectionIDs(args) {
			byConn[id] = append(byConn[id], i)
		}
	}
	out := map[int64]string{}
	for _, id := range slices.Sorted(maps.Keys(byConn)) {
		t, err := p.target(ctx, id)
		if err != nil {
			return nil, err
		}
		if t.db == nil {
			continue // the capability gate tells
		}
		keys := make([]string, len(byConn[id]))
		for n, i := range byConn[id] {
			keys[n] = cases[i].Letter.IdempotencyKey
		}
		done, err := merge.DoneEffects(ctx, t.db, keys)
		if err != nil {
			if err := p.away(ctx, id, t, err); err != nil {
				return nil, err
			}
			continue
		}
		for _, i := range byConn[id] {
			if done[cases[i].Letter.IdempotencyKey] {
				out[cases[i].Letter.ID] = "its key is in airlock_effect of connection " + id
			}
		}
	}
	return out, nil
}

// target opens the database behind a connection, once in a while. The error is
// set while it is worth waiting for it.
func (p *probes) target(ctx context.Context, id string) (*target, error) {
	now := p.a.o.Clock.Now()
	t := p.targets[id]
	if t != nil && (t.db != nil || t.trouble != "" && now.Sub(t.at) < answersFor) {
		return t, nil
	}
	if t == nil {
		t = &target{}
		p.targets[id] = t
	}
	t.at, t.trouble = now, ""
	conn, err := p.a.settings.Connection(ctx, id)
	switch {
	case dag.CodeOf(err) == dag.ErrNotFound:
		t.trouble = fmt.Sprintf("connection %s is absent", id)
		return t, nil
	case err != nil:
		return nil, err
	case !slices.Contains([]string{"mysql", "mariadb", "sqlite"}, conn.Type):
		return t, nil // no database that could be asked
	}
	t.db, err = dialect.OpenConnection(ctx, conn, dialect.Options{MaxConns: 2, ConnectTimeout: targetTimeout})
	if err == nil {
		t.since = time.Time{}
		return t, nil
	}
	return t, p.away(ctx, id, t, err)
}

// away takes down that a target does not answer. The error is set while it is
// worth waiting for it: a file that is not there, or a setting that is wrong,
// does not mend itself, and as an error it would end the drain.
func (p *probes) away(ctx context.Context, id string, t *target, err error) error {
	now := p.a.o.Clock.Now()
	if t.db != nil {
		_ = t.db.Close()
		t.db = nil
	}
	if t.since.IsZero() {
		t.since = now
	}
	if ctx.Err() != nil || p.patient && dag.CodeOf(err) == dag.ErrInternal && now.Sub(t.since) < targetPatience {
		return fmt.Errorf("connection %s: %w", id, err)
	}
	t.trouble, t.at = fmt.Sprintf("connection %s cannot be used: %v", id, err), now
	return nil
}

// Poisoned implements replay.Poison: a media input that failed too often, in
// whichever task, is not opened again before somebody releases it.
func (p *probes) Poisoned(ctx context.Context, c *dag.ReplayCase) (string, error) {
	hash, limit := c.Letter.AssetSHA256, p.a.o.Config.Worker.MaxInputFailures
	if hash == "" || limit == 0 {
		return "", nil
	}
	return p.once("input "+hash, func() (string, error) {
		inputs, err := p.a.store.MediaInputs(ctx, dag.MediaInputFilter{Hashes: []string{hash}, Limit: 1})
		if err != nil || len(inputs) == 0 || !inputs[0].Poisoned(limit) {
			return "", err
		}
		return fmt.Sprintf("its input failed %d times in all tasks together, the limit is %d", inputs[0].Failures, limit), nil
	})
}
