package ffmpeg_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/executor/ffmpeg"
)

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text         string
		major, minor int
	}{
		{"ffmpeg version 5.1.9-0+deb12u1 Copyright (c) 2000-2026 the FFmpeg developers\nlibavcodec     59. 37.100 / 59. 37.100\n", 5, 1},
		{"ffmpeg version 7.0.2-static https://johnvansickle.com/ffmpeg/\n", 7, 0},
		{"ffmpeg version n9.0.2-17-g2a571b6068-20260930 Copyright (c) 2000-2026\n", 9, 0},
		{"ffprobe version 6.0 Copyright\n", 6, 0},
		{"ffmpeg version N-109741-gbbe95f7353 Copyright\nlibavcodec     61.  3.100 / 61.  3.100\n", 7, 0},
		{"ffmpeg version git-2020-01-01 Copyright\r\n", 0, 0},
	} {
		v, err := ffmpeg.ParseVersion(c.text)
		require.NoError(t, err, c.text)
		require.Equal(t, c.major, v.Major, c.text)
		require.Equal(t, c.minor, v.Minor, c.text)
		require.NotEmpty(t, v.Text)
	}
	_, err := ffmpeg.ParseVersion("sh: not found")
	require.Error(t, err)

	v, err := ffmpeg.ParseVersion("ffmpeg version 5.1\n  libavcodec     59. 37.100 / 59. 37.100\nlibavformat    59. 27.100 / 59. 27.100\n")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"libavcodec": "59.37.100", "libavformat": "59.27.100"}, v.Libraries)
}

func TestParseProbe(t *testing.T) {
	t.Parallel()
	p, err := ffmpeg.ParseProbe([]byte(`{
		"format": {"format_name": "mov,mp4,m4a,3gp,3g2,mj2", "duration": "360000.000000", "bit_rate": "N/A", "probe_score": 100},
		"streams": [
			{"index": 0, "codec_type": "video", "codec_name": "png", "width": 32, "height": 32, "disposition": {"attached_pic": 1}},
			{"index": 1, "codec_type": "video", "codec_name": "h264", "width": 96, "height": 64, "avg_frame_rate": "30000/1001",
			 "duration": "2.0", "nb_frames": "24", "pix_fmt": "yuv420p", "side_data_list": [{"side_data_type": "x"}, {"rotation": -90}]},
			{"index": 2, "codec_type": "audio", "codec_name": "aac", "sample_rate": "22050", "channels": 1, "duration": "-1", "tags": {"DURATION": "00:01:02.500000000", "language": "und"}},
			{"index": 3, "codec_type": "data", "duration": "NaN"}
		]}`))
	require.NoError(t, err)
	require.Equal(t, 1, p.Video().Index, "a cover is no video")
	w, h := p.Video().DisplaySize()
	require.Equal(t, []int{270, 64, 96}, []int{p.Video().Rotation, w, h})
	require.InDelta(t, 29.97, p.Video().FrameRate, 0.01)
	require.InDelta(t, 62.5, p.Audio().Duration, 1e-9)
	require.Empty(t, p.Audio().Language)
	require.InDelta(t, 62.5, p.Duration(), 1e-9, "the streams know better than the container")
	require.True(t, p.AbsurdDuration())
	require.Equal(t, "h264", p.MainCodec())
	require.Zero(t, p.Streams[3].Duration)
	require.True(t, p.WrongExtension(".mkv"))
	require.False(t, p.WrongExtension("MP4"))

	p, err = ffmpeg.ParseProbe([]byte(`{}`))
	require.NoError(t, err)
	require.False(t, p.HasMedia())
	require.Empty(t, p.MainCodec())

	for _, bad := range []string{"", "{", "[]", `{"streams": 3}`, "null x"} {
		_, err = ffmpeg.ParseProbe([]byte(bad))
		require.Error(t, err, bad)
	}
}

func TestSniff(t *testing.T) {
	t.Parallel()
	for head, want := range map[string]ffmpeg.Content{
		"":                                 ffmpeg.ContentEmpty,
		"#EXTM3U\n#EXTINF:2,\nhttp://a/b":  ffmpeg.ContentPlaylist,
		"\ufeff\n #EXTM3U\n":               ffmpeg.ContentPlaylist,
		"ffconcat version 1.0\nfile x.mp4": ffmpeg.ContentPlaylist,
		"<?xml version='1.0'?>\n<MPD xmlns='urn:mpeg:dash'>": ffmpeg.ContentPlaylist,
		"[playlist]\nFile1=x":                                ffmpeg.ContentPlaylist,
		"this is a text, not a movie":                        ffmpeg.ContentText,
		"grüße \xc3":                                         ffmpeg.ContentText, // cut inside a character
		"\x00\x00\x00\x20ftypisom":                           ffmpeg.ContentUnknown,
		"\x1aE\xdf\xa3":                                      ffmpeg.ContentUnknown,
		"ID3\x04\x00":                                        ffmpeg.ContentUnknown,
	} {
		require.Equal(t, want, ffmpeg.Sniff([]byte(head)), "%q", head)
	}
}

// collect gives the blocks of a text that arrives in pieces of random size.
func collect(text string, r *rand.Rand) []ffmpeg.Progress {
	var out []ffmpeg.Progress
	w := &ffmpeg.ProgressWriter{Block: func(p ffmpeg.Progress) { out = append(out, p) }}
	for len(text) > 0 {
		n := 1 + r.IntN(len(text))
		_, _ = w.Write([]byte(text[:n]))
		text = text[n:]
	}
	return out
}

func TestProgressBlocks(t *testing.T) {
	t.Parallel()
	text := "frame=12\nfps=5.90\nstream_0_0_q=28.0\nbitrate=N/A\ntotal_size=48\nout_time_us=1000000\nout_time_ms=1000000\n" +
		"out_time=00:00:01.000000\ndup_frames=0\ndrop_frames=1\nspeed=0.491x\nprogress=continue\n" +
		"bitrate=N/A\ntotal_size=N/A\nout_time_us=N/A\nspeed=   N/A\nprogress=end\n"
	for seed := range uint64(20) {
		got := collect(text, rand.New(rand.NewPCG(seed, 1)))
		require.Equal(t, []ffmpeg.Progress{
			{Frame: 12, FPS: 5.9, OutTime: time.Second, TotalSize: 48, Dropped: 1, Speed: 0.491},
			{Frame: -1, FPS: -1, OutTime: -1, TotalSize: -1, Dropped: -1, Duplicate: -1, Speed: -1, End: true},
		}, got)
	}
}

func FuzzProgress(f *testing.F) {
	f.Add("frame=1\nprogress=end\n")
	f.Add("out_time_us=9223372036854775807\nspeed=1e309x\nprogress=\n")
	f.Fuzz(func(t *testing.T, text string) {
		w := &ffmpeg.ProgressWriter{Block: func(p ffmpeg.Progress) {
			m := ffmpeg.Meter{Total: time.Second}
			fraction, left := m.Update(p)
			require.LessOrEqual(t, fraction, ffmpeg.Unverified)
			require.GreaterOrEqual(t, left, time.Duration(0))
		}}
		n, err := w.Write([]byte(text))
		require.NoError(t, err)
		require.Equal(t, len(text), n)
	})
}

func TestMeter(t *testing.T) {
	t.Parallel()
	m := ffmpeg.Meter{Total: 100 * time.Second}
	fraction, left := m.Update(ffmpeg.Progress{OutTime: 20 * time.Second, Speed: 2})
	require.InDelta(t, 0.2, fraction, 1e-9)
	require.Equal(t, 40*time.Second, left)
	fraction, left = m.Update(ffmpeg.Progress{OutTime: 500 * time.Second, Speed: 2})
	require.InDelta(t, ffmpeg.Unverified, fraction, 1e-9, "not done before it is verified")
	require.Zero(t, left)
	fraction, left = (&ffmpeg.Meter{}).Update(ffmpeg.Progress{OutTime: time.Second, Speed: -1})
	require.InDelta(t, -1, fraction, 1e-9)
	require.Zero(t, left)
}

func TestStderrKeepsTheTailAndCountsAll(t *testing.T) {
	t.Parallel()
	s := &ffmpeg.Stderr{}
	_, _ = fmt.Fprintf(s, "[h264 @ 0x55cbbf383840] [error] Invalid NAL unit size (1 > 0).\n")
	filler := strings.Repeat("[aac @ 0x1] [warning] something else\n", 1000)
	for range 20 {
		_, _ = s.Write([]byte(filler))
	}
	_, _ = fmt.Fprint(s, strings.Repeat("y", 1<<20)) // no line end
	_, _ = fmt.Fprint(s, "\rError while decoding stream #0:1: bad \xff")
	require.Equal(t, 1, s.DecodeErrors())
	tail := s.Tail()
	require.Equal(t, 2, s.DecodeErrors())
	require.LessOrEqual(t, len(tail), ffmpeg.TailSize+8)
	require.True(t, strings.HasSuffix(tail, "bad �\n"), tail[len(tail)-40:])
	require.NotContains(t, tail, "0x")
}

func TestPacketCounter(t *testing.T) {
	t.Parallel()
	c := &ffmpeg.PacketCounter{}
	_, _ = c.Write([]byte("stream_index=0|pts_time=10.0|duration_time=0.5|flags=K__\nstream_index=1|pts_time=-0.02|duration_time=0.02|flags=KD_\n"))
	_, _ = c.Write([]byte("stream_index=0|pts_time=11.0|duration_time=0.5|flags=___\nstream_index=0|pts_time=10.5|duration_"))
	_, _ = c.Write([]byte("time=0.5|flags=___\nstream_index=2|pts_time=N/A|duration_time=N/A|flags=K__\njunk\n"))
	require.Len(t, c.ByStream, 2, "a packet that the edit list hides does not count")
	require.EqualValues(t, 3, c.ByStream[0].Count)
	require.InDelta(t, 1.5, c.ByStream[0].Span(), 1e-9)
	require.InDelta(t, 1.5, c.ByStream[0].Sum, 1e-9)
	require.EqualValues(t, 1, c.ByStream[2].Count)
	require.Zero(t, c.ByStream[2].Span())
}
