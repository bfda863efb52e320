package dag_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
)

// up starts a machine for load and check, down stops it; report needs no
// machine, and mark is a setup that nothing tears down.
func machineDAG() *dag.DAG {
	return &dag.DAG{ID: "d", Tasks: []dag.Task{
		{ID: "mark", IsSetup: true},
		{ID: "up", IsSetup: true},
		{ID: "load", Upstream: []string{"mark", "up"}},
		{ID: "check", Upstream: []string{"load"}},
		{ID: "down", Upstream: []string{"up", "check"}, IsTeardown: true},
		{ID: "report", Upstream: []string{"check"}},
		{ID: "mail", Upstream: []string{"report"}},
	}}
}

func TestWhatIsClearedTogether(t *testing.T) {
	t.Parallel()
	g := dag.NewGraph(machineDAG())
	for _, c := range []struct {
		name                 string
		named                []string
		upstream, downstream bool
		want                 []string
	}{
		{"work brings its setups and their teardown", []string{"load"}, false, false, []string{"mark", "up", "load", "down"}},
		{"work further down too", []string{"check"}, false, false, []string{"mark", "up", "check", "down"}},
		{"what branches off keeps only the setup that is never torn down", []string{"report"}, false, false, []string{"mark", "report"}},
		{"downstream", []string{"report"}, false, true, []string{"mark", "report", "mail"}},
		{"upstream", []string{"check"}, true, false, []string{"mark", "up", "load", "check", "down"}},
		{"a setup brings its teardown", []string{"up"}, false, false, []string{"up", "down"}},
		{"a setup without one stands alone", []string{"mark"}, false, false, []string{"mark"}},
		{"a teardown stands alone", []string{"down"}, false, false, []string{"down"}},
		{"both ways", []string{"check"}, true, true, []string{"mark", "up", "load", "check", "down", "report", "mail"}},
		{"no such task", []string{"gone"}, true, true, nil},
	} {
		require.Equal(t, c.want, g.ClearScope(c.named, c.upstream, c.downstream), c.name)
	}
}
