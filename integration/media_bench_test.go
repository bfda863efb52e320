package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkCatalogue encodes sixteen small clips with two slots, by a DAG and by
// xargs -P 2 with the same command line, from the start of the program to its
// end.
func BenchmarkCatalogue(b *testing.B) {
	const clips = 16
	h := newHouse(b, "AIRLOCK__WORKER__CONCURRENCY=2")
	inbox := filepath.Join(filepath.Dir(h.dags), "inbox")
	require.NoError(b, os.MkdirAll(inbox, 0o755))
	for i := range clips {
		out, err := exec.Command("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=640x360:r=25:d=5", "-f", "lavfi", "-i", fmt.Sprintf("sine=f=%d:d=5", 200+10*i),
			"-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac", filepath.Join(inbox, fmt.Sprintf("c%02d.mp4", i))).CombinedOutput()
		require.NoError(b, err, string(out))
	}
	h.file("many.yml", `
many:
  schedule: null
  params: {out: none}
  tasks:
    encode:
      operator: transcode
      expand: {path: {glob: "../inbox/*.mp4"}}
      profile: h264-720p
      accelerator: cpu
      threads: 1
      output_dir: "{{ params.out }}"
`)
	h.ok("db", "migrate")
	var dagTime, xargsTime time.Duration
	for b.Loop() {
		start := time.Now()
		h.ok("dags", "test", "many", "-c", fmt.Sprintf(`{"out": %q}`, b.TempDir()))
		dagTime += time.Since(start)
		start = time.Now()
		out, err := exec.Command("sh", "-c", fmt.Sprintf(`ls '%s' | xargs -P 2 -I F ffmpeg -v error -nostdin -y -i '%s/F' -map 0:v -vf scale=640:360 -pix_fmt yuv420p `+
			`-c:v libx264 -preset medium -crf 22 -fps_mode vfr -map 0:a -c:a aac -b:a 128k -threads 1 -movflags +faststart '%s/F'`, inbox, inbox, b.TempDir())).CombinedOutput()
		require.NoError(b, err, string(out))
		xargsTime += time.Since(start)
	}
	b.ReportMetric(dagTime.Seconds()/xargsTime.Seconds(), "wall-of-xargs")
	b.ReportMetric(xargsTime.Seconds()/float64(b.N), "s-xargs")
	b.ReportMetric(0, "ns/op")
}
