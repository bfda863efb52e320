package transcode_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator/transcode"
)

// film makes a clip with a key frame each second, sound, and whatever else the
// arguments say. It is made once for all tests that ask for the same.
func film(t testing.TB, args ...string) string {
	t.Helper()
	sum := sha256.Sum256([]byte(strings.Join(args, " ")))
	return shared(t, fmt.Sprintf("film-%x.mp4", sum[:8]), func(path string) *exec.Cmd {
		all := append([]string{"-v", "error", "-f", "lavfi", "-i", "testsrc2=s=96x64:r=12:d=8", "-f", "lavfi", "-i", "sine=d=8"}, args...)
		return exec.Command("ffmpeg", append(all, "-c:a", "aac", "-b:a", "48k", path)...)
	})
}

func x264(more ...string) []string {
	return append([]string{"-c:v", "libx264", "-preset", "veryfast", "-g", "12"}, more...)
}

func manifest(t testing.TB, res *transcode.Result) transcode.Manifest {
	t.Helper()
	data, err := os.ReadFile(manifestOf(res))
	require.NoError(t, err)
	var m transcode.Manifest
	require.NoError(t, json.Unmarshal(data, &m))
	return m
}

// The pieces make the whole: all frames, the same length, sound in one piece,
// and the same bytes each time, however many are made at once.
func TestChunkedIsTheWhole(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"plain":          film(t, x264()...),
		"the video late": film(t, x264("-filter:v", "setpts=PTS+0.5/TB")...),
		"uneven frames":  film(t, x264("-filter:v", "select='not(eq(mod(n,7),3))',setpts=PTS", "-fps_mode", "vfr")...),
		"open groups":    film(t, x264("-x264-params", "open-gop=1:bframes=3:scenecut=0")...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := fast(map[string]any{"video": map[string]any{"codec": "h264", "quality": 30, "preset": "veryfast"}})
			var hashes []string
			whole := succeed(t, attempt(t, map[string]any{"path": in, "profile": p}))
			source, b := inspect(t, in), inspect(t, whole.Path)
			counts := []int{3}
			if name == "plain" {
				counts = []int{1, 3}
			}
			for _, workers := range counts {
				f := attempt(t, map[string]any{"path": in, "profile": p, "chunk_duration": 2.0, "chunk_workers": workers})
				res := succeed(t, f)
				hashes = append(hashes, res.OutputSHA256)
				m := manifest(t, res)
				if name == "uneven frames" {
					require.Len(t, m.Chunks, 4)
				} else {
					require.Len(t, m.Chunks, 5, "eight seconds in pieces of two, first and last frame included\n%s", f.Output)
				}
				detail := f.Details()[len(f.Details())-1].(transcode.Detail)
				require.Equal(t, len(m.Chunks)-1, detail.Rungs[0].Chunks)
				entries, err := os.ReadDir(filepath.Dir(res.Path))
				require.NoError(t, err)
				require.Len(t, entries, 2, "no piece is left")

				a := inspect(t, res.Path)
				require.Equal(t, source.Packets[0].Count, a.Packets[0].Count, "every frame of the input")
				require.Equal(t, b.Packets[0].Count, a.Packets[0].Count)
				require.InDelta(t, b.Packets[0].First, a.Packets[0].First, 0.002)
				require.InDelta(t, b.Packets[0].End, a.Packets[0].End, 0.01)
				require.InDelta(t, b.Packets[1].First, a.Packets[1].First, 0.002)
				require.InDelta(t, b.Packets[1].Sum, a.Packets[1].Sum, 0.05)
			}
			require.Equal(t, hashes[0], hashes[len(hashes)-1])
		})
	}
}

// Where pieces would not be the whole there is one, and the log says why.
func TestNotChunked(t *testing.T) {
	t.Parallel()
	in := film(t, x264()...)
	for why, c := range map[string]struct {
		path  string
		video map[string]any
	}{
		"aimed at over the whole":   {video: map[string]any{"codec": "h264", "bitrate": "100k", "preset": "ultrafast"}},
		"frames before":             {video: map[string]any{"codec": "h264", "quality": 30, "preset": "ultrafast", "filters": []any{"hqdn3d"}}},
		"by a count over the whole": {video: map[string]any{"codec": "h264", "quality": 30, "preset": "ultrafast", "fps_mode": "cfr"}},
		"too short, or has too few": {path: media(t, "good.mp4")},
	} {
		args := map[string]any{"path": in, "chunk_duration": 2.0}
		if c.path != "" {
			args["path"] = c.path
		}
		if c.video != nil {
			args["profile"] = fast(map[string]any{"video": c.video})
		}
		f := attempt(t, args)
		res := succeed(t, f)
		require.Contains(t, f.Output.String(), why)
		require.Empty(t, manifest(t, res).Chunks)
	}
}

// An attempt that is ended in the middle loses the piece that it was at.
func TestChunkedGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	in := film(t, x264()...)
	args := map[string]any{"path": in, "chunk_duration": 2.0, "chunk_workers": 1}
	f := attempt(t, args)
	f.Args["ffmpeg"] = fake(t, "third-piece-fails")
	out := step().Run(t.Context(), f.Task)
	require.Equal(t, dag.OutcomeFailed, out.Kind)
	require.Equal(t, dag.ClassTransient, out.Err.Class, "%v", out.Err)
	pieces, err := filepath.Glob(filepath.Join(f.Args["output_dir"].(string), "derived", "fast", ".*.chunks", "*.mp4"))
	require.NoError(t, err)
	require.Len(t, pieces, 2)
	rest, err := filepath.Glob(filepath.Join(filepath.Dir(pieces[0]), "*.part"))
	require.NoError(t, err)
	require.Empty(t, rest, "the piece that failed")
	require.NoError(t, os.Truncate(pieces[0], 100)) // somebody damaged one since

	next := again(t, f, map[string]any{"ffmpeg": "ffmpeg"})
	res := succeed(t, next)
	require.Regexp(t, filepath.Base(pieces[0])+`\.\d+-\d+\.part`, next.Output.String(), "a name that no other attempt writes to")
	require.Equal(t, 1, strings.Count(next.Output.String(), "is there already"), next.Output.String())
	require.Equal(t, int64(96), inspect(t, res.Path).Packets[0].Count)
	require.Equal(t, res.OutputSHA256, succeed(t, attempt(t, args)).OutputSHA256)
}

// The same bytes, or a refusal.
func TestDeterministicOrRefused(t *testing.T) {
	t.Parallel()
	in := film(t, x264()...)
	for name, changes := range map[string]map[string]any{
		"h264":           {},
		"h264 in pieces": {"chunk_duration": 2.0},
		"hevc":           {"profile": fast(map[string]any{"video": map[string]any{"codec": "hevc", "quality": 30, "preset": "veryfast"}})},
		"av1":            {"profile": fast(map[string]any{"video": map[string]any{"codec": "av1", "quality": 50, "preset": "ultrafast"}})},
		"matroska":       {"profile": fast(map[string]any{"container": "mkv"})},
		"sound":          {"profile": "audio-opus"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var hash string
			for range 2 {
				f := attempt(t, map[string]any{"path": in, "deterministic": true})
				for k, v := range changes {
					f.Args[k] = v
				}
				out := step().Run(t.Context(), f.Task)
				if out.Err != nil && out.Err.Class == dag.ClassCapability {
					t.Skipf("this ffmpeg cannot: %v", out.Err)
				}
				require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v\n%s", out.Err, f.Output)
				res := out.ReturnValue.(*transcode.Result)
				if hash != "" {
					require.Equal(t, hash, res.OutputSHA256)
				}
				hash = res.OutputSHA256
			}
		})
	}
	for name, changes := range map[string]map[string]any{
		"a GPU's encoder":    {"accelerator": "gpu"},
		"h264_nvenc":         {"require_encoder": "h264_nvenc"},
		"4 threads":          {"threads": 4},
		"set -threads":       {"profile": fast(map[string]any{"args": []any{"-threads", "4"}})},
		"creation_time=now":  {"profile": fast(map[string]any{"metadata": map[string]any{"set": map[string]any{"creation_time": "now"}}})},
		"the tag creation_t": {"profile": fast(map[string]any{"args": []any{"-metadata", "creation_time=now"}})},
	} {
		f := attempt(t, map[string]any{"path": in, "deterministic": true})
		for k, v := range changes {
			f.Args[k] = v
		}
		out := step().Run(t.Context(), f.Task)
		require.Equal(t, dag.OutcomeFailed, out.Kind, name)
		require.Equal(t, "INVALID_ARGUMENT", out.Err.Code, name)
		require.Contains(t, out.Err.Message, name)
	}
}
