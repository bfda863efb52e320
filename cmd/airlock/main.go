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
)

var version = "dev" // the build sets it

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
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
