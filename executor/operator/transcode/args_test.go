package transcode

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/executor/ffmpeg"
	"github.com/airlock-dag/airlock/executor/gpu"
)

// The command lines for encoders that need a card, in the order in which ffmpeg's
// documentation has their parts. No card has run them.
func TestCommandLinesOfCards(t *testing.T) {
	t.Parallel()
	nvidia := &gpu.Device{Kind: gpu.KindNVIDIA, ID: "GPU-1"}
	render := &gpu.Device{Kind: gpu.KindRender, ID: "/dev/dri/renderD128"}
	const vaapi, qsv = "-init_hw_device vaapi=hw:/dev/dri/renderD128 -filter_hw_device hw ", "-init_hw_device qsv=hw,child_device=/dev/dri/renderD128 "
	const size, in = "scale=96:64", "-f mov -protocol_whitelist file,pipe -i file:/in.mp4 -map 0:0 "
	for name, c := range map[string]struct {
		encoder, source string
		dev             *gpu.Device
		software        bool // decoding
		video           VideoProfile
		want            []string
	}{
		"nvenc": {encoder: "h264_nvenc", dev: nvidia, video: VideoProfile{Codec: "h264", Quality: 22, Preset: "medium"}, want: []string{
			"-hwaccel cuda " + in + "-vf " + size + " -pix_fmt yuv420p -c:v h264_nvenc -preset p4 -rc vbr -cq 22 -b:v 0 -gpu 0 "}},
		"nvenc, ten bits, a rate not to pass": {encoder: "hevc_nvenc", dev: nvidia, software: true,
			video: VideoProfile{Codec: "hevc", Quality: 25, Preset: "veryslow", PixelFormat: "yuv420p10le", MaxRate: "4M"}, want: []string{
				in + "-vf " + size + " -pix_fmt p010le -c:v hevc_nvenc -preset p7 -rc vbr -cq 25 -b:v 0 -maxrate 4M -bufsize 8000000 -gpu 0 -tag:v hvc1 "}},
		"nvenc, key frames": {encoder: "h264_nvenc", dev: nvidia, video: VideoProfile{Codec: "h264", Quality: 22, KeyInterval: 2}, want: []string{
			"-forced-idr 1 -force_key_frames expr:gte(t,n_forced*2) "}},
		"nvenc, a scale that ends at 51": {encoder: "av1_nvenc", dev: nvidia, video: VideoProfile{Codec: "av1", Quality: 60}, want: []string{"-cq 51 "}},
		"vaapi": {encoder: "h264_vaapi", dev: render, video: VideoProfile{Codec: "h264", Quality: 22}, want: []string{
			vaapi + "-hwaccel vaapi -hwaccel_device hw " + in + "-vf " + size + ",format=nv12,hwupload -c:v h264_vaapi -rc_mode CQP -global_quality 22 "}},
		"vaapi, decoded by the processor": {encoder: "hevc_vaapi", dev: render, software: true,
			video: VideoProfile{Codec: "hevc", Quality: 25, PixelFormat: "yuv420p10le"}, want: []string{vaapi + in + "-vf " + size + ",format=p010le,hwupload "}},
		"vaapi, a rate not to pass": {encoder: "h264_vaapi", dev: render, video: VideoProfile{Codec: "h264", Quality: 22, MaxRate: "2M", Buffer: "3M"}, want: []string{
			"-rc_mode QVBR -global_quality 22 -b:v 2M -maxrate 2M -bufsize 3M "}},
		"vaapi, another scale": {encoder: "av1_vaapi", dev: render, video: VideoProfile{Codec: "av1", Quality: 63}, want: []string{"-global_quality 255 "}},
		"vaapi, a rate":        {encoder: "h264_vaapi", dev: render, video: VideoProfile{Codec: "h264", Bitrate: "1M"}, want: []string{"-rc_mode VBR -b:v 1M "}},
		"qsv": {encoder: "h264_qsv", dev: render, video: VideoProfile{Codec: "h264", Quality: 22}, want: []string{
			qsv + "-hwaccel qsv -hwaccel_device hw -hwaccel_output_format nv12 " + in + "-vf " + size + ",format=nv12 -c:v h264_qsv -global_quality 22 "}},
		"qsv, an input of ten bits": {encoder: "hevc_qsv", dev: render, source: "yuv420p10le", video: VideoProfile{Codec: "hevc", Quality: 25}, want: []string{
			"-hwaccel_output_format p010le "}},
		"qsv, a rate not to pass": {encoder: "h264_qsv", dev: render, video: VideoProfile{Codec: "h264", Quality: 22, MaxRate: "2M", KeyInterval: 1}, want: []string{
			"-global_quality 22 -b:v 2M -maxrate 2M -bufsize 4000000 -forced_idr 1 "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := c.video
			p := &Profile{Name: "x", Container: "mp4", Video: &v}
			require.NoError(t, p.normalise())
			source := ffmpeg.Stream{Type: "video", Codec: "h264", Width: 96, Height: 64, PixelFormat: c.source}
			pl := plan{profile: p, source: &ffmpeg.Probe{Format: ffmpeg.Format{Name: "mov,mp4"}, Streams: []ffmpeg.Stream{source}}, input: "/in.mp4", version: ffmpeg.Version{Major: 7}}
			var r rung
			for _, e := range gpu.Encoders(v.Codec) {
				if e.Name == c.encoder {
					r = rung{encoder: e, decode: e.Decode()}
				}
			}
			require.NotEmpty(t, r.encoder.Name)
			if c.software {
				r.decode = gpu.DecodeSoftware
			}
			line := strings.Join(pl.args(r, c.dev, "/out.mp4"), " ")
			for _, part := range c.want {
				require.Contains(t, line, part)
			}
			require.LessOrEqual(t, strings.Count(line, "-init_hw_device"), 1, "one device for all")
		})
	}
}
