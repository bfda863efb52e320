package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const modulePath = "github.com/airlock-dag/airlock"

// listedPackage is what `go list -deps -json` says of a package, as far as it
// matters here.
type listedPackage struct {
	ImportPath string
	Standard   bool
	Doc        string
	GoFiles    []string
	Imports    []string
	Deps       []string
}

// room is the part of a package's path below the module: "sql/store", and false
// for a package of another module.
func room(importPath string) (string, bool) {
	return strings.CutPrefix(importPath, modulePath+"/")
}

// within tells whether a room is one of the roots or below one.
func within(room string, roots ...string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return room == root || strings.HasPrefix(room, root+"/")
	})
}

// allowedRooms lists the rooms that a package may import besides its own root.
func allowedRooms(room string) []string {
	switch {
	case within(room, "executor/operator/merge", "executor/operator/sql", "executor/operator/sqlsensor"):
		return []string{"dag", "executor", "sql/merge", "sql/dialect"}
	case within(room, "dag"):
		return []string{"dag"}
	case within(room, "sql"):
		return []string{"dag", "sql"}
	case within(room, "executor"):
		return []string{"dag", "executor"}
	case within(room, "callbacks"):
		return []string{"dag", "callbacks"}
	case within(room, "examples"):
		return nil
	default: // cmd and integration see everything
		return []string{"dag", "sql", "executor", "callbacks", "cmd"}
	}
}

// homes says which rooms alone may import a library: a library that has one
// home can be replaced in one place.
var homes = map[string][]string{
	"github.com/robfig/cron/v3":             {"dag/timetable"},
	"github.com/aws/aws-sdk-go-v2":          {"executor/operator/upload"},
	"github.com/aws/smithy-go":              {"executor/operator/upload"},
	"github.com/go-git/go-git/v5":           {"dag/bundle"},
	"golang.org/x/crypto":                   {"dag/bundle"},
	"github.com/nikolalohinski/gonja/v2":    {"dag/render"},
	"github.com/go-sql-driver/mysql":        {"sql"},
	"github.com/jmoiron/sqlx":               {"sql", "executor/operator/merge", "executor/operator/sql", "executor/operator/sqlsensor"},
	"modernc.org/sqlite":                    {"sql"},
	"github.com/pressly/goose/v3":           {"sql"},
	"github.com/parquet-go/parquet-go":      {"sql/merge"},
	"github.com/alecthomas/kong":            {"cmd/cli"},
	"github.com/jedib0t/go-pretty/v6":       {"cmd"},
	"github.com/prometheus/client_golang":   {"cmd", "executor", "callbacks", "sql/store"},
	"github.com/wneessen/go-mail":           {"callbacks/email"},
	"github.com/santhosh-tekuri/jsonschema": {"dag", "cmd"},
}

// TestRooms holds the import rules over the compiler's own list.
func TestRooms(t *testing.T) {
	t.Parallel()
	for _, p := range listPackages(t) {
		here, ours := room(p.ImportPath)
		if !ours {
			continue
		}
		for _, imported := range p.Imports {
			there, inside := room(imported)
			if inside {
				require.Truef(t, within(there, allowedRooms(here)...), "%s imports %s: lower rooms never see higher ones, see CONTRIBUTING.md", here, there)
				continue
			}
			for library, rooms := range homes {
				if imported == library || strings.HasPrefix(imported, library+"/") {
					require.Truef(t, within(here, rooms...), "%s imports %s, which belongs in %s", here, imported, strings.Join(rooms, ", "))
				}
			}
		}
	}
}

// TestDomainIsStandardLibraryOnly holds the one rule that looks through
// everything that a package brings in.
func TestDomainIsStandardLibraryOnly(t *testing.T) {
	t.Parallel()
	packages := listPackages(t)
	domain, ok := packages[modulePath+"/dag"]
	require.True(t, ok, "package dag is listed")
	for _, dep := range domain.Deps {
		require.Truef(t, packages[dep].Standard, "dag depends on %s, which is not of the standard library", dep)
	}
}

// TestPackagesSayWhatTheyAre asks for a package comment in every package that
// has code of its own.
func TestPackagesSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	for _, p := range listPackages(t) {
		if here, ours := room(p.ImportPath); ours && len(p.GoFiles) > 0 {
			require.NotEmptyf(t, p.Doc, "%s has no package comment: say in doc.go what it is and what it may import", here)
		}
	}
}

// TestTreeIsTidy holds the shape of the tree: what stands at the root, how long
// a file may be, and that names say what is held.
func TestTreeIsTidy(t *testing.T) {
	t.Parallel()
	const longest, longestTest = 450, 700
	atRoot := []string{
		"dag", "sql", "executor", "callbacks", "cmd", "integration", "examples", "docs", ".ci",
		"go.mod", "go.sum", "Dockerfile", "Makefile", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md",
		".gitignore", ".gitattributes", ".dockerignore", ".golangci.yml", ".editorconfig",
	}
	emptyNames := regexp.MustCompile(`(^|/)(utils?|common|helpers?|misc|managers?)(_test)?(/|\.go$)`)
	for name, lines := range trackedFiles(t) {
		require.Containsf(t, atRoot, strings.SplitN(name, "/", 2)[0], "%s does not belong at the root", name)
		if path.Ext(name) != ".go" {
			continue
		}
		require.Falsef(t, emptyNames.MatchString(name), "%s: the name does not say what is held", name)
		limit := longest
		if strings.HasSuffix(name, "_test.go") {
			limit = longestTest
		}
		require.LessOrEqualf(t, lines, limit, "%s is too long: look for the seam", name)
	}
}

// listPackages lists the module's packages and all that they depend on, by
// import path.
func listPackages(t *testing.T) map[string]listedPackage {
	t.Helper()
	out := bytes.NewReader(output(t, "go", "list", "-deps", "-json=ImportPath,Standard,Doc,GoFiles,Imports,Deps", "./..."))
	packages := map[string]listedPackage{}
	for decoder := json.NewDecoder(out); ; {
		var p listedPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		require.NoError(t, err)
		packages[p.ImportPath] = p
	}
}

// trackedFiles lists the files that git keeps (or would, once added), with
// their numbers of lines.
func trackedFiles(t *testing.T) map[string]int {
	t.Helper()
	files := map[string]int{}
	for name := range strings.SplitSeq(string(output(t, "git", "ls-files", "-z", "-co", "--exclude-standard")), "\x00") {
		if name == "" {
			continue
		}
		lines, err := countLines(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, not committed yet
		}
		require.NoError(t, err)
		files[name] = lines
	}
	require.NotEmpty(t, files)
	return files
}

// countLines counts the lines of a file below the root.
func countLines(name string) (int, error) {
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	return bytes.Count(content, []byte{'\n'}), err
}

// root is the module's folder as this package's tests see it.
const root = ".."

// output runs a program in the module's folder and gives what it prints.
func output(t *testing.T, argv ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoErrorf(t, err, "%s: %s", strings.Join(argv, " "), stderr.String())
	return out
}
