package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/plainfile"
)

// FileName is the settings file in the home folder.
const FileName = "airlock.yaml"

// Sources says where settings come from.
type Sources struct {
	// Flags are values by setting ("core.dags_folder"). They win.
	Flags map[string]string
	// Environ is the environment as "NAME=value" lines: os.Environ() in main.
	Environ []string
	// WorkDir is the folder that relative paths in flags start from.
	WorkDir string
}

// Load reads all settings: flags win over AIRLOCK__SECTION__KEY variables,
// these over airlock.yaml in the home folder, and this over the defaults. All
// mistakes are reported at once, as one error with dag.ErrInvalid. It writes
// nothing; see Prepare.
func Load(from Sources) (Config, error) {
	c, _, err := load(from)
	return c, err
}

// List loads the settings and tells each one's value and where it came from,
// in the order of the documentation.
func List(from Sources) ([]Setting, error) {
	_, settings, err := load(from)
	return settings, err
}

func load(from Sources) (Config, []Setting, error) {
	env := environMap(from.Environ)
	home, err := homeFolder(env, from.WorkDir)
	if err != nil {
		return Config{}, nil, err
	}
	c := Default(home)
	l := loader{slots: slots(&c), base: home}
	l.file(filepath.Join(home, FileName))
	l.environ(env)
	l.base = from.WorkDir
	l.flags(from.Flags)
	if err := errors.Join(l.problems...); err != nil {
		return Config{}, nil, &dag.Error{Code: dag.ErrInvalid, Op: "read settings", Err: err, Hint: "docs/settings.md lists every setting"}
	}
	if c.FernetKey == "" {
		if c.FernetKey, err = readKey(home); err != nil {
			return Config{}, nil, err
		}
		if c.FernetKey != "" {
			l.find("core.fernet_key").Source = keyFile
		}
	}
	if c.Git.URL != "" {
		c.DagsFolder = filepath.Join(c.GitClone(), filepath.FromSlash(c.Git.Folder))
		l.find("core.dags_folder").Source = "core.dags_git"
	}
	settings := make([]Setting, len(l.slots))
	for i, s := range l.slots {
		settings[i] = s.Setting
		settings[i].Value = s.value.String()
	}
	return c, settings, c.Validate()
}

// loader fills the slots from one source after the other and keeps what was
// wrong.
type loader struct {
	slots    []slot
	base     string // relative folders start here
	problems []error
}

// flags takes what the command line gave.
func (l *loader) flags(flags map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		l.set(name, flags[name], "flag", "--"+flagName(name))
	}
}

// flagName is the flag of a setting: the last part of its name, but for three.
func flagName(setting string) string {
	switch setting {
	case "database.dsn":
		return "database"
	case "logging.level":
		return "log-level"
	case "metrics.address":
		return "metrics-address"
	}
	_, key, _ := strings.Cut(setting, ".")
	return strings.ReplaceAll(key, "_", "-")
}

// environ takes the AIRLOCK__SECTION__KEY variables.
func (l *loader) environ(env map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		rest, ok := strings.CutPrefix(name, "AIRLOCK__")
		if !ok {
			continue
		}
		section, key, _ := strings.Cut(strings.ToLower(rest), "__")
		l.set(section+"."+key, env[name], name, name)
	}
}

// file takes airlock.yaml; none is fine.
func (l *loader) file(name string) {
	content, err := plainfile.Read(name, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		l.problems = append(l.problems, err)
		return
	}
	var documents []yaml.Node
	if err := yaml.Load(content, &documents, yaml.WithAllDocuments()); err != nil {
		l.problems = append(l.problems, notYAML(name, content, err))
		return
	}
	if len(documents) > 1 {
		l.problems = append(l.problems, fmt.Errorf("%s holds %d documents: write one", name, len(documents)))
		return
	}
	if len(documents) == 0 || len(documents[0].Content) == 0 {
		return
	}
	wrong := func(n *yaml.Node, format string, args ...any) {
		l.problems = append(l.problems, fmt.Errorf("%s:%d:%d: %s", name, n.Line, n.Column, fmt.Sprintf(format, args...)))
	}
	seen := map[string]bool{}
	eachPair(documents[0].Content[0], wrong, func(section, keys *yaml.Node) {
		eachPair(keys, wrong, func(key, v *yaml.Node) {
			setting, place := section.Value+"."+key.Value, fmt.Sprintf("%s:%d:%d: %s.%s", name, v.Line, v.Column, section.Value, key.Value)
			text, ok := scalarText(v)
			switch {
			case seen[setting]:
				wrong(key, "%s stands there twice", setting)
			case !ok:
				wrong(v, "%s is neither a value nor a list of values", setting)
			default:
				l.set(setting, text, FileName, place)
			}
			seen[setting] = true
		})
	})
}

// eachPair calls visit for the pairs of a mapping; an empty value counts as a
// mapping without pairs.
func eachPair(n *yaml.Node, wrong func(*yaml.Node, string, ...any), visit func(key, value *yaml.Node)) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		wrong(n, "expected a mapping: sections, and settings below them")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		visit(n.Content[i], n.Content[i+1])
	}
}

// scalarText is a value as text, a list joined with commas.
func scalarText(n *yaml.Node) (string, bool) {
	switch n.Kind {
	case yaml.ScalarNode:
		return n.Value, true
	case yaml.SequenceNode:
		parts := make([]string, len(n.Content))
		for i, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				return "", false
			}
			parts[i] = item.Value
		}
		return strings.Join(parts, ","), true
	default:
		return "", false
	}
}

// find is the slot of a setting; nil when there is none.
func (l *loader) find(setting string) *slot {
	for i := range l.slots {
		if l.slots[i].Name() == setting {
			return &l.slots[i]
		}
	}
	return nil
}

// set gives one setting its value; place is how a problem names it.
func (l *loader) set(setting, text, source, place string) {
	slot := l.find(setting)
	if slot == nil {
		l.problems = append(l.problems, fmt.Errorf("%s: no setting is named %s%s", place, setting, l.nearest(setting)))
		return
	}
	if folders := []string{"core.dags_folder", "logging.folder"}; slices.Contains(folders, setting) && text != "" {
		text = absolute(text, l.base)
	}
	if err := slot.value.set(text); err != nil {
		l.problems = append(l.problems, fmt.Errorf("%s %w", place, err))
		return
	}
	slot.Source = source
}

// nearest suggests the setting that a misspelt name most likely means.
func (l *loader) nearest(name string) string {
	names := make([]string, len(l.slots))
	for i, s := range l.slots {
		names[i] = s.Name()
	}
	if best := dag.Nearest(name, names); best != "" {
		return "; did you mean " + best + "?"
	}
	return ""
}

func environMap(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, line := range environ {
		if name, value, ok := strings.Cut(line, "="); ok {
			env[name] = value
		}
	}
	return env
}

// notYAML says where a file of settings is not YAML, and names the usual cause.
func notYAML(name string, content []byte, err error) error {
	var at *yaml.LoadError
	if !errors.As(err, &at) || at.Mark.Line == 0 {
		return fmt.Errorf("%s: %w", name, err)
	}
	lines := bytes.Split(content, []byte("\n"))
	if n := at.Mark.Line; n <= len(lines) {
		line := lines[n-1]
		if indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]; bytes.ContainsRune(indent, '\t') {
			return fmt.Errorf("%s:%d:%d: a tab stands in the indentation: YAML indents with spaces only", name, n, bytes.IndexByte(indent, '\t')+1)
		}
	}
	return fmt.Errorf("%s:%d:%d: not YAML: %s", name, at.Mark.Line, at.Mark.Column, at.Message)
}
