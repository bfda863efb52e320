package main

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/airlock-dag/airlock/cmd/app"
	"github.com/airlock-dag/airlock/cmd/config"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
	"github.com/airlock-dag/airlock/dag/load"
)

// compareCorpus compares the structure of the DAGs in given files, each file by
// itself, where both sides load it. Airlock keeps operators that it does not
// have, so that the rest of the file is compared all the same.
func compareCorpus(ctx context.Context, rep *report, flow *airflow, dir, folder string) error {
	if folder == "" {
		return nil
	}
	paths, err := yamlFiles(folder)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	answers, _, err := flow.ask(ctx, dir, nil, paths)
	if err != nil {
		return err
	}
	opts := app.LoadOptions(config.Default(""), app.Operators(), nil, dag.SystemClock{})
	opts.AllowUnknownOperators = true
	for _, path := range paths {
		theirs := answers["file:"+path]
		if theirs == nil || theirs.Error != "" || len(theirs.FileDags) == 0 {
			continue // not a file that dag-factory loads here
		}
		if base := filepath.Base(path); strings.HasPrefix(base, "defaults.") {
			continue // settings, which dag-factory takes for a DAG without tasks
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		res := load.Files([]bundle.File{{Path: filepath.Base(path), Data: data}}, opts)
		if len(res.DAGs) == 0 {
			rep.refused = append(rep.refused, refusal(path, res))
			continue
		}
		for _, d := range res.DAGs {
			if s := theirs.FileDags[d.ID]; s != nil {
				rep.corpus++
				rep.add(compareStructure(d, s)...)
			}
		}
	}
	return nil
}

func yamlFiles(folder string) ([]string, error) {
	abs, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	var out []string
	err = filepath.WalkDir(abs, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && (strings.HasSuffix(path, ".yml") || strings.HasSuffix(path, ".yaml")) {
			out = append(out, path)
		}
		return err
	})
	return out, err
}

// refusal is the first mistake that a file was refused for.
func refusal(path string, res load.Result) string {
	for _, p := range res.Problems {
		if p.Severity == dag.SeverityError {
			return filepath.Base(path) + ": " + p.Message
		}
	}
	return filepath.Base(path) + ": it has no DAG"
}
