package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"

	"github.com/pressly/goose/v3"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/crashpoint"
	"github.com/airlock-dag/airlock/sql/dialect"
)

//go:embed mysql/*.sql sqlite/*.sql
var files embed.FS

// TableName is the table that records which files were run.
const TableName = "airlock_schema"

// Up runs the files that the database has not seen, in order. Several processes
// may do it at once: one works, the others wait and find nothing to do. A
// database whose schema is newer than this binary is refused with ErrConflict.
func Up(ctx context.Context, db *dialect.DB) error {
	unlock, locker, err := lockFor(ctx, db)
	if err != nil {
		return err
	}
	defer unlock()
	opts := []goose.ProviderOption{
		goose.WithTableName(TableName), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()),
		// Files are numbered by what they are for: one may come after a higher number.
		goose.WithAllowOutofOrder(true),
	}
	if locker != nil {
		opts = append(opts, goose.WithSessionLocker(locker))
	}
	p, err := provider(db, opts...)
	if err != nil {
		return err
	}
	have, want, err := Version(ctx, db)
	if err != nil {
		return err
	}
	if have > want {
		return TooNew(db, have, want)
	}
	crashpoint.Point("migration: before the first file")
	if err := eachFile(ctx, p); err != nil {
		// Another process with a newer binary may have been first.
		if now, _, verr := Version(ctx, db); verr == nil && now > want {
			return TooNew(db, now, want)
		}
		return &dag.Error{
			Code: dag.ErrInternal, Op: "migrate " + db.String(), Err: plain(err),
			Hint: "repair the cause and run airlock db migrate again; it goes on where it stopped",
		}
	}
	return nil
}

// eachFile runs the files one by one, so that one can be told from the next.
func eachFile(ctx context.Context, p *goose.Provider) error {
	for {
		_, err := p.UpByOne(ctx)
		if errors.Is(err, goose.ErrNoNextVersion) {
			return nil
		}
		if err != nil {
			return err
		}
		crashpoint.Point("migration: after a file")
	}
}

// plain unwraps goose's partial error to the database's own.
func plain(err error) error {
	var partial *goose.PartialError
	if errors.As(err, &partial) && partial.Failed != nil {
		return fmt.Errorf("file %s: %w", partial.Failed.Source.Path, partial.Err)
	}
	return err
}

// TooNew is the refusal of a schema that a newer binary made.
func TooNew(db *dialect.DB, have, want int64) error {
	return &dag.Error{
		Code: dag.ErrConflict, Op: "open " + db.String(), Hint: "use a newer airlock, or another database",
		Err: fmt.Errorf("its schema is version %d and this airlock knows versions up to %d", have, want),
	}
}

// Version is the schema's version that the database has (0 for an empty
// database) and the one that this binary brings it to; they are the same only
// when no file is missing. It changes nothing.
func Version(ctx context.Context, db *dialect.DB) (have, want int64, err error) {
	p, err := provider(db, goose.WithTableName(TableName), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return 0, 0, err
	}
	sources := p.ListSources()
	want = sources[len(sources)-1].Version

	query := "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = ?"
	if !db.IsSQLite() {
		query = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?"
	}
	var tables int
	if err := db.Reader().GetContext(ctx, &tables, query, TableName); err != nil {
		return 0, 0, fmt.Errorf("read the schema's version: %w", err)
	}
	if tables == 0 {
		return 0, want, nil
	}
	var ran []int64
	if err := db.Reader().SelectContext(ctx, &ran, "SELECT version_id FROM "+TableName+" ORDER BY version_id"); err != nil {
		return 0, 0, fmt.Errorf("read the schema's version: %w", err)
	}
	if len(ran) > 0 {
		have = ran[len(ran)-1]
	}
	if have > want {
		return have, want, nil
	}
	// A file may be missing below the newest: then the schema is as old as what
	// comes before it.
	for i, source := range sources {
		if !slices.Contains(ran, source.Version) {
			have = 0
			if i > 0 {
				have = sources[i-1].Version
			}
			break
		}
	}
	return have, want, nil
}

// created matches what a migration makes.
var created = regexp.MustCompile(`(?i)CREATE TABLE IF NOT EXISTS (\w+)`)

// Tables lists the tables that the files make, the newest first, and last the
// one that records them.
func Tables(db *dialect.DB) ([]string, error) {
	p, err := provider(db, goose.WithTableName(TableName), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, source := range p.ListSources() {
		text, err := fs.ReadFile(files, folder(db)+"/"+path.Base(source.Path))
		if err != nil {
			return nil, err
		}
		for _, m := range created.FindAllStringSubmatch(string(text), -1) {
			out = append(out, m[1])
		}
	}
	slices.Reverse(out)
	return append(out, TableName), nil
}

func folder(db *dialect.DB) string {
	if db.IsSQLite() {
		return "sqlite"
	}
	return "mysql"
}

func provider(db *dialect.DB, opts ...goose.ProviderOption) (*goose.Provider, error) {
	kind := goose.DialectMySQL
	if db.IsSQLite() {
		kind = goose.DialectSQLite3
	}
	sub, err := fs.Sub(files, folder(db))
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(kind, db.Writer().DB, sub, opts...)
}
