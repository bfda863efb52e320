package transcode_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
	"github.com/airlock-dag/airlock/dag/load"
)

// dagOf is a DAG of one task, t, that begins on line 6; its keys on line 7 and on.
func dagOf(task string) bundle.File {
	return bundle.File{Path: "films/demo.yml", Data: []byte("demo:\n  start_date: 2026-01-01\n  schedule: null\n  params: {work: out}\n  tasks:\n    t:\n      operator: transcode\n" + task)}
}

func told(t *testing.T, o load.Options, files ...bundle.File) []string {
	t.Helper()
	o.Specs = specs()
	var out []string
	for _, p := range load.Files(files, o).Problems {
		out = append(out, p.String())
	}
	return out
}

// What a step names wrongly is found when its file is read, with its place and
// the name that was meant.
func TestNamesAreLookedUpWhenTheFileIsRead(t *testing.T) {
	t.Parallel()
	own := bundle.File{Path: "films/profiles.yml", Data: []byte("preview:\n  extends: h264-720p\n  audio: null\n")}
	elsewhere := bundle.File{Path: "series/profiles.yml", Data: []byte("wide:\n  extends: h264-720p\n")}
	head := "      path: a.mp4\n      output_dir: out\n"
	for task, want := range map[string]string{
		head + "      profile: preview\n":                                                             "",
		head + "      profile: \"{{ params.work }}\"\n":                                               "",
		head + "      profile: {name: small, extends: preview}\n":                                     "",
		head + "      profile: previev\n":                                                             `films/demo.yml:10:16: error: demo.tasks.t.profile: no profile has the name "previev"; did you mean preview? `,
		head + "      profile: wide\n":                                                                `no profile has the name "wide"; there are audio-aac`,
		head + "      expand: {profile: [preview, h264-72p]}\n":                                       `films/demo.yml:10:35: error: demo.tasks.t.expand.profile[1]: no profile has the name "h264-72p"; did you mean h264-720p? `,
		head + "      partial: {profile: hevc1080p}\n      expand: {path: [a]}\n":                     "did you mean hevc-1080p?",
		head + "      profile: {name: x, extends: prevue}\n":                                          "did you mean preview?",
		head + "      profile: {name: x, extends: preview, video: {qualty: 3}}\n":                     "films/demo.yml:10:60: error: demo.tasks.t.profile.video.qualty: ",
		head + "      profile: preview\n      require_encoder: libx246\n":                             `films/demo.yml:11:24: error: demo.tasks.t.require_encoder: no encoder of h264, which profile preview makes, has the name "libx246"; did you mean libx264? `,
		head + "      profile: preview\n      require_encoder: libx265\n":                             "no encoder of h264",
		head + "      profile: preview\n      deterministic: true\n      accelerator: gpu\n":          "films/demo.yml:11:22: error: demo.tasks.t.deterministic: ",
		head + "      profile: preview\n      max_frames: -1\n":                                       "max_frames",
		head + "      profile: previev\n      accelerator: cuda\n":                                    `no profile has the name "previev"`,
		"      path: a\n      profile: preview\n      output_dir: \"{{ params.wrk }}\"\n":             `films/demo.yml:10:19: warning: demo.tasks.t.output_dir: the template fails where a run's conf does not give it: params.wrk: nothing declares this param; did you mean "work"?`,
		"      path: a\n      profile: preview\n      output_dir: \"{{ parms.work }}/x\"\n":           `films/demo.yml:10:19: error: demo.tasks.t.output_dir: the template fails: "parms" is not defined; did you mean "params"?`,
		"      path: a\n      profile: preview\n      output_dir: \"{{ params.work\"\n":               "films/demo.yml:10:19: error: demo.tasks.t.output_dir: the template fails: ",
		"      expand: {path: [a, \"{{ nothing }}\"]}\n      profile: preview\n      output_dir: o\n": `films/demo.yml:8:26: error: demo.tasks.t.expand.path[1]: the template fails: "nothing" is not defined`,
	} {
		got := told(t, load.Options{}, dagOf(task), own, elsewhere)
		if want == "" {
			require.Empty(t, got, task)
			continue
		}
		require.NotEmpty(t, got, task)
		if len(got) > 1 { // a wrong value of a closed list stands beside
			got[0] += "\n" + got[1]
		}
		require.Contains(t, got[0], want, task)
	}
}

// The file of profiles has places of its own, and breaks only the DAGs beside it.
func TestProfilesAreCheckedWhenTheFileIsRead(t *testing.T) {
	t.Parallel()
	task := "      path: a\n      output_dir: o\n      profile: h264-720p\n"
	for file, want := range map[string]string{
		"":                   "",
		"# nothing\n":        "",
		"a:\n  extends: b\n": `films/profiles.yml:2:3: error: a.extends: profile a: extends: "b" is no profile`,
		"ok: {extends: h264-720p}\nweb:\n  container: webm\n  video:\n    codec: h264\n": "films/profiles.yml:3:3: error: web.container: ",
		"a:\n  video:\n    codec: h265\n":                                                "films/profiles.yml:3:5: error: a.video.codec: ",
		"a:\n  extends: h264-720p\n  video:\n    quality: fine\n":                        "films/profiles.yml:4:5: error: a.video.quality: profile a: video: quality: found a text, and it must be a whole number",
		"a:\n  extends: h264-720p\n  video: {max_widht: 2}\n":                            "films/profiles.yml:3:11: error: a.video.max_widht: profile a: video: max_widht: it is no key of a profile; did you mean max_width?",
		"a:\n  extends: h264-720p\n  conteiner: mkv\n":                                   "did you mean container?",
		"a: 3\n":             "films/profiles.yml:1:4: error: a: profile a must be a mapping",
		"- a\n":              "films/profiles.yml:1:1: error: the file of profiles must be a mapping",
		"a:\n  b: [\n":       "films/profiles.yml:3:1: error: the file of profiles cannot be read: ",
		"a:\n  extends: a\n": "films/profiles.yml:2:3: error: a.extends: ",
		"a: {extends: h264-720p}\na: {extends: h264-720p}\n": "films/profiles.yml:2:1: error: ",
	} {
		files := []bundle.File{dagOf(task), {Path: "films/profiles.yml", Data: []byte(file)}}
		other := dagOf(task)
		other.Path, other.Data = "series/other.yml", append([]byte("other"), other.Data[len("demo"):]...)
		got := load.Files(append(files, other), load.Options{Specs: specs()})
		if want == "" {
			require.Empty(t, got.Problems, file)
			require.Len(t, got.DAGs, 2, file)
			continue
		}
		require.Len(t, got.DAGs, 1, "%s: %v", file, got.Problems)
		require.Equal(t, "other", got.DAGs[0].ID)
		require.Equal(t, []string{"films/demo.yml"}, got.Broken)
		require.Contains(t, told(t, load.Options{}, files...), "films/demo.yml: error: the file inherits from films/profiles.yml, which has errors; repair films/profiles.yml first")
		last := got.Problems[len(got.Problems)-1].String()
		require.Contains(t, last, want, file)
	}
	got := told(t, load.Options{}, dagOf("      path: a\n      output_dir: o\n      profile: mine\n"), bundle.File{Path: "films/profiles.yaml", Data: []byte("mine: {extends: h264-720p}\n")})
	require.Contains(t, got[0], "films/profiles.yaml is not read: name it profiles.yml")
}

// Folders are looked at only where the caller says how.
func TestFoldersAreLookedAt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "films", "in"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "films", "taken"), nil, 0o600))
	stat := load.Options{Stat: func(path string) (os.FileInfo, error) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		return os.Stat(path)
	}}
	step := func(path, out string) bundle.File {
		return dagOf("      path: " + path + "\n      profile: h264-720p\n      output_dir: " + out + "\n")
	}
	require.Empty(t, told(t, stat, step("in/not_yet.mp4", "made_later")))
	require.Empty(t, told(t, load.Options{}, step("nowhere/a.mp4", "taken")))
	got := told(t, stat, step("nowhere/a.mp4", "taken"))
	require.Len(t, got, 2)
	require.Contains(t, got[0], "films/demo.yml:8:13: warning: demo.tasks.t.path: the folder nowhere is not on this machine")
	require.Contains(t, got[1], "films/demo.yml:10:19: error: demo.tasks.t.output_dir: taken is a file")
	probes := bundle.File{Path: "films/demo.yml", Data: []byte("demo:\n  start_date: 2026-01-01\n  schedule: null\n  tasks:\n    t:\n      operator: probe\n      expand: {path: [in/a.mp4, out/b.mp4]}\n")}
	require.Equal(t, []string{"films/demo.yml:7:33: warning: demo.tasks.t.expand.path[1]: the folder out is not on this machine; the step fails unless it is made before it runs"}, told(t, stat, probes))
	require.Equal(t, dag.SeverityWarning, load.Files([]bundle.File{probes}, load.Options{Specs: specs(), Stat: stat.Stat}).Problems[0].Severity)
}
