package ffmpeg_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
	"github.com/airlock-dag/airlock/executor/ffmpeg"
)

func realTool(t *testing.T) ffmpeg.Tool {
	t.Helper()
	tool, err := ffmpeg.Detect(t.Context(), "ffmpeg", "ffprobe", "")
	require.NoError(t, err)
	return tool
}

// One look says what two looks say.
func TestInspectIsProbeAndPackets(t *testing.T) {
	t.Parallel()
	tool := realTool(t)
	files, err := filepath.Glob("testdata/media/*.m*")
	require.NoError(t, err)
	require.Greater(t, len(files), 15)
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			got, err := tool.Inspect(t.Context(), path, true)
			probe, probeErr := tool.Probe(t.Context(), path)
			if probeErr != nil {
				require.Error(t, err)
				require.Equal(t, codeOf(t, probeErr), codeOf(t, err))
				return
			}
			require.NoError(t, err)
			require.Equal(t, probe, got.Probe)
			packets, err := tool.Packets(t.Context(), path)
			require.NoError(t, err)
			require.Equal(t, packets, got.Packets)
			if v := probe.Video(); v != nil {
				require.NotEmpty(t, got.KeyTimes)
				require.Len(t, got.Times, int(got.Packets[v.Index].Count))
				require.LessOrEqual(t, len(got.KeyTimes), len(got.Times))
				require.IsNonDecreasing(t, got.Times)
			}
		})
	}
}

func TestProbeTellsChaptersAndColor(t *testing.T) {
	t.Parallel()
	tool := realTool(t)
	p, err := tool.Probe(t.Context(), "testdata/media/chapters.mp4")
	require.NoError(t, err)
	require.Equal(t, []ffmpeg.Chapter{{Start: 0, End: 1, Title: "one"}, {Start: 1, End: 2, Title: "two"}}, p.Chapters)
	require.Nil(t, p.Video().Color, "the file says nothing")

	path := filepath.Join(t.TempDir(), "hdr.mp4")
	out, err := exec.Command("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=64x64:d=0.2", "-pix_fmt", "yuv420p10le", "-c:v", "libx265", "-x265-params", "log-level=error",
		"-color_primaries", "bt2020", "-color_trc", "smpte2084", "-colorspace", "bt2020nc", "-color_range", "tv", path).CombinedOutput()
	require.NoError(t, err, string(out))
	p, err = tool.Probe(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, &ffmpeg.Color{Range: "tv", Space: "bt2020nc", Primaries: "bt2020", Transfer: "smpte2084", HDR: true}, p.Video().Color)
}

// A remembered hash serves as long as the file is the same, whoever tries to
// hide that it is not.
func TestHashCache(t *testing.T) {
	t.Parallel()
	clock := dagtest.NewClock(time.Now())
	cache := &ffmpeg.HashCache{Clock: clock}
	path := filepath.Join(t.TempDir(), "a.bin")
	write := func(text string) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	hash := func() string {
		in, err := cache.ReadInput(t.Context(), path)
		require.NoError(t, err)
		require.Equal(t, path, in.Path)
		fresh, err := ffmpeg.ReadInput(t.Context(), path)
		require.NoError(t, err)
		require.Equal(t, fresh, in)
		return in.SHA256
	}
	write("aaaa")
	first := hash()
	clock.Advance(time.Hour) // old enough to be remembered from now on
	require.Equal(t, first, hash())
	require.Equal(t, first, hash())

	info, err := os.Stat(path)
	require.NoError(t, err)
	write("bbbb") // the same size, and the time set back
	require.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
	require.NotEqual(t, first, hash())

	require.NoError(t, os.Remove(path))
	_, err = cache.ReadInput(t.Context(), path)
	require.Equal(t, ffmpeg.CodeInputMissing, codeOf(t, err))
	write("cccc")

	var none *ffmpeg.HashCache
	in, err := none.ReadInput(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, int64(4), in.Size)
}

// A version is asked once, and again when the program or a while has passed.
func TestDetector(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, note := filepath.Join(dir, "ffmpeg"), filepath.Join(dir, "starts")
	script := "#!/bin/sh\necho x >>" + note + "\necho ffmpeg version VERSION\n"
	write := func(version string) {
		dagtest.Program(t, program, strings.ReplaceAll(script, "VERSION", version))
	}
	starts := func() int {
		data, err := os.ReadFile(note)
		require.NoError(t, err)
		return strings.Count(string(data), "x")
	}
	clock := dagtest.NewClock(time.Now())
	d := &ffmpeg.Detector{Clock: clock}
	detect := func(marker string) ffmpeg.Tool {
		tool, err := d.Detect(t.Context(), program, program, marker)
		require.NoError(t, err)
		require.Equal(t, marker, tool.Marker)
		return tool
	}
	write("5.1")
	require.Equal(t, 5, detect("m1").Version.Major)
	require.Equal(t, 5, detect("m2").Version.Major)
	require.Equal(t, 1, starts())
	write("6.0.1")
	clock.Advance(time.Second) // the files are looked at once a second
	require.Equal(t, 6, detect("m1").Version.Major)
	require.Equal(t, 2, starts())
	clock.Advance(time.Hour)
	detect("m1")
	require.Equal(t, 3, starts())
	require.NoError(t, os.Remove(program))
	clock.Advance(time.Second)
	_, err := d.Detect(t.Context(), program, program, "")
	require.Equal(t, ffmpeg.CodeFFmpegMissing, codeOf(t, err))
}

// codeOf is the code of a task's error.
func codeOf(t *testing.T, err error) string {
	t.Helper()
	var e *dag.TaskError
	require.ErrorAs(t, err, &e)
	return e.Code
}
