package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/cli"
)

func TestClassifyAnFFmpegLog(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{
		"full.log":    "[out#0/mp4 @ 0x55d0] [error] Error writing trailer: No space left on device\nConversion failed!\n",
		"session.log": "[h264_nvenc @ 0x5581] [error] OpenEncodeSessionEx failed: out of memory (10): (no details)\n",
		"banner.log":  "ffmpeg version 5.1.9 Copyright (c) 2000-2026\n  libavcodec     59. 37.100\nin.mp4: something unheard of\n",
		"damaged.log": "[h264 @ 0x1] [error] Invalid NAL unit size (0 > 12).\n[h264 @ 0x1] [error] Error splitting the input into NAL units.\n",
		"dags/m.yml":  "m:\n  schedule: null\n  tasks: {t: {operator: transcode, path: a.mp4, profile: h264-720p, output_dir: out, fail_on: [{code: NO_SPACE, error_code: DISK_OF_DOOM}]}}\n",
	})
	full := h.show("classify", "--ffmpeg-log", "full.log", "--exit-code", "228")
	require.Equal(t, "NO_SPACE", full["error_code"])
	require.Equal(t, true, full["retried"])
	require.NotContains(t, full["error_message"], "0x55d0")
	require.Equal(t, "NVENC_SESSION_LIMIT", h.show("classify", "--ffmpeg-log", "session.log")["error_code"])

	// 183 says something from release 6 on, and nothing before.
	require.Equal(t, "FFMPEG_FAILED", h.show("classify", "--ffmpeg-log", "banner.log", "--exit-code", "183")["error_code"])
	newer := h.show("classify", "--ffmpeg-log", "banner.log", "--exit-code", "183", "--ffmpeg-version", "7.1")
	require.Equal(t, "NOT_MEDIA", newer["error_code"])
	require.Contains(t, newer["why"].([]any)[0], "release 7")

	damaged := h.ok("classify", "--ffmpeg-log", "damaged.log", "--exit-code", "0").stdout
	require.Contains(t, damaged, "2 lines tell of damaged input")
	require.Contains(t, damaged, "no failure is seen")

	own := h.show("classify", "--ffmpeg-log", "full.log", "--dag", "m", "--task", "t")
	require.Equal(t, "DISK_OF_DOOM", own["error_code"])
	require.Equal(t, false, own["retried"])
	require.Equal(t, "KILLED_SIGNAL", h.show("classify", "--ffmpeg-log", "full.log", "--signal", "KILL")["error_code"])
	h.fails(cli.ExitUsage, []string{"no release of ffmpeg"}, "classify", "--ffmpeg-log", "full.log", "--ffmpeg-version", "new")
	h.fails(cli.ExitUsage, nil, "classify", "--ffmpeg-log", "nope.log")
}
