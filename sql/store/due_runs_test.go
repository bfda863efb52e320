package store

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

func TestEndedStatesAreThoseThatAreAnEnd(t *testing.T) {
	t.Parallel()
	for _, s := range dag.States() {
		require.Equal(t, s.Finished(), strings.Contains(endedStates, "'"+string(s)+"'"), s)
	}
}
