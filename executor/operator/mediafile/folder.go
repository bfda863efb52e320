package mediafile

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// Folder tells of the files that a step is to read whose folder is not there. It
// is a warning: an earlier step may make the folder. Templates and records are
// left alone, and so is everything where the machine need not have the files.
func Folder(args map[string]any, name string, at dag.Place) []dag.Problem {
	if at.Stat == nil {
		return nil
	}
	var out []dag.Problem
	values := at.Literal(args, name)
	for _, path := range slices.Sorted(maps.Keys(values)) {
		file, ok := values[path].(string)
		if !ok || file == "" || strings.ContainsAny(file, "\x00") || strings.Contains(file, "{{") || strings.Contains(file, "{%") {
			continue
		}
		dir := filepath.Dir(file)
		info, err := at.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			out = append(out, warning(path, "the folder %s is not on this machine", dir))
		case err == nil && !info.IsDir():
			out = append(out, warning(path, "%s is no folder", dir))
		default:
		}
	}
	return out
}

func warning(path, format string, a ...any) dag.Problem {
	return dag.Problem{
		Path: path, Severity: dag.SeverityWarning, Code: "bad-value", Message: fmt.Sprintf(format, a...),
		Hint: "the step fails unless it is made before it runs",
	}
}
