package config_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/config"
	"github.com/airlock-dag/airlock/dag"
)

// home makes a home folder with an airlock.yaml, or none for "".
func home(t *testing.T, yaml string) string {
	t.Helper()
	dir := t.TempDir()
	if yaml != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, config.FileName), []byte(yaml), 0o600))
	}
	return dir
}

func TestDefaultsFollowTheHomeFolder(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		environ []string
		want    string
	}{
		"AIRLOCK_HOME":          {[]string{"AIRLOCK_HOME=/srv/airlock", "HOME=/home/a"}, "/srv/airlock"},
		"relative AIRLOCK_HOME": {[]string{"AIRLOCK_HOME=state"}, "/srv/here/state"},
		"quoted tilde":          {[]string{"AIRLOCK_HOME=~/state", "HOME=/home/a"}, "/home/a/state"},
		"HOME alone":            {[]string{"HOME=/home/a"}, "/home/a/airlock"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := config.Load(config.Sources{Environ: tc.environ, WorkDir: "/srv/here"})
			require.NoError(t, err)
			require.Equal(t, config.Default(tc.want), c)
			require.Equal(t, "sqlite:///"+tc.want+"/airlock.db", c.Database.Reveal())
		})
	}
}

func TestNoHomeFolderIsAnErrorWithAHint(t *testing.T) {
	t.Parallel()
	_, err := config.Load(config.Sources{})
	require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))
	require.ErrorContains(t, err, "set AIRLOCK_HOME")
}

func TestFlagsWinOverEnvironmentOverFileOverDefaults(t *testing.T) {
	t.Parallel()
	dir := home(t, `
worker:
  concurrency: 2
  queues: [cpu.metadata, io.upload]
  drain_timeout: 90
scheduler: {interval: 2s, runs_per_pass: 7}
core: {dags_folder: mine}
`)
	c, err := config.Load(config.Sources{
		Environ: []string{"AIRLOCK_HOME=" + dir, "AIRLOCK__WORKER__CONCURRENCY=3", "AIRLOCK__SCHEDULER__INTERVAL=3s"},
		Flags:   map[string]string{"worker.concurrency": "4", "core.dags_folder": "dags"},
		WorkDir: "/srv/here",
	})
	require.NoError(t, err)
	require.Equal(t, 4, c.Worker.Concurrency, "flag")
	require.Equal(t, 3*time.Second, c.Scheduler.Interval, "environment")
	require.Equal(t, 7, c.Scheduler.RunsPerPass, "file")
	require.Equal(t, 90*time.Second, c.Worker.DrainTimeout, "a bare number is seconds")
	require.Equal(t, []string{"cpu.metadata", "io.upload"}, c.Worker.Queues)
	require.Equal(t, 10*time.Second, c.Worker.HeartbeatInterval, "default")
	require.Equal(t, "/srv/here/dags", c.DagsFolder, "a flag's folder starts where the user stands")

	c, err = config.Load(config.Sources{Environ: []string{"AIRLOCK_HOME=" + dir}, WorkDir: "/srv/here"})
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "mine"), c.DagsFolder, "the file's folder starts at home")
}

func TestMistakesAreReportedAtOnceWithTheirPlaces(t *testing.T) {
	t.Parallel()
	dir := home(t, `worker:
  concurency: 2
  lease_duration: soon
  queues: {a: b}
logging:
  level: loud
  level: info
`)
	file := filepath.Join(dir, config.FileName)
	_, err := config.Load(config.Sources{
		Environ: []string{"AIRLOCK_HOME=" + dir, "AIRLOCK__SCHEDULER__INTERVAL=-1s", "AIRLOCK__CORE__DAG_FOLDER=x"},
		Flags:   map[string]string{"worker.concurrency": "many", "database.dsn": "airlock.db"},
	})
	require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))
	for _, want := range []string{
		file + ":2:15: worker.concurency: no setting is named worker.concurency; did you mean worker.concurrency?",
		file + `:3:19: worker.lease_duration is "soon"`,
		file + ":4:11: worker.queues is neither a value nor a list",
		file + `:6:10: logging.level is "loud": use one of debug, info, warn, error`,
		file + ":7:3: logging.level stands there twice",
		`AIRLOCK__SCHEDULER__INTERVAL is "-1s"`,
		"AIRLOCK__CORE__DAG_FOLDER: no setting is named core.dag_folder; did you mean core.dags_folder?",
		`--concurrency is "many"`,
		`--database is "airlock.db", which has no scheme`,
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestBrokenFilesAreErrorsNotPanics(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no mapping":        "- a\n- b\n",
		"section is a list": "worker: [1, 2]\n",
		"unfinished":        "worker: {concurrency: \n",
		"binary":            "\x00\x01\x02",
		"two documents":     "worker: {concurrency: 1}\n---\nworker: {concurrency: 2}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Load(config.Sources{Environ: []string{"AIRLOCK_HOME=" + home(t, text)}})
			require.Equal(t, dag.ErrInvalid, dag.CodeOf(err))
			require.ErrorContains(t, err, config.FileName)
		})
	}
	for name, text := range map[string]string{"empty": "", "comment": "# nothing yet\n", "blank": "\n", "empty section": "worker:\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Load(config.Sources{Environ: []string{"AIRLOCK_HOME=" + home(t, text)}})
			require.NoError(t, err)
		})
	}
}

func TestRelationsBetweenSettingsAreChecked(t *testing.T) {
	t.Parallel()
	dir := home(t, "")
	_, err := config.Load(config.Sources{Environ: []string{"AIRLOCK_HOME=" + dir, "AIRLOCK__WORKER__LEASE_DURATION=15s"}})
	require.ErrorContains(t, err, "a lease must last at least two heartbeats")
	_, err = config.Load(config.Sources{Environ: []string{"AIRLOCK_HOME=" + dir, "AIRLOCK__CORE__DEFAULT_TIMEZONE=Mars/Base"}})
	require.ErrorContains(t, err, "IANA")
}

func TestListTellsValuesSourcesAndHidesSecrets(t *testing.T) {
	t.Parallel()
	dir := home(t, "worker: {concurrency: 2}\n")
	settings, err := config.List(config.Sources{
		Environ: []string{"AIRLOCK_HOME=" + dir, "AIRLOCK__DATABASE__DSN=mysql://me:s3cret@db:3306/airlock", "AIRLOCK__CORE__FERNET_KEY=s3cret"},
		Flags:   map[string]string{"logging.level": "debug"},
	})
	require.NoError(t, err)
	got := map[string][2]string{}
	for _, s := range settings {
		require.NotEmpty(t, s.Doc, s.Name())
		got[s.Name()] = [2]string{s.Value, s.Source}
	}
	require.Equal(t, [2]string{"2", "airlock.yaml"}, got["worker.concurrency"])
	require.Equal(t, [2]string{"mysql://me:***@db:3306/airlock", "AIRLOCK__DATABASE__DSN"}, got["database.dsn"])
	require.Equal(t, [2]string{"***", "AIRLOCK__CORE__FERNET_KEY"}, got["core.fernet_key"])
	require.Equal(t, [2]string{"debug", "flag"}, got["logging.level"])
	require.Equal(t, [2]string{"30s", "default"}, got["worker.lease_duration"])
}

func TestSecretsNeverShow(t *testing.T) {
	t.Parallel()
	c := config.Default("/h")
	c.FernetKey = "hunter2"
	c.Database = "mysql://me:hunter2@db/airlock"
	marshalled, err := json.Marshal(c)
	require.NoError(t, err)
	for _, shown := range []string{fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), fmt.Sprintf("%s %q", c.FernetKey, c.Database), string(marshalled)} {
		require.NotContains(t, shown, "hunter2")
	}
	require.Equal(t, "hunter2", c.FernetKey.Reveal())
	for text, want := range map[string]string{
		"sqlite:///a@b:c.db":       "sqlite:///a@b:c.db",
		"mysql://me@db/x":          "mysql://me@db/x",
		"mysql://me:p@ss:x@db/x@y": "mysql://me:***@db/x@y",
		"not a dsn":                "not a dsn",
	} {
		require.Equal(t, want, config.DSN(text).String())
	}
}

func TestEachSettingIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/settings.md")
	require.NoError(t, err)
	settings, err := config.List(config.Sources{Environ: []string{"AIRLOCK_HOME=/var/lib/airlock"}})
	require.NoError(t, err)
	for _, s := range settings {
		shown := strings.ReplaceAll(s.Value, "/var/lib/airlock", "$AIRLOCK_HOME")
		require.Contains(t, string(page), fmt.Sprintf("| `%s` | %s | %s |\n", s.Name(), code(shown), s.Doc), "docs/settings.md")
	}
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func TestAFileThatIsNotYAMLSaysWhere(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"worker:\n\tconcurrency: 8\n":                 "airlock.yaml:2:1: a tab stands in the indentation",
		"worker: {concurrency: 8\ncore: {a: b}\n":     "not YAML: ",
		"worker:\n  concurrency: 8\n   queues: [a]\n": "airlock.yaml:3:",
	} {
		_, err := config.Load(config.Sources{Environ: []string{"AIRLOCK_HOME=" + home(t, content)}})
		require.ErrorContains(t, err, want, content)
	}
}
