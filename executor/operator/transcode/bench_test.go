package transcode_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/ffmpeg"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
	"github.com/airlock-dag/airlock/executor/operator/transcode"
)

// clip makes a film to measure with.
func clip(b *testing.B, size string, seconds int) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "clip.mp4")
	length := fmt.Sprintf("d=%d", seconds)
	out, err := exec.Command("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=r=25:s="+size+":"+length, "-f", "lavfi", "-i", "sine="+length,
		"-c:v", "libx264", "-preset", "ultrafast", "-g", "50", "-c:a", "aac", path).CombinedOutput()
	require.NoError(b, err, string(out))
	return path
}

// cost is what something took: time on the wall, and processor time of this
// process and of its children that have ended.
type cost struct{ wall, cpu time.Duration }

func measure(b *testing.B, f func()) cost {
	b.Helper()
	used := func() time.Duration {
		var total time.Duration
		for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
			var u syscall.Rusage
			require.NoError(b, syscall.Getrusage(who, &u))
			total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
		return total
	}
	start, cpu := time.Now(), used()
	f()
	return cost{time.Since(start), used() - cpu}
}

func transcodeOnce(b *testing.B, op *transcode.Operator, args map[string]any) *operatortest.Fixture {
	b.Helper()
	f := attempt(b, args)
	out := op.Run(b.Context(), f.Task)
	require.Equal(b, dag.OutcomeSuccess, out.Kind, "%v", out.Err)
	return f
}

// bareArgs is the command line that a step logged for its encode, with another
// output: what a person would run by hand.
func bareArgs(b *testing.B, log string) []string {
	b.Helper()
	_, line, found := strings.Cut(log, "libx264: ffmpeg ")
	require.True(b, found, log)
	line, _, _ = strings.Cut(line, "\n")
	args := strings.Fields(line)
	if i := slices.Index(args, "-frames:v"); i >= 0 { // the bound of the film that the line is from
		args = slices.Delete(args, i, i+2)
	}
	args[len(args)-1] = filepath.Join(b.TempDir(), "bare.mp4")
	return append([]string{"-v", "error", "-nostdin", "-y"}, args...)
}

// BenchmarkOverhead compares the step (guard, probe, space, encode, verify,
// hash, manifest, sync, rename) with the bare ffmpeg that it runs.
func BenchmarkOverhead(b *testing.B) {
	for _, c := range []struct {
		seconds int
		verify  string
	}{{1, "packets"}, {1, "duration"}, {60, "packets"}} {
		b.Run(fmt.Sprintf("%ds/%s", c.seconds, c.verify), func(b *testing.B) {
			in := clip(b, "1280x720", c.seconds)
			op := transcode.New()
			args := map[string]any{"path": in, "profile": "h264-720p", "verify": c.verify}
			if program := os.Getenv("AIRLOCK_BENCH_FFPROBE"); program != "" { // one that is linked otherwise
				args["ffprobe"] = program
			}
			var bare []string
			if c.seconds < 10 {
				bare = bareArgs(b, transcodeOnce(b, op, args).Output.String()) // and the encoder is known from here on
			} else {
				short := clip(b, "1280x720", 1)
				bare = bareArgs(b, strings.ReplaceAll(transcodeOnce(b, op, map[string]any{"path": short, "profile": "h264-720p"}).Output.String(), short, in))
			}
			var step, plain cost
			for b.Loop() {
				a := measure(b, func() { transcodeOnce(b, op, args) })
				p := measure(b, func() {
					out, err := exec.Command("ffmpeg", bare...).CombinedOutput()
					require.NoError(b, err, string(out))
				})
				step.wall, step.cpu, plain.wall, plain.cpu = step.wall+a.wall, step.cpu+a.cpu, plain.wall+p.wall, plain.cpu+p.cpu
			}
			n := float64(b.N)
			b.ReportMetric(100*(step.cpu.Seconds()/plain.cpu.Seconds()-1), "%cpu-over")
			b.ReportMetric((step.wall-plain.wall).Seconds()*1000/n, "ms-wall-over")
			b.ReportMetric((step.cpu-plain.cpu).Seconds()*1000/n, "ms-cpu-over")
			b.ReportMetric(plain.cpu.Seconds()*1000/n, "ms-cpu-bare")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkChunked compares pieces side by side with one process that has all
// threads.
func BenchmarkChunked(b *testing.B) {
	in := clip(b, "640x360", 40)
	op := transcode.New()
	args := map[string]any{"path": in, "profile": "h264-720p"}
	transcodeOnce(b, op, map[string]any{"path": clip(b, "64x64", 1), "profile": "h264-720p"})
	var whole, pieces cost
	for b.Loop() {
		w := measure(b, func() { transcodeOnce(b, op, args) })
		args["chunk_duration"] = 10.0
		p := measure(b, func() { transcodeOnce(b, op, args) })
		delete(args, "chunk_duration")
		whole.wall, whole.cpu, pieces.wall, pieces.cpu = whole.wall+w.wall, whole.cpu+w.cpu, pieces.wall+p.wall, pieces.cpu+p.cpu
	}
	b.ReportMetric(pieces.wall.Seconds()/whole.wall.Seconds(), "wall-of-one-process")
	b.ReportMetric(pieces.cpu.Seconds()/whole.cpu.Seconds(), "cpu-of-one-process")
	b.ReportMetric(whole.cpu.Seconds()/float64(b.N), "s-cpu-one-process")
	b.ReportMetric(0, "ns/op")
}

func BenchmarkHash(b *testing.B) {
	path := filepath.Join(b.TempDir(), "large.bin")
	const size = 256 << 20
	require.NoError(b, os.WriteFile(path, make([]byte, size), 0o600))
	past := time.Now().Add(-time.Hour)
	require.NoError(b, os.Chtimes(path, past, past))
	b.Run("read", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			_, err := ffmpeg.ReadInput(b.Context(), path)
			require.NoError(b, err)
		}
	})
	b.Run("remembered", func(b *testing.B) {
		time.Sleep(3 * time.Second) // younger changes are not remembered
		cache := &ffmpeg.HashCache{}
		_, err := cache.ReadInput(b.Context(), path)
		require.NoError(b, err)
		for b.Loop() {
			_, err := cache.ReadInput(b.Context(), path)
			require.NoError(b, err)
		}
	})
}

// BenchmarkSkip runs the step for ten thousand assets that are done: the
// manifest, the size and the hash of each are looked at.
func BenchmarkSkip(b *testing.B) {
	const assets = 10_000
	op := transcode.New()
	f := attempt(b, map[string]any{"path": media(b, "good.mp4")})
	out := op.Run(b.Context(), f.Task)
	require.Equal(b, dag.OutcomeSuccess, out.Kind, "%v", out.Err)
	res := out.ReturnValue.(*transcode.Result)
	data, err := os.ReadFile(res.Path)
	require.NoError(b, err)
	var m transcode.Manifest
	text, err := os.ReadFile(manifestOf(res))
	require.NoError(b, err)
	require.NoError(b, json.Unmarshal(text, &m))
	dir := filepath.Dir(res.Path)
	fixtures := make([]*operatortest.Fixture, assets)
	for i := range fixtures {
		hash := fmt.Sprintf("%064x", i)
		m.AssetSHA256, m.Output.Name = hash, hash+".mp4"
		text, err := json.Marshal(m)
		require.NoError(b, err)
		require.NoError(b, os.WriteFile(filepath.Join(dir, hash+".json"), text, 0o600))
		require.NoError(b, os.WriteFile(filepath.Join(dir, hash+".mp4"), data, 0o600))
		task := *f.Task
		task.Args = map[string]any{
			"asset": map[string]any{"path": "gone.mp4", "asset_sha256": hash}, "profile": f.Args["profile"],
			"output_dir": f.Args["output_dir"], "accelerator": "cpu",
		}
		fixtures[i] = &operatortest.Fixture{Task: &task}
	}
	for b.Loop() {
		c := measure(b, func() {
			work := make(chan *operatortest.Fixture)
			var wg sync.WaitGroup
			for range runtime.GOMAXPROCS(0) {
				wg.Go(func() {
					for fx := range work {
						out := op.Run(b.Context(), fx.Task)
						if r, ok := out.ReturnValue.(*transcode.Result); !ok || !r.Skipped {
							b.Errorf("not skipped: %v", out.Err)
						}
					}
				})
			}
			for _, fx := range fixtures {
				work <- fx
			}
			close(work)
			wg.Wait()
		})
		b.ReportMetric(assets/c.wall.Seconds(), "skips/s")
		b.ReportMetric(c.cpu.Seconds()*1e6/assets, "µs-cpu/skip")
	}
}
