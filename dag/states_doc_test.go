package dag_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

var update = flag.Bool("update", false, "write docs/states.md anew from the table of transitions")

// meanings says in a sentence what each state is.
func meanings() map[dag.State]string {
	return map[dag.State]string{
		dag.StateNone:            "Waits for its upstream tasks.",
		dag.StateScheduled:       "Ready; waits for a slot in its pool and below the limits of its DAG and task.",
		dag.StateQueued:          "Has a slot; the next free worker of its queue takes it.",
		dag.StateRunning:         "A worker holds it under a lease.",
		dag.StateSuccess:         "Ended well.",
		dag.StateFailed:          "Left the retry loop without success; its dead letter was written in the same transaction.",
		dag.StateSkipped:         "Will not run: a trigger rule, a branch, a short circuit, the step itself, or the end of the run said so.",
		dag.StateUpstreamFailed:  "Will not run: a task that it needs failed.",
		dag.StateUpForRetry:      "Failed with budget left; due again at its next try.",
		dag.StateUpForReschedule: "A sensor that looks again later and holds no worker meanwhile; the same try.",
		dag.StateDeferred:        "Known from Airflow. Airlock reads it and never sets it.",
		dag.StateRemoved:         "Not part of the run any more; counts for nothing.",
		dag.StateRestarting:      "Cleared while it ran; its worker is stopping it.",
	}
}

func statesPage() string {
	var b strings.Builder
	b.WriteString("# States of a task instance\n\n")
	b.WriteString("This page is generated from the table of transitions in package `dag`; " +
		"`go test ./dag -run TestStatesPage -update` writes it anew.\n\n")
	b.WriteString("| state | finished | what it means | may become |\n|---|---|---|---|\n")
	for _, s := range dag.States() {
		finished := ""
		if s.Finished() {
			finished = "yes"
		}
		var next []string
		for _, n := range dag.NextStates(s) {
			next = append(next, string(n))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s, finished, meanings()[s], strings.Join(next, ", "))
	}
	b.WriteString("\nA finished instance stays as it is until somebody clears it.\n\n")
	b.WriteString("## Diagram\n\nClears are left out: they lead back to `none` from everywhere.\n\n```mermaid\nstateDiagram-v2\n")
	b.WriteString("    [*] --> none\n")
	for _, r := range dag.TransitionTable() {
		if r.Why != "cleared" {
			fmt.Fprintf(&b, "    %s --> %s\n", r.From, r.To)
		}
	}
	b.WriteString("```\n\n## Every change\n\nA change that is not in this table is refused.\n\n")
	b.WriteString("| from | to | by | why |\n|---|---|---|---|\n")
	for _, r := range dag.TransitionTable() {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", r.From, r.To, r.By, r.Why)
	}
	b.WriteString("\n`operator` is a person, with `airlock tasks clear`.\n")
	return b.String()
}

func TestStatesPage(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "docs", "states.md")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(statesPage()), 0o644))
	}
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, statesPage(), string(have), "docs/states.md is stale: run go test ./dag -run TestStatesPage -update")
}

func TestTransitionTable(t *testing.T) {
	t.Parallel()
	known := map[dag.State]bool{}
	for _, s := range dag.States() {
		known[s] = true
		require.NotEmpty(t, meanings()[s], s)
	}
	seen := map[[2]dag.State]bool{}
	for _, r := range dag.TransitionTable() {
		require.True(t, known[r.From] && known[r.To], "%s -> %s", r.From, r.To)
		require.False(t, seen[[2]dag.State{r.From, r.To}], "%s -> %s stands twice", r.From, r.To)
		seen[[2]dag.State{r.From, r.To}] = true
		require.NotEqual(t, r.From, r.To)
		require.Contains(t, []string{"scheduler", "worker", "reaper", "operator", "loader"}, r.By)
		require.NotEmpty(t, r.Why)
		if r.From.Finished() {
			require.Equal(t, dag.StateNone, r.To, "a finished instance changes only when it is cleared")
		}
		require.True(t, dag.CanTransition(r.From, r.To))
	}
	require.False(t, dag.CanTransition(dag.StateSuccess, dag.StateFailed))
	require.False(t, dag.CanTransition(dag.StateUpForRetry, dag.StateUpstreamFailed))
	// Two ways out of the retry loop: to a worker again, or out of the run as a whole.
	require.Equal(t, []dag.State{dag.StateNone, dag.StateQueued, dag.StateScheduled, dag.StateSkipped}, dag.NextStates(dag.StateUpForRetry))
}
