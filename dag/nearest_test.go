package dag_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	words := []string{"retries", "retry_delay", "schedule", "queue", "pool", "media_ingest"}
	for word, want := range map[string]string{
		"retires":      "retries",      // two letters swapped
		"retry-delay":  "retry_delay",  // another joint
		"Schedul":      "schedule",     // one dropped, another case
		"media-ingst":  "media_ingest", // one dropped
		"queueue":      "queue",        // two added
		"pol":          "pool",
		"transcode":    "",
		"":             "",
		"x":            "",
		"é":            "",
		"pool":         "pool",
		"media_ingest": "media_ingest",
	} {
		require.Equal(t, want, dag.Nearest(word, words), word)
	}
	require.Empty(t, dag.Nearest("queue", nil))
	require.Empty(t, dag.Nearest("y", []string{"x", "z"}), "nothing is left of the word")
	require.Equal(t, "Y", dag.Nearest("y", []string{"x", "Y"}))
	require.Equal(t, "nightly_orders", dag.Nearest("nightly", []string{"nightly_orders", "hourly"}), "a part")
	require.Equal(t, "bash_command", dag.Nearest("comand", []string{"bash_command", "env", "cwd"}), "a misspelt part")
	require.Empty(t, dag.Nearest("nightly", []string{"nightly_orders", "nightly_stock"}), "which of them?")
	require.Empty(t, dag.Nearest("ds", []string{"ds_start", "env"}), "too short to tell")
	require.Equal(t, "ab", dag.Nearest("aa", []string{"ac", "ab"}), "the first in the alphabet")
}
