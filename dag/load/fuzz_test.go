package load_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
	"github.com/airlock-dag/airlock/dag/load"
)

// FuzzLoad looks for a panic, a hang, and a file that is neither loaded nor
// told about.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yml", "testdata/cases/*.yaml"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	o := options()
	o.LookupEnv = func(name string) (string, bool) { return "[" + name + "]", len(name)%2 == 0 }
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, path := range []string{"d.yml", "defaults.yml", "policies.yml"} {
			res := load.Files([]bundle.File{{Path: path, Data: data}, {Path: "x.yml", Data: []byte("x:\n" + small)}}, o)
			if path == "d.yml" && len(res.DAGs) == 0 && len(res.Problems) == 0 {
				t.Fatal("no DAG and no word about it")
			}
			for _, d := range res.DAGs {
				if d.Hash() == "" || d.Timezone == "" || d.Schedule.Kind == "" || len(d.Tasks) == 0 {
					t.Fatalf("half a DAG: %+v", d)
				}
			}
			for _, p := range res.Problems {
				if p.Code == "" || p.Message == "" || p.File == "" || p.Line < 0 || p.Severity != dag.SeverityError && p.Severity != dag.SeverityWarning {
					t.Fatalf("half a problem: %+v", p)
				}
			}
		}
	})
}
