package transcode_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
	"github.com/airlock-dag/airlock/dag/proc"
	"github.com/airlock-dag/airlock/executor/gpu"
	"github.com/airlock-dag/airlock/executor/operator"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
	"github.com/airlock-dag/airlock/executor/operator/transcode"
)

// realVersion is what the real ffmpeg says of itself.
var realVersion = sync.OnceValues(func() ([]byte, error) { return exec.Command("ffmpeg", "-version").Output() })

// fake gives the path of an ffmpeg that does what the mode says.
func fake(t *testing.T, mode string) string {
	t.Helper()
	built := shared(t, "fakeffmpeg", func(path string) *exec.Cmd { return exec.Command("go", "build", "-o", path, "./testdata/fakeffmpeg") })
	dir := filepath.Join(t.TempDir(), mode)
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.Link(built, filepath.Join(dir, "ffmpeg")))
	version, err := realVersion()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "version"), version, 0o644))
	return filepath.Join(dir, "ffmpeg")
}

func TestMisbehavingFFmpeg(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]struct {
		code  string
		class dag.ErrorClass
	}{
		// The input is complete, so it was the encoder: another try may help.
		"short":     {"DURATION_MISMATCH", dag.ClassTransient},
		"nofile":    {"OUTPUT_UNREADABLE", dag.ClassTransient},
		"garbage":   {"OUTPUT_UNREADABLE", dag.ClassTransient},
		"frozen":    {"STALLED", dag.ClassTransient},
		"silent":    {"STARTUP_TIMEOUT", dag.ClassTransient},
		"status255": {"FFMPEG_STOPPED", dag.ClassTransient},
		"swells":    {"OUTPUT_TOO_LARGE", dag.ClassPermanent},
		"flood":     {"", ""},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			f := attempt(t, map[string]any{
				"path": media(t, "good.mp4"), "ffmpeg": fake(t, mode),
				"stall_timeout": 0.3, "startup_timeout": 5.0,
			})
			if mode == "silent" {
				f.Args["startup_timeout"] = 0.3
			}
			if mode == "flood" || mode == "swells" {
				f.Args["stall_timeout"], f.Args["startup_timeout"] = 60.0, 60.0
			}
			if mode == "swells" {
				f.Args["max_output_size"] = 100_000
			}
			out := worker().Run(t.Context(), f.Task)
			if want.code == "" {
				require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v", out.Err)
				require.Less(t, len(f.Output.String()), 4<<20, "the log does not take the flood")
				return
			}
			require.Equal(t, dag.OutcomeFailed, out.Kind)
			require.Equal(t, want.code, out.Err.Code, "%v", out.Err)
			require.Equal(t, want.class, out.Err.Class)
			nothingPublished(t, f)
		})
	}
}

// A process that does not end at SIGTERM is ended all the same, and its half
// file is gone.
func TestDeafFFmpegIsEnded(t *testing.T) {
	t.Parallel()
	f := attempt(t, map[string]any{"path": media(t, "good.mp4"), "ffmpeg": fake(t, "deaf")})
	op := worker()
	op.Grace = 100 * time.Millisecond
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan dag.Outcome, 1)
	go func() { done <- op.Run(ctx, f.Task) }()
	part := waitForPart(t, f)
	cancel(operator.ErrTimeout)
	out := <-done
	require.Equal(t, "TIMEOUT", out.Err.Code)
	require.NoFileExists(t, part)
	nothingPublished(t, f)
}

// waitForPart waits until an encode has begun to write and gives its file.
func waitForPart(t testing.TB, f *operatortest.Fixture) string {
	t.Helper()
	dir := f.Args["output_dir"].(string)
	var part string
	require.Eventually(t, func() bool {
		found, _ := filepath.Glob(filepath.Join(dir, "derived", "*", ".*.part"))
		if len(found) == 0 {
			return false
		}
		info, err := os.Stat(found[0])
		part = found[0]
		return err == nil && info.Size() > 0
	}, time.Minute, 5*time.Millisecond, "no encode began: %s", f.Output)
	return part
}

// card makes a machine with one NVIDIA card, as far as nvidia-smi says.
func card(t *testing.T) gpu.Lister {
	t.Helper()
	smi := filepath.Join(t.TempDir(), "nvidia-smi")
	dagtest.Program(t, smi, "#!/bin/sh\ncase $1 in -L) echo 'GPU 0: Tesla T4 (UUID: GPU-test-1)';; *) echo 550.1;; esac\n")
	return gpu.Lister{NvidiaSMI: smi, RenderDir: filepath.Join(t.TempDir(), "none")}
}

func TestLadder(t *testing.T) {
	t.Parallel()
	type rung struct{ encoder, decode, result, code string }
	nvencCUDA := func(result, code string) rung { return rung{"h264_nvenc", "cuda", result, code} }
	nvenc := func(result, code string) rung { return rung{"h264_nvenc", "software", result, code} }
	noNVENC := []rung{nvencCUDA("unusable", "NVENC_UNAVAILABLE"), nvenc("unusable", "NVENC_UNAVAILABLE")}
	others := []rung{
		{"h264_vaapi", "vaapi", "unusable", "VAAPI_UNAVAILABLE"}, {"h264_vaapi", "software", "unusable", "VAAPI_UNAVAILABLE"},
		{"h264_qsv", "qsv", "unusable", "QSV_UNAVAILABLE"}, {"h264_qsv", "software", "unusable", "QSV_UNAVAILABLE"},
	}
	x264 := rung{"libx264", "software", "encoded", ""}
	x264CUDA := func(result, code string) rung { return rung{"libx264", "cuda", result, code} }
	full := "NVENC_SESSION_LIMIT"
	for _, c := range []struct {
		name, mode, accelerator, fallback string
		noCard                            bool
		rungs                             []rung
		code                              string
		class                             dag.ErrorClass
	}{
		{name: "the card works", mode: "card-works", accelerator: "auto", fallback: "never", rungs: []rung{nvencCUDA("encoded", "")}},
		{name: "no card", mode: "card-works", accelerator: "auto", fallback: "never", noCard: true, rungs: slices.Concat(noNVENC, others, []rung{x264})},
		{name: "no card, gpu wanted", mode: "card-works", accelerator: "gpu", fallback: "never", noCard: true,
			rungs: slices.Concat(noNVENC, others), code: "NO_USABLE_ENCODER", class: dag.ClassCapability},
		{name: "no card, gpu wanted, fallback", mode: "card-works", accelerator: "gpu", fallback: "on_capability", noCard: true,
			rungs: slices.Concat(noNVENC, others, []rung{x264})},
		{name: "cpu only", mode: "card-works", accelerator: "cpu", fallback: "always", rungs: []rung{x264}},
		{name: "the card does not decode", mode: "no-cuda-decode", accelerator: "auto", fallback: "never",
			rungs: []rung{nvencCUDA("unusable", "CUDA_UNAVAILABLE"), nvenc("encoded", "")}},
		{name: "the card has no encoder and decodes for the processor", mode: "no-encoder", accelerator: "auto", fallback: "never",
			rungs: slices.Concat(noNVENC, others, []rung{x264CUDA("encoded", "")})},
		{name: "the card fails", mode: "card-fails", accelerator: "auto", fallback: "on_capability",
			rungs: slices.Concat([]rung{nvencCUDA("failed", "CUDA_UNAVAILABLE"), nvenc("failed", "CUDA_UNAVAILABLE")}, others, []rung{x264CUDA("encoded", "")})},
		{name: "the card fails, no fallback", mode: "card-fails", accelerator: "auto", fallback: "never",
			rungs: []rung{nvencCUDA("failed", "CUDA_UNAVAILABLE")}, code: "CUDA_UNAVAILABLE", class: dag.ClassCapability},
		{name: "no session left: wait for one", mode: "session-limit", accelerator: "auto", fallback: "on_capability",
			rungs: []rung{nvencCUDA("waited", full)}, code: full, class: dag.ClassTransient},
		{name: "no session left, always", mode: "session-limit", accelerator: "auto", fallback: "always",
			rungs: slices.Concat([]rung{nvencCUDA("failed", full), nvenc("failed", full)}, others, []rung{x264CUDA("encoded", "")})},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			op := worker()
			op.Devices = gpu.Lister{NvidiaSMI: "/no/such/nvidia-smi", RenderDir: filepath.Join(t.TempDir(), "none")}
			if !c.noCard {
				op.Devices = card(t)
			}
			f := attempt(t, map[string]any{
				"path": media(t, "good.mp4"), "ffmpeg": fake(t, c.mode), "session_wait": 0.1,
				"accelerator": c.accelerator, "fallback": c.fallback,
			})
			out := op.Run(t.Context(), f.Task)
			details := f.Details()
			require.NotEmpty(t, details, "%v", out.Err)
			var got []rung
			for _, r := range details[len(details)-1].(transcode.Detail).Rungs {
				got = append(got, rung{r.Encoder, r.Decode, r.Result, r.ErrorCode})
				if r.Result != "unusable" && (r.Encoder == "h264_nvenc" || r.Decode == "cuda") {
					require.Equal(t, "GPU-test-1", r.Device)
				}
			}
			require.Equal(t, c.rungs, got)
			require.Zero(t, op.Slots.Used("GPU-test-1"))
			if c.code != "" {
				require.Equal(t, dag.OutcomeFailed, out.Kind)
				require.Equal(t, c.code, out.Err.Code, "%v", out.Err)
				require.Equal(t, c.class, out.Err.Class)
				if c.code == full {
					require.Equal(t, dag.BudgetThrottling, out.Err.Budget, "no attempt is spent")
					require.Positive(t, out.Err.RetryAfter)
				}
				nothingPublished(t, f)
				return
			}
			require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v\n%s", out.Err, f.Output)
			require.Equal(t, c.rungs[len(c.rungs)-1].encoder, out.ReturnValue.(*transcode.Result).Encoder)
		})
	}
}

// A session that another process holds comes free while the step waits: it is
// one attempt, and the encode is the card's.
func TestWaitsForASession(t *testing.T) {
	t.Parallel()
	op := worker()
	op.Devices = card(t)
	program := fake(t, "session-later")
	f := attempt(t, map[string]any{"path": media(t, "good.mp4"), "ffmpeg": program, "accelerator": "auto", "session_wait": 120.0})
	done := make(chan dag.Outcome, 1)
	go func() { done <- op.Run(context.Background(), f.Task) }()
	require.Eventually(t, func() bool { return strings.Contains(f.Output.String(), "no session is free") }, time.Minute, 5*time.Millisecond)
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(program), "free"), nil, 0o600))
	out := <-done
	require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v\n%s", out.Err, f.Output)
	require.Equal(t, "h264_nvenc", out.ReturnValue.(*transcode.Result).Encoder)
	require.Len(t, f.Details(), 1)
}

// A card that opens fewer sessions than the settings allow gets as many encodes.
func TestSlotsAreWhatTheCardOpens(t *testing.T) {
	t.Parallel()
	op := worker()
	op.Slots.PerDevice = 8
	op.Devices = card(t)
	f := attempt(t, map[string]any{"path": media(t, "good.mp4"), "ffmpeg": fake(t, "three-sessions"), "accelerator": "auto"})
	out := op.Run(t.Context(), f.Task)
	require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v\n%s", out.Err, f.Output)
	require.Equal(t, 3, op.Slots.Limit("GPU-test-1"))
}

// What a forked child of ffmpeg's holds open does not hold up the step, and the
// child is ended.
func TestForkedChildIsEnded(t *testing.T) {
	t.Parallel()
	f := attempt(t, map[string]any{"path": media(t, "good.mp4"), "ffmpeg": fake(t, "fork")})
	out := worker().Run(t.Context(), f.Task)
	require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v\n%s", out.Err, f.Output)
	require.Contains(t, f.Output.String(), "forked a child", "it was there")
	left, err := proc.Leftovers(f.Marker)
	require.NoError(t, err)
	require.Empty(t, left)
}
