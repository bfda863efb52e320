package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/crashpoint"
)

// grammar is the whole command line. Field names and tags are the commands and
// flags that users type.
type grammar struct {
	DagsFolder string `name:"dags-folder" short:"S" placeholder:"DIR" help:"The folder with the DAG files (core.dags_folder)."`
	Git        string `name:"dags-git" placeholder:"URL" help:"The git repository with the DAG files, instead of a folder (core.dags_git)."`
	GitBranch  string `name:"dags-git-branch" placeholder:"NAME" help:"The branch to follow (core.dags_git_branch)."`
	GitFolder  string `name:"dags-git-folder" placeholder:"DIR" help:"The folder of the repository with the DAG files (core.dags_git_folder)."`
	GitEvery   string `name:"dags-git-interval" placeholder:"TIME" help:"The time between two questions for new commits (core.dags_git_interval)."`
	Database   string `placeholder:"DSN" help:"The state database: sqlite:///path or mysql://user:pass@host:3306/db (database.dsn)."`
	LogLevel   string `name:"log-level" placeholder:"LEVEL" help:"debug, info, warn or error (logging.level)."`

	ShowVersion kong.VersionFlag `name:"version" help:"Show the version."`

	Standalone standaloneCmd `cmd:"" group:"run" help:"Run scheduler, worker and callbacks in one process."`
	Scheduler  schedulerCmd  `cmd:"" group:"run" help:"Run the scheduler, the reaper and callbacks."`
	Worker     workerCmd     `cmd:"" group:"run" help:"Run tasks that wait in the queues."`

	Dags      dagsCmd      `cmd:"" group:"work" help:"Validate, list, test, trigger and pause DAGs."`
	Backfill  backfillCmd  `cmd:"" group:"work" help:"Make the runs of a stretch of the past; list backfills."`
	Tasks     tasksCmd     `cmd:"" group:"work" help:"List, test and clear tasks; read their logs."`
	DLQ       dlqCmd       `cmd:"" name:"dlq" group:"work" help:"Look into the dead letters."`
	Merge     mergeCmd     `cmd:"" group:"work" help:"Show what merge steps would do."`
	Watermark watermarkCmd `cmd:"" group:"work" help:"List, set and reset the watermarks of a database."`
	Inputs    inputsCmd    `cmd:"" group:"work" help:"List media inputs that failed, and release them."`
	Import    importCmd    `cmd:"" group:"work" help:"Read what other tools say into DAG files."`
	Classify  classifyCmd  `cmd:"" group:"work" help:"Explain how an error is classified."`
	Circuits  circuitsCmd  `cmd:"" group:"work" help:"Look at circuit breakers, open and close them."`
	Pools     poolsCmd     `cmd:"" group:"settings" help:"Change pools."`
	Variables variablesCmd `cmd:"" group:"settings" help:"Change variables."`
	Conns     connsCmd     `cmd:"" name:"connections" group:"settings" help:"Change connections."`
	DB        dbCmd        `cmd:"" name:"db" group:"settings" help:"Migrate and check the state database."`
	Config    configCmd    `cmd:"" group:"settings" help:"Show the settings."`
	Info      infoCmd      `cmd:"" group:"settings" help:"Show version, folders and the state database."`
	Version   versionCmd   `cmd:"" group:"settings" help:"Show the version."`
}

// errReported is the error of a command that has said everything itself and
// only wants its exit code.
var errReported = errors.New("reported")

// Run runs one command line and returns the exit code: 0 done, 1 failed, 2
// wrong use. It never ends the process.
func Run(ctx context.Context, args []string, env Env) int {
	if env.Clock == nil {
		env.Clock = crashpoint.Clock(dag.SystemClock{})
	}
	var g grammar
	helped := false
	parser, err := kong.New(&g,
		kong.Name("airlock"),
		kong.Description("Runs Airflow-style DAGs written in YAML. Exit codes: 0 done, 1 failed, 2 wrong use."),
		kong.Writers(env.Stdout, env.Stderr),
		kong.Vars{"version": env.Version},
		kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.ExplicitGroups([]kong.Group{
			{Key: "run", Title: "Processes:"}, {Key: "work", Title: "Work:"}, {Key: "settings", Title: "Settings:"},
		}),
	)
	if err != nil {
		fmt.Fprintln(env.Stderr, "airlock: "+err.Error())
		return ExitFailed
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if helped {
		return ExitDone
	}
	if err != nil {
		return wrongUse(env.Stderr, err)
	}
	s := &session{env: env, flags: g.settings()}
	parsed.BindTo(ctx, (*context.Context)(nil))
	err = parsed.Run(s)
	err = errors.Join(err, s.close())
	return exitCode(env.Stderr, err)
}

// settings are the flags that name settings.
func (g *grammar) settings() map[string]string {
	flags := map[string]string{}
	for name, value := range map[string]string{
		"core.dags_folder": g.DagsFolder, "database.dsn": g.Database, "logging.level": g.LogLevel,
		"core.dags_git": g.Git, "core.dags_git_branch": g.GitBranch, "core.dags_git_folder": g.GitFolder, "core.dags_git_interval": g.GitEvery,
	} {
		if value != "" {
			flags[name] = value
		}
	}
	return flags
}

// wrongUse reports a command line that does not fit the grammar.
func wrongUse(w io.Writer, err error) int {
	fmt.Fprintln(w, "airlock: "+err.Error())
	command := "airlock"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		if name := parse.Context.Command(); name != "" {
			command += " " + strings.Join(commandWords(name), " ")
		}
	}
	fmt.Fprintf(w, "hint: `%s --help` shows how it is used\n", command)
	return ExitUsage
}

// commandWords drops the arguments from "dags show <dag>".
func commandWords(name string) []string {
	var words []string
	for _, word := range strings.Fields(name) {
		if !strings.HasPrefix(word, "<") && !strings.HasPrefix(word, "[") {
			words = append(words, word)
		}
	}
	return words
}

// exitCode reports an error, with its hint in a line of its own, and maps it.
func exitCode(w io.Writer, err error) int {
	if err == nil {
		return ExitDone
	}
	if errors.Is(err, errReported) {
		return ExitFailed
	}
	text, hint := err.Error(), ""
	var known *dag.Error
	if errors.As(err, &known) && known.Hint != "" {
		hint = known.Hint
		text = strings.Replace(text, " ("+hint+")", "", 1)
	}
	fmt.Fprintln(w, "airlock: "+text)
	if hint != "" {
		fmt.Fprintln(w, "hint: "+hint)
	}
	if dag.CodeOf(err) == dag.ErrInvalid {
		return ExitUsage
	}
	return ExitFailed
}
