package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
	"github.com/airlock-dag/airlock/executor"
)

// newSource is where the settings say that DAG files come from.
func (a *App) newSource() executor.Source {
	cfg := a.o.Config
	if cfg.Git.URL == "" {
		return bundle.NewFolder(cfg.DagsFolder)
	}
	o := bundle.GitOptions{
		URL: cfg.Git.URL, Branch: cfg.Git.Branch, Folder: cfg.Git.Folder, Clone: cfg.GitClone(), Interval: cfg.Git.Interval,
		Clock: a.o.Clock, Log: a.o.Log,
	}
	if id := cfg.Git.ConnID; id != "" {
		o.Credentials = func(ctx context.Context) (bundle.GitCredentials, error) {
			c, err := a.settings.Connection(ctx, id)
			if err != nil {
				return bundle.GitCredentials{}, err
			}
			return gitCredentials(c), nil
		}
	}
	return bundle.NewGit(o)
}

// gitCredentials reads a connection as Airflow's git provider writes it.
func gitCredentials(c dag.Connection) bundle.GitCredentials {
	extra := func(key string) string {
		if v, ok := c.Extra[key]; ok && v != nil {
			return fmt.Sprint(v)
		}
		return ""
	}
	strict := strings.ToLower(extra("strict_host_key_checking"))
	return bundle.GitCredentials{
		User: c.Login, Password: c.Password, PrivateKey: extra("private_key"), KeyFile: extra("key_file"),
		Passphrase: extra("private_key_passphrase"), KnownHosts: extra("known_hosts_file"), AnyHostKey: strict == "no" || strict == "false",
	}
}

// keepSource keeps the files of a process that schedules nothing in step with
// their repository until ctx ends: its tasks may need what lies beside them. A
// plain folder needs no keeping.
func (a *App) keepSource(ctx context.Context) {
	git, ok := a.source.(*bundle.Git)
	if !ok {
		return
	}
	changed := git.Watch(ctx, a.o.Clock, a.o.Config.Scheduler.DagsInterval)
	git.Pull(ctx)
	for range changed { // the watch itself sets the files
	}
}
