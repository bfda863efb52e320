package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever is drawn is a file that Airlock loads: a comparison does not end
// because its own generator wrote a mistake.
func TestDrawnFilesLoad(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		for _, calm := range []bool{false, true} {
			cases, err := generate(settings{seed: seed + 1, only: -1, steps: 1}, t.TempDir(), "d", 40, calm)
			require.NoError(t, err)
			dags, err := loadOurs(cases)
			require.NoError(t, err, "seed %d", seed+1)
			require.Len(t, dags, 40)
		}
	}
}
