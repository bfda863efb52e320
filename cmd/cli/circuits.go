package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/breaker"
)

// circuitsCmd groups what is done with circuit breakers.
type circuitsCmd struct {
	List  circuitsListCmd  `cmd:"" help:"List the circuit breakers that tasks have used, and how their calls went."`
	Open  circuitsOpenCmd  `cmd:"" help:"Hold a breaker open: tasks that need it wait until it is closed by hand."`
	Close circuitsCloseCmd `cmd:"" help:"Close a breaker: tasks go on at once."`
}

type circuitsListCmd struct {
	outputFlag
}

// Run lists the breakers.
func (c circuitsListCmd) Run(ctx context.Context, s *session) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	list, err := st.Circuits(ctx, true)
	if err != nil {
		return err
	}
	return printRows(s.env.Stdout, c.Output, list,
		col("name", func(c dag.Circuit) any { return c.Name }),
		col("state", func(c dag.Circuit) any { return c.State }),
		col("by_hand", func(c dag.Circuit) any { return c.ByHand }),
		col("openings", func(c dag.Circuit) any { return c.Openings }),
		col("calls", func(c dag.Circuit) any { return c.Window.Calls }),
		col("failures", func(c dag.Circuit) any { return c.Window.Failures }),
		col("opened_at", func(c dag.Circuit) any { return c.OpenedAt }),
		col("retry_at", func(c dag.Circuit) any { return c.RetryAt }),
		col("reason", func(c dag.Circuit) any { return c.Reason }),
	)
}

type circuitsOpenCmd struct {
	Name   string `arg:"" help:"The circuit's name."`
	Reason string `help:"Why, for the audit log and the alert."`
	New    bool   `help:"Take a name that no task has used yet."`
}

// Run holds a breaker open.
func (c circuitsOpenCmd) Run(ctx context.Context, s *session) error {
	if !c.New {
		if err := s.knownCircuit(ctx, c.Name); err != nil {
			return err
		}
	}
	before, err := s.stepCircuit(ctx, "circuit.open", c.Name, c.Reason, func(b dag.Circuit, now time.Time) dag.Circuit {
		return breaker.OpenByHand(b, s.byHand("opened", c.Reason), now)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(s.env.Stdout, "circuit %s is open and stays so (it was %s); `airlock circuits close %s` ends it\n", c.Name, before.State, c.Name)
	return nil
}

type circuitsCloseCmd struct {
	Name   string `arg:"" help:"The circuit's name."`
	Reason string `help:"Why, for the audit log and the alert."`
}

// Run closes a breaker and forgets its window.
func (c circuitsCloseCmd) Run(ctx context.Context, s *session) error {
	if err := s.knownCircuit(ctx, c.Name); err != nil {
		return err
	}
	before, err := s.stepCircuit(ctx, "circuit.close", c.Name, c.Reason, func(b dag.Circuit, _ time.Time) dag.Circuit {
		if b.State == dag.CircuitClosed {
			return b
		}
		return breaker.CloseByHand(b, s.byHand("closed", c.Reason))
	})
	if err != nil {
		return err
	}
	if before.State == dag.CircuitClosed {
		fmt.Fprintf(s.env.Stdout, "circuit %s was closed already\n", c.Name)
		return nil
	}
	fmt.Fprintf(s.env.Stdout, "circuit %s is closed (it was %s)\n", c.Name, before.State)
	return nil
}

// byHand is the reason of a change that a person made.
func (s *session) byHand(what, reason string) string {
	text := what + " by hand (" + s.actor() + ")"
	if reason != "" {
		text += ": " + reason
	}
	return text
}

// stepCircuit makes a person's step of a breaker, with its audit entry and its
// alerts in the same transaction.
func (s *session) stepCircuit(
	ctx context.Context, action, name, reason string, step func(b dag.Circuit, now time.Time) dag.Circuit,
) (before dag.Circuit, err error) {
	st, err := s.store(ctx)
	if err != nil {
		return before, err
	}
	detail, err := json.Marshal(map[string]string{"reason": reason})
	if err != nil {
		return before, err
	}
	before, _, err = st.UpdateCircuit(ctx, dag.CircuitUpdate{
		Name: name, Window: time.Minute, Audit: &dag.AuditEntry{Actor: s.actor(), Action: action, Subject: name, Detail: detail},
		Decide: func(b dag.Circuit, _ dag.CircuitWindow, now time.Time) (dag.Circuit, []dag.Event) {
			if b.Policy.Window == 0 { // nobody has used it yet
				b.Policy = dag.DefaultCircuitPolicy()
			}
			next := step(b, now)
			next.Name = name
			return next, dag.CircuitEvents(b, next, now)
		},
	})
	return before, err
}

// knownCircuit refuses a name that no task has used: it may be misspelt.
func (s *session) knownCircuit(ctx context.Context, name string) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	list, err := st.Circuits(ctx, false)
	if err != nil {
		return err
	}
	names := make([]string, len(list))
	for i, c := range list {
		if c.Name == name {
			return nil
		}
		names[i] = c.Name
	}
	return notFound("circuit", name, names, "`airlock circuits list` shows those that tasks have used; `circuits open --new` takes any")
}
