package transcode_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/ffmpeg"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
	"github.com/airlock-dag/airlock/executor/operator/transcode"
)

func media(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../ffmpeg/testdata/media", name))
	require.NoError(t, err)
	return path
}

func hashOf(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// fast is a profile that costs little time.
func fast(changes map[string]any) map[string]any {
	p := map[string]any{
		"name": "fast", "container": "mp4",
		"video": map[string]any{"codec": "h264", "max_width": 1280, "max_height": 720, "quality": 30, "preset": "ultrafast"},
		"audio": map[string]any{"codec": "aac", "bitrate": "48k"},
	}
	maps.Copy(p, changes)
	return p
}

// step is an operator that the tests share, as the attempts of one worker do:
// it tries each encoder once.
var step = sync.OnceValue(transcode.New)

// worker is an operator as another process has it; that it asks the programs for
// their versions is not what it is for.
func worker() *transcode.Operator {
	op := transcode.New()
	op.Versions = step().Versions
	return op
}

// fixtures are files that several tests read, each made once, in a folder that
// TestMain removes.
var fixtures struct {
	sync.Mutex
	dir string
}

// shared gives a file's path, made by a command when it is asked for first.
func shared(t testing.TB, name string, command func(path string) *exec.Cmd) string {
	t.Helper()
	fixtures.Lock()
	defer fixtures.Unlock()
	if fixtures.dir == "" {
		dir, err := os.MkdirTemp("", "transcode-fixtures") //nolint:usetesting // outlives the test that asks first
		require.NoError(t, err)
		fixtures.dir = dir
	}
	path := filepath.Join(fixtures.dir, name)
	if !exists(path) {
		out, err := command(path).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	return path
}

// attempt makes the fixture of a step with an output folder of its own.
func attempt(t testing.TB, args map[string]any) *operatortest.Fixture {
	t.Helper()
	all := map[string]any{"profile": fast(nil), "accelerator": "cpu", "output_dir": t.TempDir()}
	maps.Copy(all, args)
	return operatortest.New(t, all)
}

func probe(t testing.TB, path string) *ffmpeg.Probe {
	t.Helper()
	tool, err := step().Versions.Detect(t.Context(), "ffmpeg", "ffprobe", "")
	require.NoError(t, err)
	p, err := tool.Probe(t.Context(), path)
	require.NoError(t, err)
	return p
}

func inspect(t testing.TB, path string) *ffmpeg.Inspection {
	t.Helper()
	tool, err := step().Versions.Detect(t.Context(), "ffmpeg", "ffprobe", "")
	require.NoError(t, err)
	got, err := tool.Inspect(t.Context(), path, true)
	require.NoError(t, err)
	return got
}

// nothingPublished checks that an output folder holds no file at all.
func nothingPublished(t testing.TB, f *operatortest.Fixture) {
	t.Helper()
	dir, ok := f.Args["output_dir"].(string)
	require.True(t, ok)
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		require.NoError(t, err)
		require.True(t, e.IsDir(), "left behind: %s", path)
		return nil
	}))
}

// Each sample gives its class.
func TestSamples(t *testing.T) {
	t.Parallel()
	audio := map[string]any{"name": "sound", "container": "m4a", "audio": map[string]any{"codec": "aac", "bitrate": "48k", "required": true}}
	soundRequired := fast(map[string]any{"audio": map[string]any{"codec": "aac", "required": true}})
	cfr := fast(map[string]any{"video": map[string]any{"codec": "h264", "quality": 30, "preset": "ultrafast", "fps_mode": "cfr"}})
	short := fast(map[string]any{"max_duration": 3600})
	for _, c := range []struct {
		name string
		file string
		args map[string]any
		code string
		size [2]int
		dur  float64
	}{
		{name: "good", file: "good.mp4", size: [2]int{96, 64}, dur: 2},
		{name: "no audio", file: "no_audio.mp4", size: [2]int{96, 64}, dur: 2},
		{name: "audio required", file: "no_audio.mp4", args: map[string]any{"profile": soundRequired}, code: "NO_AUDIO_STREAM"},
		{name: "vfr", file: "vfr.mp4", size: [2]int{96, 64}, dur: 2},
		{name: "odd size", file: "odd_dimensions.mp4", size: [2]int{96, 64}, dur: 1},
		{name: "ten bit", file: "ten_bit.mp4", size: [2]int{96, 64}, dur: 1},
		{name: "rotated", file: "rotated.mp4", size: [2]int{64, 96}, dur: 2},
		{name: "subtitle", file: "subtitle.mp4", size: [2]int{96, 64}, dur: 2},
		{name: "chapters", file: "chapters.mp4", size: [2]int{96, 64}, dur: 2},
		{name: "mkv as mp4", file: "wrong_extension_mkv.mp4", size: [2]int{96, 64}, dur: 2},
		{name: "mp3 as mp4", file: "wrong_extension_mp3.mp4", code: "NO_VIDEO_STREAM"},
		{name: "mp3 as mp4, audio", file: "wrong_extension_mp3.mp4", args: map[string]any{"profile": audio}, dur: 2},
		{name: "audio only", file: "audio_only.m4a", code: "NO_VIDEO_STREAM"},
		{name: "audio only, audio", file: "audio_only.m4a", args: map[string]any{"profile": audio}, dur: 2},
		{name: "cover", file: "audio_with_cover.m4a", code: "NO_VIDEO_STREAM"},
		{name: "cover, audio", file: "audio_with_cover.m4a", args: map[string]any{"profile": "audio-opus"}, dur: 2},
		{name: "no index", file: "truncated_no_moov.mp4", code: "TRUNCATED"},
		{name: "empty", file: "zero_byte.mp4", code: "INPUT_EMPTY"},
		{name: "text", file: "text_as.mp4", code: "NOT_MEDIA"},
		{name: "playlist", file: "playlist_as.mp4", code: "PLAYLIST_REFUSED"},
		{name: "shortened", file: "truncated_with_moov.mp4", code: "DURATION_MISMATCH"},
		{name: "shortened, duration only", file: "truncated_with_moov.mp4", args: map[string]any{"verify": "duration"}, code: "DURATION_MISMATCH"},
		{name: "damaged", file: "corrupt_middle.mp4", code: "DECODE_ERRORS"},
		{name: "damaged, strict", file: "corrupt_middle.mp4", args: map[string]any{"strict": true}, code: "DECODE_ERRORS"},
		{name: "damaged, tolerant", file: "corrupt_middle.mp4", args: map[string]any{"max_decode_errors": 500}, size: [2]int{96, 64}, dur: 2},
		{name: "lying container", file: "huge_declared_duration.mp4", size: [2]int{96, 64}, dur: 2},
		{name: "gap", file: "timestamp_gap.mp4", size: [2]int{96, 64}, dur: 36000.08},
		{name: "gap, limit", file: "timestamp_gap.mp4", args: map[string]any{"profile": short}, code: "INPUT_TOO_LONG"},
		{name: "gap, constant rate", file: "timestamp_gap.mp4", args: map[string]any{"profile": cfr}, code: "TOO_MANY_FRAMES"},
		{name: "gap, size", file: "timestamp_gap.mp4", args: map[string]any{"profile": cfr, "max_frames": 20000, "max_output_size": 50000}, code: "OUTPUT_TOO_LARGE"},
		{name: "all verified", file: "good.mp4", args: map[string]any{"verify": "full"}, size: [2]int{96, 64}, dur: 2},
		{name: "a word for a number", file: "good.mp4", args: map[string]any{"max_decode_errors": "many"}, code: "INVALID_ARGUMENT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := map[string]any{"path": media(t, c.file)}
			maps.Copy(args, c.args)
			f := attempt(t, args)
			out := step().Run(t.Context(), f.Task)
			if c.code != "" {
				require.Equal(t, dag.OutcomeFailed, out.Kind)
				require.Equal(t, c.code, out.Err.Code, "%v\n%s", out.Err, f.Output)
				if c.code != "INVALID_ARGUMENT" {
					require.Equal(t, dag.ClassPermanent, out.Err.Class, "%v", out.Err)
					require.Equal(t, hashOf(t, media(t, c.file)), out.Err.AssetSHA256)
				}
				nothingPublished(t, f)
				return
			}
			require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v\n%s", out.Err, f.Output)
			res, ok := out.ReturnValue.(*transcode.Result)
			require.True(t, ok)
			require.False(t, res.Skipped)
			require.Equal(t, hashOf(t, media(t, c.file)), res.AssetSHA256)
			require.Equal(t, hashOf(t, res.Path), res.OutputSHA256)
			require.InDelta(t, c.dur, res.DurationS, 0.25)
			require.Equal(t, c.args["max_decode_errors"] != nil, res.DecodeErrors > 0)
			// The manifest has what ffprobe said of the file with this hash.
			got := &ffmpeg.Probe{Streams: manifest(t, res).Streams}
			if c.size[0] > 0 {
				w, h := got.Video().DisplaySize()
				require.Equal(t, c.size, [2]int{w, h})
				require.Equal(t, "h264", got.Video().Codec)
				require.Equal(t, "yuv420p", got.Video().PixelFormat)
			} else {
				require.Nil(t, got.Video())
			}
		})
	}
}

func TestResultAndManifestAreWhatTheContractNames(t *testing.T) {
	t.Parallel()
	in := media(t, "good.mp4")
	f := attempt(t, map[string]any{"asset": map[string]any{"path": in, "asset_sha256": hashOf(t, in), "codec": "h264"}})
	out := step().Run(t.Context(), f.Task)
	require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v", out.Err)
	data, err := json.Marshal(out.ReturnValue)
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(data, &got))
	for _, key := range []string{"asset_sha256", "profile", "path", "output_sha256", "encoder", "skipped", "duration_s", "size"} {
		require.Contains(t, got, key)
	}
	dir := f.Args["output_dir"].(string)
	require.Equal(t, filepath.Join(dir, "derived", "fast", hashOf(t, in)+".mp4"), got["path"])
	require.Equal(t, "libx264", got["encoder"])

	data, err = os.ReadFile(filepath.Join(dir, "derived", "fast", hashOf(t, in)+".json"))
	require.NoError(t, err)
	var m transcode.Manifest
	require.NoError(t, json.Unmarshal(data, &m))
	require.Equal(t, hashOf(t, in), m.AssetSHA256)
	require.Equal(t, hashOf(t, got["path"].(string)), m.Output.SHA256)
	require.Equal(t, "packets", m.Verified)
	require.NotEmpty(t, m.Tools.Libraries)
	require.Len(t, m.ProfileDigest, 64)
	require.NotContains(t, string(data), dir, "a catalogue may be moved")

	// One attempt, one rung, kept beside the record; progress up to the end.
	details := f.Details()
	require.Len(t, details, 1)
	detail := details[0].(transcode.Detail)
	require.Equal(t, "encoded", detail.Rungs[0].Result)
	reports := f.Reports()
	require.NotEmpty(t, reports)
	require.InDelta(t, 1, reports[len(reports)-1].Fraction, 1e-9)
	for _, r := range reports[:len(reports)-1] {
		require.LessOrEqual(t, r.Fraction, 0.99)
	}
}

// asJSON is a value as another task reads it.
func asJSON(t testing.TB, v any) any {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	var out any
	require.NoError(t, json.Unmarshal(data, &out))
	return out
}
