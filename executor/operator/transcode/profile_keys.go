package transcode

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag"
)

// knownKeys finds the first key of a profile, or of a part of one, that there
// is not. Its words begin with the key's path, as those of all that is wrong with
// a profile do: "video: codek: ...".
func knownKeys(m map[string]any, at string, t reflect.Type, more ...string) error {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = f.Type
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		of, ok := fields[key]
		if !ok && !slices.Contains(more, key) {
			all := slices.Sorted(maps.Keys(fields))
			hint := "there are " + strings.Join(append(all, more...), ", ")
			if near := dag.Nearest(key, append(all, more...)); near != "" {
				hint = "did you mean " + near + "?"
			}
			return fmt.Errorf("%s%s: it is no key of a profile; %s", at, key, hint)
		}
		part, isMap := m[key].(map[string]any)
		if isMap && of != nil && of.Kind() == reflect.Pointer && of.Elem().Kind() == reflect.Struct {
			if err := knownKeys(part, at+key+": ", of.Elem()); err != nil {
				return err
			}
		}
	}
	return nil
}

// plainType says a value of the wrong type in the words of the file.
func plainType(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	want := "a mapping"
	switch wrong.Type.Kind() {
	case reflect.Int, reflect.Int64:
		want = "a whole number"
	case reflect.Float64:
		want = "a number"
	case reflect.Bool:
		want = "true or false"
	case reflect.String:
		want = "a text"
	case reflect.Slice:
		want = "a list of texts"
	default:
	}
	found := map[string]string{"string": "a text", "bool": "true or false", "array": "a list", "object": "a mapping", "number": "a number"}[wrong.Value]
	if found == "" {
		found = wrong.Value // "number 22.5"
	}
	return fmt.Errorf("%s: found %s, and it must be %s", strings.ReplaceAll(wrong.Field, ".", ": "), found, want)
}
