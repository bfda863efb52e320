package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/airlock-dag/airlock/dag/plainfile"
)

// ignoreRule is one line of an .airflowignore file in the glob form, which
// follows the rules of .gitignore: the last line that matches decides, "!"
// takes a file back, "/" ties the pattern to the folder of the ignore file and
// a trailing "/" matches folders only.
type ignoreRule struct {
	base    string // folder of the ignore file, relative to the root
	re      *regexp.Regexp
	negate  bool
	dirOnly bool
}

// addIgnoreFile reads the folder's ignore file, if there is one, behind the
// rules of the folders above.
func addIgnoreFile(rules []ignoreRule, abs, rel string) ([]ignoreRule, error) {
	data, err := plainfile.Read(filepath.Join(abs, IgnoreFile), MaxFileSize)
	if errors.Is(err, fs.ErrNotExist) {
		return rules, nil
	}
	if err != nil {
		return rules, fmt.Errorf("cannot be read, so nothing is left out: %w", plain(err))
	}
	out := append([]ignoreRule(nil), rules...)
	for i, line := range strings.Split(string(data), "\n") {
		rule, ok, err := parseIgnoreLine(strings.TrimSuffix(line, "\r"), rel)
		if err != nil {
			return out, fmt.Errorf("line %d: %w", i+1, err)
		}
		if ok {
			out = append(out, rule)
		}
	}
	return out, nil
}

func parseIgnoreLine(line, base string) (ignoreRule, bool, error) {
	if i := strings.Index(line, " #"); i >= 0 {
		line = line[:i]
	}
	line = strings.TrimRight(line, " \t")
	if line == "" || strings.HasPrefix(line, "#") {
		return ignoreRule{}, false, nil
	}
	r := ignoreRule{base: base}
	if strings.HasPrefix(line, "!") {
		r.negate = true
		line = line[1:]
	}
	if strings.HasSuffix(line, "/") {
		r.dirOnly = true
		line = strings.TrimSuffix(line, "/")
	}
	anchored := strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	expr, err := globExpr(line)
	if err != nil {
		return r, false, err
	}
	if !anchored {
		expr = "(?:.*/)?" + expr
	}
	re, err := regexp.Compile("^" + expr + "$")
	if err != nil {
		return r, false, fmt.Errorf("pattern %q is not a glob: %w", line, err)
	}
	r.re = re
	return r, true, nil
}

// globExpr turns a glob into a regular expression: "*" and "?" stay inside one
// path element, "**" crosses them.
func globExpr(glob string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; c {
		case '*':
			if strings.HasPrefix(glob[i:], "**/") {
				b.WriteString("(?:.*/)?")
				i += 2
			} else if strings.HasPrefix(glob[i:], "**") {
				b.WriteString(".*")
				i++
			} else {
				b.WriteString("[^/]*")
			}
		case '?':
			b.WriteString("[^/]")
		case '[':
			end := strings.IndexByte(glob[i:], ']')
			if end < 0 {
				return "", fmt.Errorf("pattern %q has a [ without ]", glob)
			}
			set := glob[i+1 : i+end]
			if strings.HasPrefix(set, "!") {
				set = "^" + set[1:]
			}
			b.WriteString("[" + strings.ReplaceAll(set, `\`, `\\`) + "]")
			i += end
		case '\\':
			if i+1 < len(glob) {
				i++
				b.WriteString(regexp.QuoteMeta(string(glob[i])))
			}
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	return b.String(), nil
}

// ignored tells whether the rules leave a path out.
func ignored(rules []ignoreRule, rel string, isDir bool) bool {
	for i := len(rules) - 1; i >= 0; i-- {
		r := rules[i]
		if r.dirOnly && !isDir {
			continue
		}
		name := rel
		if r.base != "" {
			name = strings.TrimPrefix(rel, r.base+"/")
		}
		if r.re.MatchString(path.Clean(name)) {
			return !r.negate
		}
	}
	return false
}
