package cli

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/airlock-dag/airlock/cmd/config"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/load"
)

type dagsValidateCmd struct {
	Paths  []string `arg:"" optional:"" name:"path" help:"Files and folders; the DAGs folder when none is given."`
	Strict bool     `help:"Count warnings as errors."`

	AllowUnknownOperators bool `help:"Take operators that Airlock does not have for warnings, and check the rest of their tasks."`
	outputFlag
}

// Run reports all problems and fails when one is an error.
func (c dagsValidateCmd) Run(ctx context.Context, s *session) error {
	cfg, err := s.config()
	if err != nil {
		return err
	}
	paths := c.Paths
	if len(paths) == 0 {
		if err := s.fetch(ctx, true); err != nil {
			return err
		}
		paths = []string{cfg.DagsFolder}
	}
	problems, dags := []dag.Problem{}, 0
	for _, path := range paths {
		more, n, err := s.validate(cfg, s.path(path), c.AllowUnknownOperators)
		if err != nil {
			return err
		}
		problems = append(problems, more...)
		dags += n
	}
	errors, warnings := 0, 0
	for _, p := range problems {
		if p.Severity == dag.SeverityError {
			errors++
		} else {
			warnings++
		}
	}
	if c.Output == "json" || c.Output == "yaml" {
		err = printValue(s.env.Stdout, c.Output, problems)
	} else {
		for _, p := range problems {
			fmt.Fprintln(s.env.Stdout, p)
		}
		_, err = fmt.Fprintf(s.env.Stdout, "%s, %s, %s\n", count(dags, "DAG"), count(errors, "error"), count(warnings, "warning"))
	}
	if err != nil {
		return err
	}
	if errors > 0 || c.Strict && warnings > 0 {
		return errReported
	}
	return nil
}

// validate loads what a path needs and keeps the problems that stand below it,
// with paths as the user would write them. It counts the good DAGs there.
func (s *session) validate(cfg config.Config, path string, anyOperator bool) ([]dag.Problem, int, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, wrong("validate", "give files, folders, or --dags-folder", "%w", err)
	}
	root := path
	if !info.IsDir() {
		if ext := filepath.Ext(path); ext != ".yml" && ext != ".yaml" {
			return nil, 0, wrong("validate", "name .yml and .yaml files, or the folder that holds them", "%s is no DAG file", s.shown(path))
		}
		root = filepath.Dir(path)
	}
	// Defaults are inherited down from the DAGs folder: a path inside it is read
	// together with what is above it.
	if below(cfg.DagsFolder, path) {
		root = cfg.DagsFolder
	}
	result, err := s.load(root, func(o *load.Options) {
		o.AllowUnknownOperators = anyOperator
		o.Stat = func(path string) (fs.FileInfo, error) {
			if !filepath.IsAbs(path) {
				path = filepath.Join(root, path)
			}
			return os.Stat(path)
		}
	})
	if err != nil {
		return nil, 0, err
	}
	var problems []dag.Problem
	for _, p := range result.Problems {
		full := filepath.Join(root, filepath.FromSlash(p.File))
		if below(path, full) {
			p.File = s.shown(full)
			problems = append(problems, p)
		}
	}
	good := 0
	for _, d := range result.DAGs {
		if below(path, filepath.Join(root, filepath.FromSlash(d.FileLoc))) {
			good++
		}
	}
	return problems, good, nil
}

// below tells whether a path is a folder or stands below it.
func below(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// shown is a path as the user would write it: relative when it is near.
func (s *session) shown(path string) string {
	if s.env.WorkDir != "" && below(s.env.WorkDir, path) {
		if rel, err := filepath.Rel(s.env.WorkDir, path); err == nil {
			return rel
		}
	}
	return path
}

// count is a number with its noun: "1 entry", "2 entries".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, what)
}
