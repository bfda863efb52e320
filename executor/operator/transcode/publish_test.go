package transcode_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
	"github.com/airlock-dag/airlock/executor/operator/transcode"
)

// again is another attempt at what a fixture did.
func again(t testing.TB, f *operatortest.Fixture, changes map[string]any) *operatortest.Fixture {
	t.Helper()
	args := map[string]any{}
	for k, v := range f.Args {
		args[k] = v
	}
	for k, v := range changes {
		args[k] = v
	}
	next := operatortest.New(t, args)
	next.TI.Fence = f.TI.Fence + 1
	return next
}

func succeed(t testing.TB, f *operatortest.Fixture) *transcode.Result {
	t.Helper()
	out := step().Run(t.Context(), f.Task)
	require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v\n%s", out.Err, f.Output)
	res, ok := out.ReturnValue.(*transcode.Result)
	require.True(t, ok)
	return res
}

func manifestOf(res *transcode.Result) string {
	return strings.TrimSuffix(res.Path, filepath.Ext(res.Path)) + ".json"
}

// What counts as done is proved; anything less is made again.
func TestOnlyAProvedOutputIsSkipped(t *testing.T) {
	t.Parallel()
	made := attempt(t, map[string]any{"path": media(t, "good.mp4")})
	require.False(t, succeed(t, made).Skipped)
	for name, c := range map[string]struct {
		damage  func(t *testing.T, res *transcode.Result)
		changes map[string]any
		skipped bool
		log     string
	}{
		"as it was":      {skipped: true, log: "skipped"},
		"source is gone": {changes: map[string]any{"asset": "set below"}, skipped: true},
		"no manifest":    {damage: func(t *testing.T, res *transcode.Result) { require.NoError(t, os.Remove(manifestOf(res))) }, log: "without a manifest"},
		"no file":        {damage: func(t *testing.T, res *transcode.Result) { require.NoError(t, os.Remove(res.Path)) }, log: "is not there"},
		"empty file":     {damage: func(t *testing.T, res *transcode.Result) { require.NoError(t, os.WriteFile(res.Path, nil, 0o644)) }, log: "0 bytes"},
		"half a file":    {damage: func(t *testing.T, res *transcode.Result) { require.NoError(t, os.Truncate(res.Path, res.Size/2)) }, log: "its manifest says"},
		"one byte differs": {damage: func(t *testing.T, res *transcode.Result) {
			data, err := os.ReadFile(res.Path)
			require.NoError(t, err)
			data[len(data)/2] ^= 1
			require.NoError(t, os.WriteFile(res.Path, data, 0o644))
		}, log: "hash"},
		"broken manifest": {damage: func(t *testing.T, res *transcode.Result) {
			require.NoError(t, os.WriteFile(manifestOf(res), []byte(`{"schema_version":`), 0o644))
		}, log: "cannot be read"},
		"manifest of another input": {damage: func(t *testing.T, res *transcode.Result) {
			data, err := os.ReadFile(manifestOf(res))
			require.NoError(t, err)
			data = []byte(strings.ReplaceAll(string(data), res.AssetSHA256, strings.Repeat("0", 64)))
			require.NoError(t, os.WriteFile(manifestOf(res), data, 0o644))
		}, log: "another input"},
		"another profile of the same name": {
			changes: map[string]any{"profile": fast(map[string]any{"audio": map[string]any{"codec": "aac", "bitrate": "32k"}})},
			log:     "profile or the tools have changed",
		},
		"another encoder is required": {changes: map[string]any{"require_encoder": "libopenh264"}, log: "libopenh264 is required"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := filepath.Join(t.TempDir(), "in.mp4")
			data, err := os.ReadFile(media(t, "good.mp4"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(in, data, 0o644))
			f := attempt(t, map[string]any{"path": in})
			// A catalogue may be moved: each case has a copy of its own.
			require.NoError(t, os.CopyFS(f.Args["output_dir"].(string), os.DirFS(made.Args["output_dir"].(string))))
			first := succeed(t, f)
			require.True(t, first.Skipped)
			if c.damage != nil {
				c.damage(t, first)
			}
			if name == "source is gone" {
				c.changes = map[string]any{"path": nil, "asset": map[string]any{"path": in, "asset_sha256": first.AssetSHA256}}
				require.NoError(t, os.Remove(in))
			}
			f = again(t, f, c.changes)
			if name == "another encoder is required" { // which this ffmpeg need not have
				out := step().Run(t.Context(), f.Task)
				require.Contains(t, f.Output.String(), c.log)
				require.Equal(t, "NO_USABLE_ENCODER", out.Err.Code)
				require.Equal(t, first.OutputSHA256, hashOf(t, first.Path), "the old output is still there")
				return
			}
			second := succeed(t, f)
			require.Equal(t, c.skipped, second.Skipped)
			require.Contains(t, f.Output.String(), c.log)
			require.Equal(t, second.OutputSHA256, hashOf(t, second.Path))
			require.Equal(t, first.AssetSHA256, second.AssetSHA256)
			third := succeed(t, again(t, f, nil))
			require.True(t, third.Skipped)
		})
	}
}

func TestPinLooseOutlivesAnUpgrade(t *testing.T) {
	t.Parallel()
	for pin, skipped := range map[string]bool{"strict": false, "loose": true} {
		f := attempt(t, map[string]any{"path": media(t, "no_audio.mp4"), "profile": fast(map[string]any{"pin": pin})})
		res := succeed(t, f)
		// As if it had been made by another release.
		data, err := os.ReadFile(manifestOf(res))
		require.NoError(t, err)
		var m transcode.Manifest
		require.NoError(t, json.Unmarshal(data, &m))
		older := m.Tools
		older.Text = "4.4"
		m.ProfileDigest, err = m.Profile.Digest(older, false, 0)
		require.NoError(t, err)
		data, err = json.Marshal(m)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(manifestOf(res), data, 0o644))
		require.Equal(t, skipped, succeed(t, again(t, f, nil)).Skipped, pin)
	}
}

func TestDeterministicGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	args := map[string]any{"path": media(t, "good.mp4"), "deterministic": true}
	a, b := succeed(t, attempt(t, args)), succeed(t, attempt(t, args))
	require.Equal(t, a.OutputSHA256, b.OutputSHA256)
	require.Equal(t, "libx264", a.Encoder)
}

func TestLeaseIsAskedBeforeThePublicNameChanges(t *testing.T) {
	t.Parallel()
	f := attempt(t, map[string]any{"path": media(t, "good.mp4")})
	f.Lost = true
	out := step().Run(t.Context(), f.Task)
	require.Equal(t, dag.OutcomeFailed, out.Kind)
	require.Equal(t, "LEASE_LOST", out.Err.Code)
	nothingPublished(t, f)
}

func TestTwoWorkersOneKey(t *testing.T) {
	t.Parallel()
	f := attempt(t, map[string]any{"path": media(t, "good.mp4")})
	fixtures := []*operatortest.Fixture{f, again(t, f, nil), again(t, f, nil), again(t, f, nil)}
	results := make([]*transcode.Result, len(fixtures))
	var wg sync.WaitGroup
	for i, fx := range fixtures {
		wg.Go(func() {
			// Each worker has an operator of its own, as in another process.
			out := worker().Run(context.Background(), fx.Task)
			results[i], _ = out.ReturnValue.(*transcode.Result)
			if results[i] == nil {
				t.Errorf("%v", out.Err)
			}
		})
	}
	wg.Wait()
	made := 0
	for _, r := range results {
		require.NotNil(t, r)
		require.Equal(t, results[0].OutputSHA256, r.OutputSHA256)
		if !r.Skipped {
			made++
		}
	}
	require.Equal(t, 1, made)
	entries, err := os.ReadDir(filepath.Dir(results[0].Path))
	require.NoError(t, err)
	require.Len(t, entries, 2, "the output and its manifest, no lock and no temporary file")
}

// What dead workers left is removed, of this key and of others; what a living
// one is at stays, and pieces stay for a day for whoever goes on with them.
func TestLeftoversGo(t *testing.T) {
	t.Parallel()
	f := attempt(t, map[string]any{"path": media(t, "good.mp4")})
	mine, dead, living, strange := hashOf(t, media(t, "good.mp4")), strings.Repeat("1", 64), strings.Repeat("2", 64), "notes"
	dir := filepath.Join(f.Args["output_dir"].(string), "derived", "fast")
	write := func(name string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("half"), 0o644))
		return path
	}
	gone := []string{
		write("." + mine + ".mp4.77-1.part"), write("." + mine + ".json.77-1.part"), write("." + dead + ".mp4.78-1.part"),
		write("." + dead + ".json.78-1.part"), write("." + strings.Repeat("3", 64) + ".mp4.lock"), write("." + dead + ".mp4.chunks/00000-ab.mp4"),
	}
	yesterday := time.Now().Add(-25 * time.Hour)
	require.NoError(t, os.Chtimes(filepath.Dir(gone[5]), yesterday, yesterday))
	lock, err := os.OpenFile(write("."+living+".mp4.lock"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer lock.Close()
	require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	stay := []string{
		write("." + living + ".mp4.79-1.part"), write("." + living + ".mp4.lock"), write("." + strange + ".part"), write(dead + ".mp4"),
		write("." + strings.Repeat("4", 64) + ".mp4.chunks/00000-ab.mp4"),
	}
	succeed(t, f)
	for _, path := range gone {
		require.NoFileExists(t, path)
	}
	for _, path := range stay {
		require.FileExists(t, path)
	}
	require.NoFileExists(t, filepath.Join(dir, "."+mine+".mp4.lock"))
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	all, err := transcode.Profiles(t.TempDir())
	require.NoError(t, err)
	for _, name := range []string{"h264-1080p", "h264-720p", "hevc-1080p", "av1-1080p", "audio-aac", "audio-opus"} {
		require.Contains(t, all, name)
	}

	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "profiles.yml"), []byte(`
small:
  extends: h264-720p
  video: {max_height: 32}
  audio: null
h264-720p: {video: {codec: hevc, quality: 30}}
`), 0o644))
	all, err = transcode.Profiles(dir)
	require.NoError(t, err)
	require.Equal(t, "hevc", all["h264-720p"].Video.Codec, "the file's takes the place of the built-in one")
	require.Equal(t, "hevc", all["small"].Video.Codec)
	require.Equal(t, 32, all["small"].Video.MaxHeight)
	require.Nil(t, all["small"].Audio)

	pipe := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(pipe, "profiles.yml"), 0o600))
	_, err = transcode.Profiles(pipe)
	require.ErrorContains(t, err, filepath.Join(pipe, "profiles.yml")+": not a regular file but a named pipe")

	for text, want := range map[string]string{
		"a: {extends: b}\nb: {extends: a}":                             "extends it",
		"a: {extends: nosuch}":                                         "is no profile",
		"a: {video: {codec: h264, crf: 3}}":                            "crf",
		"a: {video: {codec: theora}}":                                  "use h264, hevc or av1",
		"a: {container: mp4}":                                          "neither video nor audio",
		"a: {container: avi, audio: {codec: aac}}":                     "container",
		"a: {audio: {codec: opus, sample_rate: 44100}}":                "48000",
		"a: {audio: {codec: aac, bitrate: lots}}":                      "bitrate",
		"a: {audio: {codec: aac}, args: [-i, /etc/passwd]}":            "-i is set by the step itself",
		"../a: {audio: {codec: aac}}":                                  "letters",
		"a: {video: {codec: h264, preset: hasty}}":                     "ultrafast",
		"a: {video: {codec: h264, fps_mode: some}}":                    "fps_mode",
		"a: {audio: {codec: aac}, pin: tight}":                         "pin",
		"a: [1]":                                                       "profiles.yml",
		"a: {audio: {codec: aac}, max_duration: -1}":                   "max_duration",
		"a: {video: {codec: h264, pixel_format: rgb24}}":               "pixel_format",
		"a: {video: {codec: h264, quality: 900}}":                      "quality",
		"a: {video: {codec: h264, max_width: -4}}":                     "max_width",
		"a: {video: {codec: h264, max_fps: -4}}":                       "max_fps",
		"a: {video: {codec: h264, quality: 52}}":                       "1 to 51",
		"a: {video: {codec: h264, quality: 20, bitrate: 1M}}":          "one of them decides",
		"a: {video: {codec: h264, bitrate: fast}}":                     "bitrate",
		"a: {video: {codec: h264, buffer: 1M}}":                        "max_rate",
		"a: {video: {codec: h264, bitrate: 2M, max_rate: 1000k}}":      "less than bitrate",
		"a: {video: {codec: av1, max_rate: 1M}}":                       "needs a bitrate",
		"a: {video: {codec: h264, filters: [crop=10]}}":                "crop",
		"a: {video: {codec: h264, filters: ['yadif,movie=x']}}":        "one filter",
		"a: {video: {codec: h264, filters: ['[in]split[a];[a]null']}}": "one filter",
		"a: {video: {codec: h264, keyframe_interval: -1}}":             "keyframe_interval",
		"a: {audio: {codec: aac, filters: [atempo=2]}}":                "atempo",
		"a: {audio: {codec: aac}, subtitles: text}":                    "takes none",
		"a: {video: {codec: h264}, subtitles: burn}":                   "none or text",
		"a: {video: {codec: h264}, container: webm}":                   "av1 only",
		"a: {audio: {codec: aac}, container: opus}":                    "opus only",
		"a: {video: {codec: h264}, container: m4a}":                    "no video",
		"a: {audio: {codec: aac}, metadata: {set: {'a b': c}}}":        "name of a tag",
		"a: {audio: {codec: aac}, metadata: {keep: true}}":             "keep",
		"a: {audio: {codec: aac, channels: 90}}":                       "channels",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "profiles.yml"), []byte(text), 0o644))
		_, err = transcode.Profiles(dir)
		require.ErrorContains(t, err, want, text)
		f := attempt(t, map[string]any{"path": media(t, "good.mp4"), "profile": "h264-720p"})
		f.Dir = dir
		out := step().Run(t.Context(), f.Task)
		require.Equal(t, "INVALID_ARGUMENT", out.Err.Code, text)
	}
}

// Each built-in profile makes what it says, where this ffmpeg has the encoder.
func TestBuiltInProfilesEncode(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][2]string{
		"h264-1080p": {"h264", "aac"}, "h264-720p": {"h264", "aac"}, "hevc-1080p": {"hevc", "aac"},
		"av1-1080p": {"av1", "aac"}, "audio-aac": {"", "aac"}, "audio-opus": {"", "opus"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := attempt(t, map[string]any{"path": media(t, "good.mp4"), "profile": name, "accelerator": "auto"})
			out := step().Run(t.Context(), f.Task)
			if out.Err != nil && out.Err.Class == dag.ClassCapability {
				t.Skipf("this ffmpeg cannot: %v", out.Err)
			}
			require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v\n%s", out.Err, f.Output)
			p := probe(t, out.ReturnValue.(*transcode.Result).Path)
			require.Equal(t, want[1], p.Audio().Codec)
			if want[0] == "" {
				require.Nil(t, p.Video())
			} else {
				require.Equal(t, want[0], p.Video().Codec)
			}
		})
	}
}

func TestScalesDownAndNeverUp(t *testing.T) {
	t.Parallel()
	p := fast(map[string]any{"video": map[string]any{"codec": "h264", "quality": 30, "preset": "ultrafast", "max_width": 50, "max_height": 50}})
	res := succeed(t, attempt(t, map[string]any{"path": media(t, "rotated.mp4"), "profile": p}))
	// 64x96 after rotation, made to fit 50x50: 33.3x50, and even.
	w, h := probe(t, res.Path).Video().DisplaySize()
	require.Equal(t, [2]int{32, 50}, [2]int{w, h})
}

func TestInputThatIsNotTheProbedOne(t *testing.T) {
	t.Parallel()
	f := attempt(t, map[string]any{"asset": map[string]any{"path": media(t, "good.mp4"), "asset_sha256": strings.Repeat("ab", 32)}})
	out := step().Run(t.Context(), f.Task)
	require.Equal(t, "HASH_MISMATCH", out.Err.Code)
	require.Equal(t, dag.ClassPoison, out.Err.Class)

	for _, asset := range []any{7, []any{}, map[string]any{}, map[string]any{"path": "x", "asset_sha256": "../../etc"}, "{broken"} {
		f = attempt(t, map[string]any{"asset": asset})
		out = step().Run(t.Context(), f.Task)
		require.Equal(t, "INVALID_ARGUMENT", out.Err.Code, "%v", asset)
	}
}

func TestDiskFull(t *testing.T) {
	t.Parallel()
	f := attempt(t, map[string]any{"path": media(t, "good.mp4"), "min_free": 1 << 60})
	out := step().Run(t.Context(), f.Task)
	require.Equal(t, "NO_SPACE", out.Err.Code, "found before anything is encoded")
	require.Equal(t, dag.ClassTransient, out.Err.Class)

	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no right to mount a small file system: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	// Twenty seconds of nothing but one colour: a small input, for which this
	// profile makes a large output.
	in := filepath.Join(t.TempDir(), "in.mp4")
	cmd := exec.Command("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "color=c=blue:s=64x64:r=5:d=20", "-f", "lavfi", "-i", "sine=d=20",
		"-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac", "-b:a", "8k", in)
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, string(text))
	large := fast(map[string]any{"audio": map[string]any{"codec": "aac", "bitrate": "256k", "channels": 2}})
	f = attempt(t, map[string]any{"path": in, "profile": large, "output_dir": dir, "min_free": 0})
	out = step().Run(t.Context(), f.Task)
	require.Equal(t, "NO_SPACE", out.Err.Code, "%v\n%s", out.Err, f.Output)
	require.Equal(t, dag.ClassTransient, out.Err.Class)
	nothingPublished(t, f)

	// Space returns: the same attempt again is good.
	require.NoError(t, syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size=4m"))
	require.False(t, succeed(t, again(t, f, nil)).Skipped)
}
