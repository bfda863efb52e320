package ffmpeg_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/ffmpeg"
)

// sound is a verification that finds nothing: 10 s of video at 24 frames a
// second with sound.
func sound() ffmpeg.Verification {
	probe := func() *ffmpeg.Probe {
		return &ffmpeg.Probe{
			Format: ffmpeg.Format{Name: "mov,mp4", Duration: 10},
			Streams: []ffmpeg.Stream{
				{Index: 0, Type: "video", Codec: "h264", Width: 320, Height: 240, PixelFormat: "yuv420p", Duration: 10, Frames: 240, FrameRate: 24},
				{Index: 1, Type: "audio", Codec: "aac", SampleRate: 48000, Channels: 2, Duration: 10, Frames: 469},
			},
		}
	}
	packets := func() map[int]ffmpeg.Packets {
		return map[int]ffmpeg.Packets{0: {Count: 240, End: 10, Sum: 10}, 1: {Count: 469, End: 10, Sum: 10}}
	}
	return ffmpeg.Verification{
		Source: probe(), Output: probe(), SourcePackets: packets(), OutputPackets: packets(),
		Video: &ffmpeg.WantVideo{Codec: "h264", PixelFormats: []string{"yuv420p"}, Width: 320, Height: 240, KeepsFrames: true},
		Audio: &ffmpeg.WantAudio{Codec: "aac", SampleRate: 48000, Channels: 2},
	}
}

func TestVerification(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(v *ffmpeg.Verification)
		code   string
		class  dag.ErrorClass
	}{
		"sound":          {func(*ffmpeg.Verification) {}, "", ""},
		"no video":       {func(v *ffmpeg.Verification) { v.Output.Streams = v.Output.Streams[1:] }, "STREAMS_MISMATCH", dag.ClassPermanent},
		"sound not due":  {func(v *ffmpeg.Verification) { v.Audio = nil }, "STREAMS_MISMATCH", dag.ClassPermanent},
		"data is no one": {func(v *ffmpeg.Verification) { v.Output.Streams = append(v.Output.Streams, ffmpeg.Stream{Type: "data"}) }, "", ""},
		"cover is no video": {func(v *ffmpeg.Verification) {
			v.Output.Streams = append(v.Output.Streams, ffmpeg.Stream{Index: 2, Type: "video", AttachedPicture: true})
		}, "", ""},
		"codec":        {func(v *ffmpeg.Verification) { v.Output.Streams[0].Codec = "mpeg4" }, "CODEC_MISMATCH", dag.ClassPermanent},
		"pixel format": {func(v *ffmpeg.Verification) { v.Output.Streams[0].PixelFormat = "yuv420p10le" }, "CODEC_MISMATCH", dag.ClassPermanent},
		"sample rate":  {func(v *ffmpeg.Verification) { v.Output.Streams[1].SampleRate = 44100 }, "CODEC_MISMATCH", dag.ClassPermanent},
		"size":         {func(v *ffmpeg.Verification) { v.Output.Streams[0].Width = 318 }, "SIZE_MISMATCH", dag.ClassPermanent},
		"size after rotation": {func(v *ffmpeg.Verification) {
			v.Output.Streams[0].Width, v.Output.Streams[0].Height, v.Output.Streams[0].Rotation = 240, 320, 90
		}, "", ""},
		// max(0.5 s, 1 %) of 10 s is 0.5 s.
		"within tolerance": {func(v *ffmpeg.Verification) { v.OutputPackets[1] = ffmpeg.Packets{Count: 460, End: 9.51, Sum: 9.51} }, "", ""},
		"encoder lost the end": {func(v *ffmpeg.Verification) {
			v.OutputPackets[0] = ffmpeg.Packets{Count: 216, End: 9, Sum: 9}
		}, "DURATION_MISMATCH", dag.ClassTransient},
		"short, and packets were not read": {func(v *ffmpeg.Verification) {
			v.SourcePackets, v.OutputPackets = nil, nil
			v.Output.Streams[0].Duration = 9
		}, "DURATION_MISMATCH", dag.ClassPermanent},
		"the input is short": {func(v *ffmpeg.Verification) {
			v.SourcePackets[0] = ffmpeg.Packets{Count: 60, End: 2.5, Sum: 2.5}
			v.OutputPackets[0] = ffmpeg.Packets{Count: 60, End: 2.5, Sum: 2.5}
			v.DecodeErrors = 3
		}, "DURATION_MISMATCH", dag.ClassPermanent},
		"container lies, streams do not": {func(v *ffmpeg.Verification) {
			v.Source.Format.Duration = 360000
			v.SourcePackets, v.OutputPackets = nil, nil
		}, "", ""},
		"hole in the middle": {func(v *ffmpeg.Verification) {
			v.OutputPackets[0] = ffmpeg.Packets{Count: 200, End: 10, Sum: 10}
		}, "PACKETS_MISMATCH", dag.ClassPermanent},
		"hole in the sound": {func(v *ffmpeg.Verification) {
			v.OutputPackets[1] = ffmpeg.Packets{Count: 400, End: 10, Sum: 8.5}
		}, "PACKETS_MISMATCH", dag.ClassPermanent},
		"two frames fewer": {func(v *ffmpeg.Verification) { v.OutputPackets[0] = ffmpeg.Packets{Count: 238, End: 10, Sum: 10} }, "", ""},
		"frame rate converted": {func(v *ffmpeg.Verification) {
			v.Video.KeepsFrames = false
			v.OutputPackets[0] = ffmpeg.Packets{Count: 120, End: 10, Sum: 10}
		}, "", ""},
		"two fields in two packets": {func(v *ffmpeg.Verification) {
			v.SourcePackets[0] = ffmpeg.Packets{Count: 480, End: 10, Sum: 10}
		}, "", ""},
		"damaged":           {func(v *ffmpeg.Verification) { v.DecodeErrors = 1 }, "DECODE_ERRORS", dag.ClassPermanent},
		"damage is allowed": {func(v *ffmpeg.Verification) { v.DecodeErrors, v.MaxDecodeErrors = 7, 7 }, "", ""},
		"a matroska file that was cut": {func(v *ffmpeg.Verification) {
			v.Source.Format = ffmpeg.Format{Name: "matroska,webm", Duration: 10}
			for i := range v.Source.Streams {
				v.Source.Streams[i].Duration, v.Source.Streams[i].Frames = 0, 0
				v.SourcePackets[i] = ffmpeg.Packets{Count: 100, End: 5, Sum: 5}
			}
		}, "DURATION_MISMATCH", dag.ClassPermanent},
		"a guessed duration is no promise": {func(v *ffmpeg.Verification) {
			v.Source.Format = ffmpeg.Format{Name: "mp3", Duration: 30}
			for i := range v.Source.Streams {
				v.Source.Streams[i].Duration, v.Source.Streams[i].Frames = 0, 0
			}
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := sound()
			c.change(&v)
			got := v.Check()
			if c.code == "" {
				require.Nil(t, got)
				return
			}
			require.NotNil(t, got)
			require.Equal(t, c.code, got.Code, "%v", got)
			require.Equal(t, c.class, got.Class, "%v", got)
		})
	}
}

// The sample inputs give, under the ffmpeg of this machine, what its tables say.
func TestInputsUnderLocalFFmpeg(t *testing.T) {
	t.Parallel()
	tool, err := ffmpeg.Detect(t.Context(), "ffmpeg", "ffprobe", "")
	require.NoError(t, err)
	for name, code := range map[string]string{
		"text_as.mp4":             "NOT_MEDIA",
		"zero_byte.mp4":           "NOT_MEDIA",
		"truncated_no_moov.mp4":   "TRUNCATED",
		"playlist_as.mp4":         "PLAYLIST_REFUSED",
		"good.mp4":                "",
		"truncated_with_moov.mp4": "",
	} {
		p, err := tool.Probe(t.Context(), "testdata/media/"+name)
		if code == "" {
			require.NoError(t, err, name)
			require.Equal(t, "h264", p.MainCodec())
			continue
		}
		var fail *dag.TaskError
		require.ErrorAs(t, err, &fail, name)
		require.Equal(t, code, fail.Code, name)
	}

	for name, whole := range map[string]bool{
		"good.mp4": true, "truncated_with_moov.mp4": false, "timestamp_gap.mp4": true,
		"huge_declared_duration.mp4": true, "wrong_extension_mkv.mp4": true, "corrupt_middle.mp4": true,
	} {
		p, err := tool.Probe(t.Context(), "testdata/media/"+name)
		require.NoError(t, err, name)
		packets, err := tool.Packets(t.Context(), "testdata/media/"+name)
		require.NoError(t, err, name)
		require.Equal(t, whole, ffmpeg.SourceComplete(p, packets) == nil, name)
	}

	_, err = ffmpeg.Detect(t.Context(), "no-such-ffmpeg", "ffprobe", "")
	var fail *dag.TaskError
	require.ErrorAs(t, err, &fail)
	require.Equal(t, "FFMPEG_MISSING", fail.Code)
	require.Equal(t, dag.ClassConfiguration, fail.Class)
}
