package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed airflowside/*.py
var sideFiles embed.FS

//go:embed steps.py
var stepsSource []byte

// packages are what the virtual environment gets: the newest that pip finds.
var packages = []string{"apache-airflow-core", "dag-factory"}

// airflow is an installation of Airflow in a folder that is kept.
type airflow struct {
	cache  string
	python string
}

// install makes the virtual environment, once.
func install(ctx context.Context, cache, python string) (*airflow, error) {
	a := &airflow{cache: cache, python: filepath.Join(cache, "venv", "bin", "python")}
	if _, err := os.Stat(filepath.Join(cache, "ready")); err == nil {
		return a, nil
	}
	if err := os.MkdirAll(cache, 0o750); err != nil {
		return nil, err
	}
	fmt.Println("installing Apache Airflow and dag-factory in", cache, "(once; some minutes)")
	install := append([]string{"-m", "pip", "install", "--quiet", "--disable-pip-version-check"}, packages...)
	for _, cmd := range []*exec.Cmd{
		exec.CommandContext(ctx, python, "-m", "venv", filepath.Join(cache, "venv")),
		exec.CommandContext(ctx, a.python, install...),
	} {
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("%s: %w", cmd, err)
		}
	}
	return a, os.WriteFile(filepath.Join(cache, "ready"), nil, 0o600)
}

// request is what the Python side reads.
type request struct {
	Home     string     `json:"home"`
	Template string     `json:"template"`
	Cases    []*dagCase `json:"cases"`
	Corpus   []string   `json:"corpus,omitempty"` // DAG files whose structure alone is asked for
	Side     string     `json:"side"`             // hash of the program that answers
}

// ask has Airflow answer for some DAGs, in one process. Where the folder holds
// the answers to the same questions, they count.
func (a *airflow) ask(ctx context.Context, dir string, cases []*dagCase, corpus []string) (map[string]*answer, versions, error) {
	side := filepath.Join(dir, "airflowside")
	hash, err := writeSide(side)
	if err != nil {
		return nil, versions{}, err
	}
	raw, err := json.Marshal(request{Side: hash, Home: filepath.Join(dir, "home"), Template: filepath.Join(a.cache, "airflow.db"), Cases: cases, Corpus: corpus})
	if err != nil {
		return nil, versions{}, err
	}
	in, out := filepath.Join(dir, "request.json"), filepath.Join(dir, "answers.jsonl")
	if before, err := os.ReadFile(in); err == nil && bytes.Equal(before, raw) {
		if answers, seen, err := readAnswers(out); err == nil && len(answers) == len(cases)+len(corpus) {
			return answers, seen, nil // of an earlier comparison in a folder that is kept
		}
	}
	if err := os.WriteFile(in, raw, 0o600); err != nil {
		return nil, versions{}, err
	}
	cmd := exec.CommandContext(ctx, a.python, filepath.Join(side, "main.py"), in, out)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, versions{}, fmt.Errorf("airflow's side: %w", err)
	}
	return readAnswers(out)
}

// writeSide writes Airflow's side into a folder, and gives its hash.
func writeSide(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	sum := sha256.New()
	err := fs.WalkDir(sideFiles, "airflowside", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := sideFiles.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s %d\n%s", path, len(text), text)
		return os.WriteFile(filepath.Join(dir, entry.Name()), text, 0o600)
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}

// versions are those of the packages that answered.
type versions struct {
	Airflow    string `json:"apache-airflow"`
	DagFactory string `json:"dag-factory"`
	Croniter   string `json:"croniter"`
	Pendulum   string `json:"pendulum"`
}

// answer is what Airflow says of one DAG.
type answer struct {
	DagID     string                `json:"dag_id"`
	Error     string                `json:"error"`
	Trace     string                `json:"trace"`
	Structure *structure            `json:"structure"`
	Runs      []*plannedRun         `json:"runs"`
	Manual    [][2]string           `json:"manual"`
	Retries   []float64             `json:"retries"`
	States    *ending               `json:"states"`
	Scopes    [][]string            `json:"scopes"`
	Campaign  []map[string]*ending  `json:"campaign"`  // after each action, by run
	FileDags  map[string]*structure `json:"file_dags"` // of a corpus file
	Fired     []string              `json:"fired"`     // rules that moved a planned run
}

func readAnswers(path string) (map[string]*answer, versions, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, versions{}, err
	}
	defer f.Close()
	var head struct {
		Versions versions `json:"versions"`
	}
	out := map[string]*answer{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for first := true; lines.Scan(); first = false {
		if first {
			if err := json.Unmarshal(lines.Bytes(), &head); err != nil {
				return nil, versions{}, err
			}
			continue
		}
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			return nil, versions{}, err
		}
		out[a.DagID] = &a
	}
	if len(out) == 0 {
		return nil, versions{}, errors.New("airflow's side gave no answers")
	}
	return out, head.Versions, lines.Err()
}
