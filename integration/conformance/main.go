package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"

	"github.com/airlock-dag/airlock/dag"
)

// settings of a comparison.
type settings struct {
	seed     uint64
	dags     int
	steps    int
	engine   int
	cache    string
	python   string
	corpus   string
	only     int
	keep     string
	parallel int
}

func main() {
	var o settings
	flag.Uint64Var(&o.seed, "seed", 0, "seed of the random DAGs; 0 draws one and prints it")
	flag.IntVar(&o.dags, "dags", 1000, "how many random DAGs")
	flag.IntVar(&o.steps, "steps", 50, "how many runs of each DAG's schedule")
	flag.IntVar(&o.engine, "engine", 30, "how many of the DAGs also run through the engine, with their real steps")
	flag.StringVar(&o.cache, "cache", defaultCache(), "folder that keeps the virtual environment")
	flag.StringVar(&o.python, "python", "python3", "interpreter that makes the virtual environment")
	flag.StringVar(&o.corpus, "corpus", "", "folder of DAG files whose structure is compared too")
	flag.IntVar(&o.only, "only", -1, "compare this DAG alone, by its number")
	flag.StringVar(&o.keep, "keep", "", "folder to leave the DAG files and answers in; the answers to the same questions count the next time")
	flag.IntVar(&o.parallel, "parallel", max(1, runtime.NumCPU()), "how many processes answer for Airflow")
	flag.Parse()
	if o.seed == 0 {
		o.seed = uint64(dag.SystemClock{}.Now().UnixNano())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ok, err := compare(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
	}
	if err != nil || !ok {
		os.Exit(1) //nolint:gocritic // stop() only takes back a signal handler
	}
}

func defaultCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ".airlock-conformance"
	}
	return filepath.Join(dir, "airlock-conformance")
}
