package load

import (
	"path"
	"sort"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
)

// Files loads a folder's files: DAG files, and the defaults.yml and
// policies.yml files that settings are inherited from. The result depends on
// the files and the options only, not on the order of the files. A mistake in
// one file leaves the DAGs of all others as they are.
func Files(files []bundle.File, o Options) Result {
	l := &loader{
		opts:     o.withDefaults(),
		ops:      newOperators(o.Specs),
		keys:     newKeyTables(),
		zones:    zones{},
		defaults: map[string]*inherited{},
		policies: map[string]*inherited{},

		settingFiles: map[string]bundle.File{},
	}
	sorted := append([]bundle.File(nil), files...)
	sort.SliceStable(sorted, func(i, j int) bool { return sorted[i].Path < sorted[j].Path })
	var dagFiles []*source
	for _, f := range sorted {
		name := settingsName(f.Path)
		if name == "profiles" { // the transcode step reads it
			l.settingFiles[f.Path] = f
			continue
		}
		src := l.read(f)
		switch name {
		case "defaults":
			l.inherit(l.defaults, src)
		case "policies":
			l.inherit(l.policies, src)
		default:
			dagFiles = append(dagFiles, src)
		}
		l.sources = append(l.sources, src)
	}
	l.checkSettings()
	l.declare(dagFiles)
	for _, src := range dagFiles {
		l.build(src)
	}
	l.crossCheck()
	return l.result()
}

// source is one file on its way through the loader.
type source struct {
	path string
	root *node // nil when there is nothing to build
	rep  *report
	dags []*dag.DAG
	// refs are ids of other DAGs that tasks name.
	refs []dagRef
}

type dagRef struct {
	at   *node
	path string
	id   string
}

// inherited is a settings file that others take from.
type inherited struct {
	src *source
}

type loader struct {
	opts     Options
	ops      *operators
	keys     keyTables
	zones    zones
	defaults map[string]*inherited // by folder
	policies map[string]*inherited
	sources  []*source
	// settingFiles are files of operators' own settings, by path.
	settingFiles map[string]bundle.File

	ids map[string]string // DAG id to file
}

func (l *loader) read(f bundle.File) *source {
	src := &source{path: f.Path, rep: newReport(f.Path)}
	if f.Err != nil {
		src.rep.add(dag.Problem{Severity: dag.SeverityError, Code: codeUnreadable, Message: f.Err.Error()})
		return src
	}
	src.root = parse(f.Data, l.opts.LookupEnv, src.rep)
	return src
}

// settingsName is "defaults", "policies" or "profiles" for a file of settings,
// "" for a file of DAGs.
func settingsName(p string) string {
	base := path.Base(p)
	ext := path.Ext(base)
	switch name := strings.TrimSuffix(base, ext); name {
	case "defaults", "policies", "profiles":
		return name
	default:
		return ""
	}
}

// inherit notes a settings file for its folder; .yml wins over .yaml.
func (l *loader) inherit(in map[string]*inherited, src *source) {
	dir := path.Dir(src.path)
	if first := in[dir]; first != nil {
		loser := src
		if path.Ext(src.path) == ".yml" {
			loser = first.src
			in[dir] = &inherited{src: src}
		}
		loser.rep.add(dag.Problem{Severity: dag.SeverityWarning, Code: codeIgnoredKey,
			Message: "the file is not used: the same folder has " + path.Base(in[dir].src.path), Hint: "keep one of the two"})
		return
	}
	in[dir] = &inherited{src: src}
}

// chain lists the settings files that hold for a file, nearest first.
func chain(in map[string]*inherited, file string) []*source {
	var out []*source
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		if s := in[dir]; s != nil {
			out = append(out, s.src)
		}
		if dir == "." || dir == "/" {
			return out
		}
	}
}

// declare notes which file defines which DAG. Of two files with one id the
// first by path keeps it.
func (l *loader) declare(files []*source) {
	l.ids = map[string]string{}
	places := map[string]*node{}
	for _, src := range files {
		if src.root == nil {
			continue
		}
		for _, f := range src.root.fields {
			if !l.isDAG(f) {
				continue
			}
			if first, taken := places[f.name]; taken {
				src.rep.err(f.key, f.name, codeDuplicateID,
					"the DAG id "+quote(f.name)+" is taken: "+first.file+" defines it on "+first.place(first.file), "rename one of the two")
				continue
			}
			places[f.name] = f.key
			l.ids[f.name] = src.path
		}
	}
}

// crossCheck looks at what one file alone cannot tell.
func (l *loader) crossCheck() {
	for _, src := range l.sources {
		for _, ref := range src.refs {
			if _, known := l.ids[ref.id]; !known {
				hint := src.rep.meant(ref.id, func() []string {
					ids := make([]string, 0, len(l.ids))
					for id := range l.ids {
						ids = append(ids, id)
					}
					return ids
				})
				src.rep.warn(ref.at, ref.path, codeUnknownDAG, "no file here defines the DAG "+quote(ref.id), hint)
			}
		}
	}
}

func (l *loader) result() Result {
	res := Result{DagFiles: l.ids}
	for _, src := range l.sources {
		src.rep.finish()
		res.Problems = append(res.Problems, src.rep.list...)
		if src.rep.failed {
			if settingsName(src.path) == "" {
				res.Broken = append(res.Broken, src.path)
			}
			continue
		}
		res.DAGs = append(res.DAGs, src.dags...)
	}
	sort.Slice(res.DAGs, func(i, j int) bool { return res.DAGs[i].ID < res.DAGs[j].ID })
	sort.Strings(res.Broken)
	res.Problems = sortProblems(res.Problems)
	return res
}
