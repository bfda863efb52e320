package transcode_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/executor/operator/transcode"
)

// tags are what a file says of itself, by ffprobe's own words.
func tags(t testing.TB, path string) string {
	t.Helper()
	out, err := exec.Command("ffprobe", "-v", "error", "-show_entries", "format_tags:chapter_tags", "-of", "compact", path).Output()
	require.NoError(t, err)
	return string(out)
}

func TestProfileOfRatesFiltersAndKeyFrames(t *testing.T) {
	t.Parallel()
	in := film(t, x264("-qp", "1")...)
	p := fast(map[string]any{
		"video": map[string]any{
			"codec": "h264", "bitrate": "80k", "max_rate": "120k", "buffer": "120k", "preset": "veryfast", "keyframe_interval": 0.5,
			"filters": []any{"hqdn3d=2", "eq=contrast=1.1"},
		},
		"audio": map[string]any{"codec": "aac", "bitrate": "32k", "filters": []any{"volume=0.5"}},
	})
	f := attempt(t, map[string]any{"path": in, "profile": p})
	res := succeed(t, f)
	require.Contains(t, f.Output.String(), "-vf hqdn3d=2,eq=contrast=1.1,scale=96:64")
	got := inspect(t, res.Path)
	require.Len(t, got.KeyTimes, 16, "two a second")
	rate := float64(got.Video().BitRate)
	require.InDelta(t, 80_000, rate, 50_000, "aimed at 80k and never above 120k")
}

func TestSubtitlesAndTags(t *testing.T) {
	t.Parallel()
	tagged := filepath.Join(t.TempDir(), "tagged.mkv")
	out, err := exec.Command("ffmpeg", "-v", "error", "-i", media(t, "subtitle.mp4"), "-i", media(t, "chapters.mp4"), "-map", "0", "-map_chapters", "1",
		"-c", "copy", "-c:s", "subrip", "-metadata", "title=The Film", "-metadata", "artist=Somebody", tagged).CombinedOutput()
	require.NoError(t, err, string(out))

	kept := succeed(t, attempt(t, map[string]any{"path": tagged, "profile": fast(map[string]any{"subtitles": "text"})}))
	got := inspect(t, kept.Path)
	require.Equal(t, "mov_text", got.Streams[2].Codec)
	require.Len(t, got.Chapters, 2)
	require.Contains(t, tags(t, kept.Path), "The Film")

	web := fast(map[string]any{"container": "mkv", "subtitles": "text"})
	require.Equal(t, "subrip", inspect(t, succeed(t, attempt(t, map[string]any{"path": media(t, "subtitle.mp4"), "profile": web})).Path).Streams[2].Codec)

	bare := succeed(t, attempt(t, map[string]any{"path": tagged, "profile": fast(map[string]any{
		"metadata": map[string]any{"drop": true, "drop_chapters": true, "set": map[string]any{"title": "Another; -y \"name\""}},
	})}))
	require.Empty(t, inspect(t, bare.Path).Chapters)
	require.NotContains(t, tags(t, bare.Path), "Somebody")
	require.Contains(t, tags(t, bare.Path), "Another; -y")
	for _, s := range probe(t, bare.Path).Streams {
		require.NotEqual(t, "subtitle", s.Type)
	}
}

// A profile that extends one of a constant quality may aim at a bit rate.
func TestExtendsWithAnotherRateControl(t *testing.T) {
	t.Parallel()
	p, err := transcode.Inline(map[string]any{"name": "x", "extends": "h264-720p", "video": map[string]any{"bitrate": "2M"}}, t.TempDir())
	require.NoError(t, err)
	require.Equal(t, "2M", p.Video.Bitrate)
	require.Zero(t, p.Video.Quality)
	require.Equal(t, 1280, p.Video.MaxWidth)
	p, err = transcode.Inline(map[string]any{"name": "x", "video": map[string]any{"codec": "hevc"}}, t.TempDir())
	require.NoError(t, err)
	require.Equal(t, 25, p.Video.Quality, "the codec's usual one, and not lossless")
	require.Equal(t, "mp4", p.Container)
}
