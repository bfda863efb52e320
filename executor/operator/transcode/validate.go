package transcode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/gpu"
	"github.com/airlock-dag/airlock/executor/operator/mediafile"
)

// codeBadValue is the loader's code of a value that is not allowed.
const codeBadValue = "bad-value"

// validate finds what a step's literal keys get wrong: its profile, in the file
// of profiles too, what contradicts itself, and a folder that is not there.
func (o *Operator) validate(args map[string]any, at dag.Place) []dag.Problem {
	data, file, given := at.Beside(ProfilesFile)
	all, out := o.checks.of(file, data)
	if len(out) > 0 {
		return out
	}
	for _, name := range []string{"asset", "path"} {
		out = append(out, mediafile.Folder(args, name, at)...)
	}
	if dir, ok := args["output_dir"].(string); ok && dir != "" && !templated(dir) && at.Stat != nil && len(at.Mapped["output_dir"]) == 0 {
		if info, err := at.Stat(dir); err == nil && !info.IsDir() {
			out = append(out, bad("output_dir", "name a folder; it is made where it is missing", "%s is a file", dir))
		}
	}
	profiles := at.Literal(args, "profile")
	for _, path := range slices.Sorted(maps.Keys(profiles)) {
		v := profiles[path]
		if templated(v) {
			continue
		}
		p, err := findIn(all, v)
		if err != nil {
			out = append(out, profileProblem(path, v, all, given, at, err))
			continue
		}
		if problem, wrong := contradiction(args, at, p); wrong {
			out = append(out, problem)
			break // it is the same for each profile
		}
	}
	return out
}

// profileChecks remembers the file of profiles that was checked last: the tasks of
// a folder's DAGs come one after another. The profiles are shared and are not to
// be changed.
type profileChecks struct {
	mu       sync.Mutex
	some     bool
	file     string
	data     []byte
	all      map[string]*Profile
	problems []dag.Problem
}

// of gives the profiles of a file, with the built-in ones, or what is wrong.
func (c *profileChecks) of(file string, data []byte) (map[string]*Profile, []dag.Problem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.some && c.file == file && bytes.Equal(c.data, data) {
		return c.all, slices.Clone(c.problems)
	}
	c.some, c.file, c.data, c.all = true, file, data, nil
	if c.problems = checkProfiles(file, data); len(c.problems) == 0 {
		var err error
		if c.all, err = parseProfiles(file, data); err != nil { // the built-in ones
			c.problems = []dag.Problem{bad("profile", "", "%v", err)}
		}
	}
	return c.all, slices.Clone(c.problems)
}

func findIn(all map[string]*Profile, v any) (*Profile, error) {
	switch v := v.(type) {
	case string:
		return named(all, v)
	case map[string]any:
		return inlineOver(v, all)
	default:
		return nil, fmt.Errorf("profile is %v, and must be a name or a mapping", v)
	}
}

// profileProblem says what is wrong with a profile that a step asks for.
func profileProblem(path string, v any, all map[string]*Profile, given bool, at dag.Place, err error) dag.Problem {
	name, isName := v.(string)
	if !isName {
		return bad(path+"."+strings.Join(keysOf(err.Error()), "."), "docs/operators/transcode.md has the keys of a profile", "%v", err)
	}
	names := slices.Sorted(maps.Keys(all))
	hint := "there are " + strings.Join(names, ", ")
	if near := dag.Nearest(name, names); near != "" {
		hint = "did you mean " + near + "? " + hint
	}
	if _, other, there := at.Beside("profiles.yaml"); there && !given {
		hint = other + " is not read: name it " + ProfilesFile + "; " + hint
	}
	return bad(path, hint, "no profile has the name %q", name)
}

// contradiction reads the keys that are no templates as an attempt would.
func contradiction(args map[string]any, at dag.Place, p *Profile) (dag.Problem, bool) {
	literal := map[string]any{}
	for name, v := range args {
		if _, mapped := at.Mapped[name]; !mapped && !templated(v) {
			literal[name] = v
		}
	}
	literal["path"], literal["output_dir"] = "in", "out"
	delete(literal, "asset")
	s, fail := read(literal, "/", New(), func(any) (*Profile, error) { return p, nil })
	if fail != nil {
		path := "profile"
		if key, _, _ := strings.Cut(fail.Message, ":"); args[key] != nil {
			path = key
		} else if key, _, _ = strings.Cut(fail.Message, " "); args[key] != nil {
			path = key
		}
		return bad(path, fail.Hint, "%s", fail.Message), true
	}
	if s.requireEncoder == "" {
		return dag.Problem{}, false
	}
	codec, names := "", []string{}
	if p.Video == nil {
		codec, names = p.Audio.Codec, append(names, audioEncoder(p.Audio))
	} else {
		codec = p.Video.Codec
		for _, e := range gpu.Encoders(codec) {
			names = append(names, e.Name)
		}
	}
	if slices.Contains(names, s.requireEncoder) {
		return dag.Problem{}, false
	}
	hint := "there are " + strings.Join(names, ", ")
	if near := dag.Nearest(s.requireEncoder, names); near != "" {
		hint = "did you mean " + near + "? " + hint
	}
	return bad("require_encoder", hint, "no encoder of %s, which profile %s makes, has the name %q", codec, p.Name, s.requireEncoder), true
}

func bad(path, hint, format string, a ...any) dag.Problem {
	return dag.Problem{Path: strings.TrimSuffix(path, "."), Severity: dag.SeverityError, Code: codeBadValue, Message: fmt.Sprintf(format, a...), Hint: hint}
}

// templated tells whether there is a template in a value.
func templated(v any) bool {
	data, err := json.Marshal(v)
	return err != nil || strings.Contains(string(data), "{{") || strings.Contains(string(data), "{%")
}

// checkProfiles finds what is wrong with a file of profiles, each with its place.
func checkProfiles(file string, data []byte) []dag.Problem {
	var root yaml.Node
	raw := map[string]map[string]any{}
	err := yaml.Unmarshal(data, &root)
	if err == nil && len(root.Content) > 0 {
		if out := noMappings(file, root.Content[0]); len(out) > 0 {
			return out
		}
		err = root.Decode(&raw)
	}
	if err != nil {
		line, words := lineOf(err)
		return []dag.Problem{{
			File: file, Line: line, Column: min(line, 1), Severity: dag.SeverityError, Code: codeBadValue,
			Message: "the file of profiles cannot be read: " + words, Hint: "it is a mapping of names to profiles",
		}}
	}
	if len(root.Content) == 0 {
		return nil
	}
	all := map[string]map[string]any{}
	if err := yaml.Unmarshal(builtin, &all); err != nil {
		return []dag.Problem{{File: file, Severity: dag.SeverityError, Code: codeBadValue, Message: err.Error()}}
	}
	maps.Copy(all, raw)
	var out []dag.Problem
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		_, err := decodeProfile(name, raw[name], all)
		if err == nil {
			continue
		}
		keys := append([]string{name}, keysOf(err.Error())...)
		n, depth := below(root.Content[0], keys)
		out = append(out, dag.Problem{
			File: filepath.ToSlash(file), Line: n.Line, Column: n.Column, Path: strings.Join(keys[:depth], "."),
			Severity: dag.SeverityError, Code: codeBadValue, Message: err.Error(), Hint: "docs/operators/transcode.md has the keys of a profile",
		})
	}
	return out
}

// noMappings finds what is no mapping where one must be.
func noMappings(file string, n *yaml.Node) []dag.Problem {
	wrong := func(n *yaml.Node, path, what string) dag.Problem {
		return dag.Problem{
			File: file, Line: n.Line, Column: n.Column, Path: path, Severity: dag.SeverityError, Code: codeBadValue,
			Message: what + " must be a mapping", Hint: "docs/operators/transcode.md shows a file of profiles",
		}
	}
	if n.Kind != yaml.MappingNode {
		return []dag.Problem{wrong(n, "", "the file of profiles")}
	}
	var out []dag.Problem
	for i := 0; i+1 < len(n.Content); i += 2 {
		if v := n.Content[i+1]; v.Kind != yaml.MappingNode && v.Kind != yaml.AliasNode {
			out = append(out, wrong(v, n.Content[i].Value, "profile "+n.Content[i].Value))
		}
	}
	return out
}

var yamlLine = regexp.MustCompile(`line (\d+)`)

// lineOf is the line that an error of the YAML library names, 0 for none, and its
// words on one line.
func lineOf(err error) (line int, words string) {
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		line, _ = strconv.Atoi(m[1])
	}
	var all *yaml.LoadErrors
	if errors.As(err, &all) && len(all.Errors) > 0 {
		return line, all.Errors[0].Message
	}
	return line, strings.Join(strings.Fields(err.Error()), " ")
}

var keyWord = regexp.MustCompile(`^([a-z_]+)(?: \S+)?$`)

// keysOf are the keys that an error of a profile begins with, after its name:
// "profile x: video: codec "h265": ..." is about video.codec.
func keysOf(message string) []string {
	var out []string
	parts := strings.Split(message, ": ")
	for _, part := range parts[1:] {
		m := keyWord.FindStringSubmatch(part)
		if m == nil {
			break
		}
		out = append(out, m[1])
	}
	return out
}

// below follows keys down a node as far as they are there, and gives the key's
// node and how many were found.
func below(n *yaml.Node, keys []string) (*yaml.Node, int) {
	at := n
	for i, key := range keys {
		found := false
		for j := 0; n.Kind == yaml.MappingNode && j+1 < len(n.Content); j += 2 {
			if n.Content[j].Value == key {
				at, n, found = n.Content[j], n.Content[j+1], true
				break
			}
		}
		if !found {
			return at, i
		}
	}
	return at, len(keys)
}
