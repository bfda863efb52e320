package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/airlock-dag/airlock/cmd/config"
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

// FindDAGs looks where the DAG files come from before a service starts. A plain
// folder that is the default one is made; another that is not there is refused
// with dag.ErrInvalid, unless the state database knows DAGs already: then it is
// away for a while, and runs in flight go on. A repository that cannot be
// reached is asked again by the service itself.
func (a *App) FindDAGs(ctx context.Context) error {
	cfg := a.o.Config
	if cfg.Git.URL != "" {
		return nil
	}
	info, err := os.Stat(cfg.DagsFolder)
	if err == nil && info.IsDir() {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) && cfg.DagsFolder == config.Default(cfg.Home).DagsFolder {
		if err := os.MkdirAll(cfg.DagsFolder, 0o750); err != nil {
			return &dag.Error{Code: dag.ErrInvalid, Op: "make the DAGs folder", Err: err, Hint: "name another one with --dags-folder"}
		}
		a.o.Log.Info("made the DAGs folder: put DAG files there", "dags_folder", cfg.DagsFolder)
		return nil
	}
	rows, dbErr := a.store.DAGRows(ctx, dag.DAGFilter{})
	if dbErr != nil || len(rows) > 0 {
		return dbErr
	}
	if err == nil {
		err = fmt.Errorf("%s is no folder", cfg.DagsFolder)
	}
	return &dag.Error{
		Code: dag.ErrInvalid, Op: "read the DAGs folder " + cfg.DagsFolder, Err: err, Hint: "make the folder, or name another one with --dags-folder",
	}
}

// FetchDAGs asks the repository of the DAGs now. It fails when it cannot be
// read, also where an earlier state of it is on this machine. A plain folder
// needs no fetching.
func (a *App) FetchDAGs(ctx context.Context) error {
	git, ok := a.source.(*bundle.Git)
	if !ok {
		return nil
	}
	git.Pull(ctx)
	if err := git.Trouble(); err != nil {
		return err
	}
	_, err := git.Scan()
	return err
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
