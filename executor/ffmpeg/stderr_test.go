package ffmpeg_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/executor/ffmpeg"
)

func TestDamageIsCountedByLine(t *testing.T) {
	t.Parallel()
	for line, damage := range map[string]int{
		"[h264 @ 0x55d0c0ffee00] [error] Invalid NAL unit size (0 > 12).":                                       1,
		"[h264 @ 0x55d0c0ffee00] [error] invalid NAL unit 7":                                                    1,
		"[vist#0:0/h264 @ 0x1] [dec:h264 @ 0x2] [error] Error submitting packet to decoder: Invalid data found": 1,
		"[error] Error while decoding stream #0:0: Invalid data found":                                          1,
		"[vist#0:0/h264 @ 0x1] [error] Decoding error: Invalid data found":                                      1,
		"[mov,mp4,m4a,3gp,3g2,mj2 @ 0x1] [warning] stream 0, offset 0x2: partial file":                          1,
		"[h264 @ 0x1] [error] Error splitting the input into NAL units.":                                        1,
		"[warning] corrupt input packet in stream 0":                                                            1,
		"[h264 @ 0x1] [error] missing picture in access unit with size 9":                                       1,
		"[mov @ 0x1] [error] Invalid argument":                                                                  0,
		"[aac @ 0x1] [warning] Could not update timestamps":                                                     0,
	} {
		s := &ffmpeg.Stderr{}
		_, err := s.Write([]byte(line + "\n" + strings.Repeat("x", 100_000)))
		require.NoError(t, err)
		require.Equal(t, damage, s.DecodeErrors(), line)
		require.NotContains(t, s.Tail(), "0x55d0c0ffee00")
		require.LessOrEqual(t, len(s.Tail()), ffmpeg.TailSize)
	}
}
