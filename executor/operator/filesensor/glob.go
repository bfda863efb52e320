package filesensor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// errFound ends a walk.
var errFound = errors.New("found") //nolint:gochecknoglobals // a constant

// finder looks for the first thing that a pattern matches and that is a file, or
// a folder with a file somewhere in it. The patterns are Python's: * ? [a-z]
// [!a-z], none of which matches the dot that hides a file; with recursive ** is
// any number of folders, none included.
type finder struct {
	ctx       context.Context //nolint:containedctx // one search
	recursive bool
	found     string
}

// find gives the path of the first match in the order of names, "" for none. A
// folder that is missing is no match; one that cannot be read is an error.
func find(ctx context.Context, pattern string, recursive bool) (string, error) {
	f := &finder{ctx: ctx, recursive: recursive}
	clean := filepath.Clean(pattern)
	root := "."
	if filepath.IsAbs(clean) {
		root, clean = string(filepath.Separator), strings.TrimPrefix(clean, string(filepath.Separator))
	}
	err := f.match(root, strings.Split(clean, string(filepath.Separator)))
	if errors.Is(err, errFound) {
		return f.found, nil
	}
	return "", err
}

// check finds what is wrong with a path.
func check(pattern string) error {
	switch {
	case strings.TrimSpace(pattern) == "":
		return fmt.Errorf("filepath is empty")
	case strings.ContainsRune(pattern, 0):
		return fmt.Errorf("filepath has a NUL byte")
	default:
		return nil
	}
}

// match looks below dir for the parts of a pattern.
func (f *finder) match(dir string, parts []string) error {
	if err := f.ctx.Err(); err != nil {
		return err
	}
	if len(parts) == 0 || (len(parts) == 1 && parts[0] == "") {
		return f.file(dir)
	}
	part, rest := parts[0], parts[1:]
	switch {
	case part == "**" && f.recursive:
		for len(rest) > 0 && rest[0] == "**" { // two say no more than one
			rest = rest[1:]
		}
		return f.matchDeep(dir, rest)
	case !strings.ContainsAny(part, "*?["):
		path := filepath.Join(dir, part)
		if _, err := os.Lstat(path); err != nil {
			return missing(err)
		}
		return f.match(path, rest)
	}
	names, err := list(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if ok, _ := filepath.Match(goPattern(part), name); !ok || hidden(part, name) {
			continue
		}
		if err := f.match(filepath.Join(dir, name), rest); err != nil {
			return err
		}
	}
	return nil
}

// matchDeep is ** at a folder: the rest may begin here or in any folder below.
func (f *finder) matchDeep(dir string, rest []string) error {
	if err := f.match(dir, rest); err != nil {
		return err
	}
	names, err := list(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		// A link is not gone through: it may lead back up.
		if info, err := os.Lstat(path); err != nil || !info.IsDir() || hidden("*", name) {
			continue
		}
		if err := f.matchDeep(path, rest); err != nil {
			return err
		}
	}
	return nil
}

// file ends the search at a file, or at a folder with a file somewhere in it.
func (f *finder) file(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return missing(err)
	}
	if !info.IsDir() {
		f.found = path
		return errFound
	}
	return filepath.WalkDir(path, func(inside string, d fs.DirEntry, err error) error {
		switch {
		case f.ctx.Err() != nil:
			return f.ctx.Err()
		case err != nil:
			return missing(err)
		case d.IsDir():
			return nil
		}
		f.found = inside
		return errFound
	})
}

// list gives the names in a folder, sorted; nothing for what is no folder.
func list(dir string) ([]string, error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, missing(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, missing(err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// missing makes of an error that something is not there no error: it may come.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || isNotDir(err) {
		return nil
	}
	return err
}

func hidden(part, name string) bool {
	return strings.HasPrefix(name, ".") && !strings.HasPrefix(part, ".")
}

// goPattern writes Python's pattern as Go's: ! negates, a backslash is a
// backslash, and a [ without its ] is a [.
func goPattern(part string) string {
	plain := strings.ReplaceAll(part, `\`, `\\`)
	pattern := strings.ReplaceAll(plain, "[!", "[^")
	if _, err := filepath.Match(pattern, ""); err != nil {
		return strings.ReplaceAll(plain, "[", `\[`)
	}
	return pattern
}
