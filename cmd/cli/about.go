package cli

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/airlock-dag/airlock/cmd/config"
)

type configCmd struct {
	List configListCmd `cmd:"" help:"List every setting, its value and where it came from."`
}

type configListCmd struct {
	outputFlag
}

// Run lists the settings in force, secrets hidden.
func (c configListCmd) Run(s *session) error {
	settings, err := config.List(s.sources())
	if err != nil {
		return err
	}
	return printRows(s.env.Stdout, c.Output, settings,
		kept(col("setting", func(v config.Setting) any { return v.Name() })),
		col("value", func(v config.Setting) any { return v.Value }),
		col("source", func(v config.Setting) any { return v.Source }),
		spared(1, col("variable", func(v config.Setting) any { return v.Env() })),
	)
}

type infoCmd struct {
	Encoders bool `help:"Try each video encoder on each device with a small encode; takes seconds."`
	outputFlag
}

// info is what `airlock info` tells.
type info struct {
	Version       string `json:"version"`
	Go            string `json:"go"`
	Platform      string `json:"platform"`
	Home          string `json:"home"`
	DagsFolder    string `json:"dags_folder"`
	Logs          string `json:"logs"`
	Database      string `json:"database"`
	SchemaVersion int64  `json:"schema_version"`
	SchemaWanted  int64  `json:"schema_version_wanted"`
	machine
}

// Run tells where everything is; it changes nothing in a MySQL database and
// makes an empty SQLite file at most.
func (c infoCmd) Run(ctx context.Context, s *session) (err error) {
	st, err := s.rawStore(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	cfg, err := s.config()
	if err != nil {
		return err
	}
	have, want, err := st.SchemaVersion(ctx)
	if err != nil {
		return err
	}
	i := info{
		Version: s.env.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Home: cfg.Home, DagsFolder: cfg.DagsFolder, Logs: cfg.Logging.Folder,
		Database: cfg.Database.String(), SchemaVersion: have, SchemaWanted: want,
	}
	if i.machine, err = lookAtMachine(ctx, s.env.Clock, c.Encoders); err != nil {
		return err
	}
	schema := fmt.Sprint(have)
	if have != want {
		schema = fmt.Sprintf("%d, this binary needs %d: run `airlock db migrate`", have, want)
	}
	return printPairs(s.env.Stdout, c.Output, i, append([]pair{
		{"version", i.Version},
		{"go", i.Go},
		{"platform", i.Platform},
		{"home", i.Home},
		{"dags_folder", i.DagsFolder},
		{"logs", i.Logs},
		{"database", i.Database},
		{"schema_version", schema},
	}, i.pairs()...))
}

type versionCmd struct{}

// Run prints the version alone, for scripts.
func (versionCmd) Run(s *session) error {
	_, err := fmt.Fprintln(s.env.Stdout, s.env.Version)
	return err
}
