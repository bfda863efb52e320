package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// TestEveryCommandIsDescribed holds docs/commands.md against the grammar, and
// asks each command and flag for a word of help.
func TestEveryCommandIsDescribed(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/commands.md")
	require.NoError(t, err)
	parser, err := kong.New(&grammar{})
	require.NoError(t, err)
	leaves := parser.Model.Leaves(false)
	require.Greater(t, len(leaves), 30)
	for _, leaf := range leaves {
		words := commandWords(leaf.Path())
		require.NotEmpty(t, leaf.Help, words)
		if group := words[0]; group == "pools" || group == "variables" || group == "connections" {
			words = words[1:] // described together
		}
		require.Truef(t, strings.Contains(string(page), "`"+strings.Join(words, " ")), "docs/commands.md does not describe %s", leaf.Path())
		for _, flag := range leaf.Flags {
			require.NotEmpty(t, flag.Help, "%s --%s", words, flag.Name)
		}
		for _, argument := range leaf.Positional {
			require.NotEmpty(t, argument.Help, "%s <%s>", words, argument.Name)
		}
	}
}
