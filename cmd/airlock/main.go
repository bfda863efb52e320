// Command airlock runs Airflow-style DAGs written in YAML; see package cli.
package main

import (
	"context"
	"os"
	"os/signal"
	"os/user"
	"syscall"

	"golang.org/x/term"

	"github.com/airlock-dag/airlock/cmd/cli"
	"github.com/airlock-dag/airlock/dag"
)

var version = "dev" // the build sets it

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // a closed terminal ends it in order; nohup keeps it going
		signal.Notify(signals, syscall.SIGHUP)
	}
	ctx, stop := context.WithCancel(context.Background())
	go stopOn(signals, dag.SystemClock{}, stop, func() { signal.Stop(signals) })
	env := cli.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(),
		Terminal: term.IsTerminal(int(os.Stdout.Fd())), Version: version,
	}
	env.WorkDir, _ = os.Getwd()
	if who, err := user.Current(); err == nil {
		env.User = who.Username
	}
	os.Exit(cli.Run(ctx, os.Args[1:], env))
}
