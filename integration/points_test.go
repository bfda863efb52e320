package integration

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// engineFiles are the files of the store whose transactions the loops make; the
// others serve commands.
func engineFiles() []string {
	return []string{"claim.go", "apply.go", "exchange.go", "expand.go", "create_runs.go", "schedule.go", "events.go", "event_ends.go"}
}

// crashPoints lists, from the code, the points at which a process can be told
// to end: the literal ones, and three for each transaction of the engine. A name
// whose first part ends in a space stands for all that begin with it.
func crashPoints(t testing.TB) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && errors.Is(err, fs.ErrNotExist): // another test's
			return nil
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "testdata" || d.Name() == "bin"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		engine := filepath.Base(filepath.Dir(path)) == "store" && slices.Contains(engineFiles(), filepath.Base(path))
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, _ := f.X.(*ast.Ident)
			switch {
			case pkg != nil && pkg.Name == "crashpoint" && f.Sel.Name == "Point":
				out = append(out, literal(t, call.Args[0]))
			case engine && (f.Sel.Name == "write" || f.Sel.Name == "writeTrusting") && len(call.Args) == 3:
				for _, moment := range []string{"before", "inside", "after"} {
					out = append(out, literal(t, call.Args[1])+": "+moment)
				}
			}
			return true
		})
		return nil
	})
	require.NoError(t, err)
	slices.Sort(out)
	return slices.Compact(out)
}

// literal is the text that an expression begins with.
func literal(t testing.TB, e ast.Expr) string {
	t.Helper()
	for {
		sum, ok := e.(*ast.BinaryExpr)
		if !ok {
			break
		}
		e = sum.X
	}
	l, ok := e.(*ast.BasicLit)
	require.True(t, ok, "a crash point's name begins with a literal")
	s, err := strconv.Unquote(l.Value)
	require.NoError(t, err)
	return s
}

// hits tells whether a traced name is of a listed point.
func hits(point, traced string) bool {
	if point == traced {
		return true
	}
	begin, moment, _ := strings.Cut(point, ": ")
	return strings.HasSuffix(begin, " ") && strings.HasPrefix(traced, begin) && strings.HasSuffix(traced, ": "+moment)
}
