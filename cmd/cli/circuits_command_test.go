package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/cli"
)

func TestCircuits(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	require.Equal(t, "none\n", h.ok("circuits", "list").stdout)
	h.fails(cli.ExitFailed, []string{"there is none of this name", "--new"}, "circuits", "open", "packager")
	h.ok("circuits", "open", "packager", "--new", "--reason", "maintenance until noon")
	h.fails(cli.ExitFailed, []string{"did you mean packager?"}, "circuits", "close", "packagr")

	list := h.list("circuits", "list")
	require.Len(t, list, 1)
	require.Equal(t, "open", list[0]["state"])
	require.Equal(t, true, list[0]["by_hand"])
	require.Equal(t, "opened by hand (cli:alice): maintenance until noon", list[0]["reason"])
	require.Contains(t, h.ok("circuits", "open", "packager").stdout, "it was open")
	require.InDelta(t, 1, h.list("circuits", "list")[0]["openings"], 0, "still the same opening")

	require.Contains(t, h.ok("circuits", "close", "packager").stdout, "it was open")
	require.Contains(t, h.ok("circuits", "close", "packager").stdout, "closed already")
	require.Equal(t, "closed", h.list("circuits", "list")[0]["state"])
}
