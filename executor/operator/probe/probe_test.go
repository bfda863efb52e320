package probe_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/ffmpeg"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
	"github.com/airlock-dag/airlock/executor/operator/probe"
)

const mediaDir = "../../ffmpeg/testdata/media"

func media(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(mediaDir, name))
	require.NoError(t, err)
	return path
}

func hashOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func run(t *testing.T, args map[string]any) (dag.Outcome, *operatortest.Fixture) {
	t.Helper()
	f := operatortest.New(t, args)
	return (&probe.Operator{}).Run(t.Context(), f.Task), f
}

// Each sample gives its class.
func TestSamples(t *testing.T) {
	t.Parallel()
	tool, err := ffmpeg.Detect(t.Context(), "ffprobe", "ffprobe", "")
	require.NoError(t, err)
	version := tool.Version.Major
	for _, c := range []struct {
		file, require, code string
		codec, container    string
		duration            float64
		warning             string
	}{
		{file: "good.mp4", codec: "h264", container: "mp4", duration: 2},
		{file: "no_audio.mp4", codec: "h264", container: "mp4", duration: 2},
		{file: "no_audio.mp4", require: "audio", code: "NO_AUDIO_STREAM"},
		{file: "vfr.mp4", codec: "h264", container: "mp4", duration: 2},
		{file: "odd_dimensions.mp4", codec: "h264", container: "mp4", duration: 1},
		{file: "ten_bit.mp4", codec: "h264", container: "mp4", duration: 1},
		{file: "rotated.mp4", codec: "h264", container: "mp4", duration: 2},
		{file: "subtitle.mp4", codec: "h264", container: "mp4", duration: 2},
		{file: "chapters.mp4", codec: "h264", container: "mp4", duration: 2},
		{file: "corrupt_middle.mp4", codec: "h264", container: "mp4", duration: 2}, // only a decoder sees it
		{file: "truncated_with_moov.mp4", codec: "h264", container: "mp4", duration: 2},
		{file: "timestamp_gap.mp4", codec: "h264", container: "mp4", duration: 2, warning: "absurd duration"},
		{file: "huge_declared_duration.mp4", codec: "h264", container: "mp4", duration: 2.046, warning: "absurd duration"},
		{file: "wrong_extension_mkv.mp4", codec: "h264", container: "matroska", duration: 2.046, warning: "wrong extension"},
		{file: "wrong_extension_mp3.mp4", codec: "mp3", container: "mp3", duration: 2.06, warning: "wrong extension"},
		{file: "wrong_extension_mp3.mp4", require: "video", code: "NO_VIDEO_STREAM"},
		{file: "audio_only.m4a", codec: "aac", container: "m4a", duration: 2},
		{file: "audio_only.m4a", require: "video", code: "NO_VIDEO_STREAM"},
		{file: "audio_with_cover.m4a", codec: "aac", container: "m4a", duration: 2},
		{file: "audio_with_cover.m4a", require: "video", code: "NO_VIDEO_STREAM"},
		{file: "truncated_no_moov.mp4", code: "TRUNCATED"},
		{file: "zero_byte.mp4", code: "INPUT_EMPTY"},
		{file: "text_as.mp4", code: "NOT_MEDIA"},
		{file: "playlist_as.mp4", code: "PLAYLIST_REFUSED"},
	} {
		t.Run(c.file+c.require, func(t *testing.T) {
			t.Parallel()
			path := media(t, c.file)
			args := map[string]any{"path": path}
			if c.require != "" {
				args["require"] = c.require
			}
			out, f := run(t, args)
			if c.code != "" {
				require.Equal(t, dag.OutcomeFailed, out.Kind)
				require.Equal(t, c.code, out.Err.Code, "%v", out.Err)
				require.Equal(t, dag.ClassPermanent, out.Err.Class, "%v", out.Err)
				require.Equal(t, hashOf(t, path), out.Err.AssetSHA256)
				return
			}
			require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v", out.Err)
			rec, ok := out.ReturnValue.(*probe.Record)
			require.True(t, ok)
			require.Equal(t, path, rec.Path)
			require.Equal(t, hashOf(t, path), rec.AssetSHA256)
			require.Equal(t, c.codec, rec.Codec)
			require.Equal(t, c.container, rec.Container)
			require.InDelta(t, c.duration, rec.DurationS, 0.02)
			require.Equal(t, rec.Codec == "h264", rec.HasVideo, "a cover is no video")
			if c.warning == "absurd duration" && version > 5 {
				c.warning = "" // later releases look at the samples, and are not misled
			}
			if c.warning == "" {
				require.Empty(t, rec.Warnings)
			} else {
				require.Contains(t, strings.Join(rec.Warnings, ";"), c.warning)
				require.Contains(t, f.Output.String(), c.warning)
			}
		})
	}
}

func TestRecordIsWhatTheContractNames(t *testing.T) {
	t.Parallel()
	out, _ := run(t, map[string]any{"path": media(t, "good.mp4")})
	data, err := json.Marshal(out.ReturnValue)
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(data, &got))
	for _, key := range []string{"path", "asset_sha256", "size", "container", "duration_s", "streams", "chapters", "codec", "has_video", "has_audio", "warnings"} {
		require.Contains(t, got, key)
	}
	require.Equal(t, []any{}, got["warnings"])
}

func TestFailures(t *testing.T) {
	t.Parallel()
	out, _ := run(t, map[string]any{"path": "nope.mp4"})
	require.Equal(t, "INPUT_MISSING", out.Err.Code)
	require.Equal(t, dag.ClassPermanent, out.Err.Class)

	out, _ = run(t, map[string]any{"path": t.TempDir()})
	require.Equal(t, "NOT_MEDIA", out.Err.Code)

	out, _ = run(t, map[string]any{"path": media(t, "good.mp4"), "ffmpeg": "/no/such/ffmpeg"})
	require.Equal(t, "FFMPEG_MISSING", out.Err.Code)
	require.Equal(t, dag.ClassConfiguration, out.Err.Class)
	require.NotEmpty(t, out.Err.AssetSHA256)

	for _, args := range []map[string]any{{}, {"path": 7}, {"path": ""}, {"path": media(t, "good.mp4"), "require": "both"}} {
		out, _ = run(t, args)
		require.Equal(t, "INVALID_ARGUMENT", out.Err.Code)
	}
}

func TestRelativePathStartsAtTheDagsFolder(t *testing.T) {
	t.Parallel()
	f := operatortest.New(t, map[string]any{"path": "in/../-odd: name.mp4"})
	data, err := os.ReadFile(media(t, "good.mp4"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(f.Dir, "-odd: name.mp4"), data, 0o644))
	out := (&probe.Operator{}).Run(t.Context(), f.Task)
	require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v", out.Err)
}

func TestStopped(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(operator.ErrTimeout)
	f := operatortest.New(t, map[string]any{"path": media(t, "good.mp4")})
	out := (&probe.Operator{}).Run(ctx, f.Task)
	require.Equal(t, dag.OutcomeFailed, out.Kind)
	require.Equal(t, "TIMEOUT", out.Err.Code)
}

func TestStepRulesAreAsked(t *testing.T) {
	t.Parallel()
	f := operatortest.New(t, map[string]any{"path": media(t, "zero_byte.mp4")})
	f.Def.RetryOn = []dag.ErrorRule{{Codes: []string{"INPUT_EMPTY"}}}
	out := (&probe.Operator{}).Run(t.Context(), f.Task)
	require.Equal(t, dag.ClassTransient, out.Err.Class)
}

// With skip_sealed a file whose letter stands open is passed over, whatever is wrong
// with it; without the key, and without a letter, it fails as ever.
func TestAFileWhoseLetterStandsOpenIsSkipped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file   string
		skip   bool
		letter int64
		want   dag.OutcomeKind
	}{
		{"text_as.mp4", true, 12, dag.OutcomeSkipped}, {"truncated_no_moov.mp4", true, 12, dag.OutcomeSkipped},
		{"text_as.mp4", false, 12, dag.OutcomeFailed}, {"text_as.mp4", true, 0, dag.OutcomeFailed},
		{"zero_byte.mp4", true, 12, dag.OutcomeFailed}, // another empty file would be taken for the same
	} {
		f := operatortest.New(t, map[string]any{"path": media(t, c.file), "skip_sealed": c.skip})
		f.OpenLetter = c.letter
		out := (&probe.Operator{}).Run(t.Context(), f.Task)
		require.Equal(t, c.want, out.Kind, "%+v", c)
		if c.want == dag.OutcomeSkipped {
			require.Equal(t, fault.CodeSealedBefore, out.Err.Code)
			require.Contains(t, out.Err.Message, "dead letter 12")
			require.Contains(t, f.Output.String(), "dead letter 12")
		}
	}
}
