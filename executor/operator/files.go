package operator

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// MissingFiles tells of the files that a key names and that are not there: a text,
// or a list of texts. pathIn gives the path that a text names, "" for none; nil where
// every text is one. It is a warning: an earlier step may make the file. Templates
// are left alone, and so is everything where the machine that reads the DAG file need
// not have the files.
func MissingFiles(args map[string]any, name string, at dag.Place, pathIn func(text string) string) []dag.Problem {
	if at.Stat == nil {
		return nil
	}
	var out []dag.Problem
	look := func(path string, v any) {
		file, _ := v.(string)
		if pathIn != nil {
			file = pathIn(file)
		}
		if file == "" || strings.ContainsRune(file, 0) || strings.Contains(file, "{{") || strings.Contains(file, "{%") {
			return
		}
		if _, err := at.Stat(file); errors.Is(err, fs.ErrNotExist) {
			out = append(out, dag.Problem{
				Path: path, Severity: dag.SeverityWarning, Code: "bad-value", Message: fmt.Sprintf("there is no file %s on this machine", file),
				Hint: "a relative path starts at the folder of the DAG's file; the step fails unless the file is made before it runs",
			})
		}
	}
	values := at.Literal(args, name)
	for _, path := range slices.Sorted(maps.Keys(values)) {
		list, ok := values[path].([]any)
		if !ok {
			look(path, values[path])
			continue
		}
		for i, v := range list {
			look(fmt.Sprintf("%s[%d]", path, i), v)
		}
	}
	return out
}
