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
	require.Equal(t, "ab", dag.Nearest("aa", []string{"ac", "ab"}), "the first in the alphabet")
}
