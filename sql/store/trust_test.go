package store

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOnlyWhatWasReliedOnProves: beside processes that change the same runs a
// memory is wrong each time. Between, there are passes, and results whose run is
// read because nothing is remembered of it: they say nothing about the memory, and
// must not keep the number of looks from growing.
func TestOnlyWhatWasReliedOnProves(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), "sqlite:///"+filepath.Join(t.TempDir(), "state.db"), Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	write := func(relies, wrong bool) (trusted bool) {
		t.Helper()
		require.NoError(t, s.writeTrusting(t.Context(), "test", func(_ context.Context, x *tx) error {
			x.relied = relies
			if trusted = trusted || x.trusts; x.trusts && wrong {
				return errOtherwise
			}
			return nil
		}))
		return trusted
	}
	for _, looks := range []int{1, 2, 4, 8} {
		require.True(t, write(true, true))
		for range looks {
			require.False(t, write(true, true))
		}
		require.True(t, write(false, false), "a pass")
	}
	require.True(t, write(true, false), "it was right")
	require.True(t, write(true, true))
	require.False(t, write(true, true))
	require.True(t, write(true, false), "one look, as at first")

	// Nor does a failure that has nothing to do with it.
	require.True(t, write(true, true))
	require.False(t, write(true, true))
	broken := errors.New("broken")
	require.ErrorIs(t, s.writeTrusting(t.Context(), "test", func(_ context.Context, x *tx) error { x.relied = true; return broken }), broken)
	require.True(t, write(true, true))
	require.False(t, write(true, true))
	require.False(t, write(true, true), "twice as many")
}
