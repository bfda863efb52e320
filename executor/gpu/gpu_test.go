package gpu_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/dagtest"
	"github.com/airlock-dag/airlock/executor/ffmpeg"
	"github.com/airlock-dag/airlock/executor/gpu"
)

func TestParseList(t *testing.T) {
	t.Parallel()
	got := gpu.ParseList(`GPU 0: Tesla T4 (UUID: GPU-aaaa-1)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-bbbb-2)
  MIG 3g.20gb     Device  0: (UUID: MIG-cccc-3)
  MIG 1g.5gb      Device  1: (UUID: MIG-GPU-dddd/1/0)
GPU 2: NVIDIA H200 (UUID: GPU-eeee-4)
something else
`, "550.54")
	require.Len(t, got, 4)
	require.Equal(t, gpu.Device{Kind: gpu.KindNVIDIA, ID: "GPU-aaaa-1", Name: "Tesla T4", Driver: "550.54"}, got[0])
	require.Equal(t, "MIG-cccc-3", got[1].ID, "a card that is cut gives its slices")
	require.Equal(t, "MIG-GPU-dddd/1/0", got[2].ID)
	require.True(t, strings.HasPrefix(got[2].Name, "NVIDIA A100-SXM4-40GB MIG"))
	require.Contains(t, got[2].Note(), "no encoder")
	require.Contains(t, got[3].Note(), "no encoder")
	require.Empty(t, got[0].Note())
	require.Equal(t, []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=GPU-aaaa-1"}, got[0].Env())
	require.Empty(t, gpu.ParseList("No devices were found\n", ""))
}

func TestDevices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	smi := filepath.Join(dir, "nvidia-smi")
	dagtest.Program(t, smi, "#!/bin/sh\ncase $1 in -L) echo 'GPU 0: Tesla T4 (UUID: GPU-1)';; *) echo 550.1; echo 550.1;; esac\n")
	dri := filepath.Join(dir, "dri")
	require.NoError(t, os.Mkdir(dri, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dri, "renderD128"), nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dri, "card0"), nil, 0o644))

	got, err := gpu.Lister{NvidiaSMI: smi, RenderDir: dri}.Devices(t.Context())
	require.NoError(t, err)
	require.Equal(t, []gpu.Device{
		{Kind: gpu.KindNVIDIA, ID: "GPU-1", Name: "Tesla T4", Driver: "550.1"},
		{Kind: gpu.KindRender, ID: filepath.Join(dri, "renderD128")},
	}, got)
	require.Empty(t, got[1].Env())

	// A driver that does not answer is a machine without its cards.
	dagtest.Program(t, smi, "#!/bin/sh\necho NVIDIA-SMI has failed; exit 9\n")
	got, err = gpu.Lister{NvidiaSMI: smi, RenderDir: filepath.Join(dir, "none")}.Devices(t.Context())
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestEncodersByPreference(t *testing.T) {
	t.Parallel()
	for _, codec := range []string{"h264", "hevc", "av1"} {
		list := gpu.Encoders(codec)
		require.NotEmpty(t, list)
		require.Equal(t, gpu.AccelNVENC, list[0].Accel)
		require.Equal(t, gpu.AccelSoftware, list[len(list)-1].Accel)
	}
	require.Empty(t, gpu.Encoders("theora"))
}

type handClock struct {
	dag.SystemClock
	mu  sync.Mutex
	off time.Duration
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.SystemClock.Now().Add(c.off)
}

func (c *handClock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}

// counting wraps the real ffmpeg and notes each start of it in a file.
func counting(t *testing.T) (tool ffmpeg.Tool, starts func() int) {
	t.Helper()
	dir := t.TempDir()
	script := filepath.Join(dir, "ffmpeg")
	note := filepath.Join(dir, "starts")
	dagtest.Program(t, script, "#!/bin/sh\necho x >>"+note+"\nexec ffmpeg \"$@\"\n")
	tool, err := ffmpeg.Detect(t.Context(), "ffmpeg", "ffprobe", "")
	require.NoError(t, err)
	tool.FFmpeg = script
	return tool, func() int {
		data, err := os.ReadFile(note)
		if errors.Is(err, os.ErrNotExist) {
			return 0
		}
		require.NoError(t, err)
		return strings.Count(string(data), "x")
	}
}

func TestProberTriesAndRemembers(t *testing.T) {
	t.Parallel()
	tool, starts := counting(t)
	clock := &handClock{}
	p := &gpu.Prober{Clock: clock}
	x264 := gpu.Encoder{Name: "libx264", Codec: "h264", Accel: gpu.AccelSoftware}

	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			fail, err := p.Usable(context.Background(), tool, x264, nil, "yuv420p")
			if err != nil || fail != nil {
				t.Errorf("libx264: %v, %v", fail, err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, starts(), "one question, one encode")

	_, err := p.Usable(t.Context(), tool, x264, nil, "yuv420p10le")
	require.NoError(t, err)
	require.Equal(t, 2, starts(), "another pixel format is another question")

	p.Forget(tool, x264, nil, "yuv420p")
	_, err = p.Usable(t.Context(), tool, x264, nil, "yuv420p")
	require.NoError(t, err)
	require.Equal(t, 3, starts())

	clock.forward(gpu.DefaultMaxAge + time.Second)
	_, err = p.Usable(t.Context(), tool, x264, nil, "yuv420p")
	require.NoError(t, err)
	require.Equal(t, 4, starts(), "an old answer is asked again")
}

func TestProberSaysWhyNot(t *testing.T) {
	t.Parallel()
	tool, starts := counting(t)
	p := &gpu.Prober{Clock: dag.SystemClock{}}

	fail, err := p.Usable(t.Context(), tool, gpu.Encoder{Name: "nosuch", Codec: "h264", Accel: gpu.AccelSoftware}, nil, "yuv420p")
	require.NoError(t, err)
	require.Equal(t, "UNKNOWN_ENCODER", fail.Code)
	require.Equal(t, dag.ClassCapability, fail.Class)

	fail, err = p.Usable(t.Context(), tool, gpu.Encoder{Name: "h264_nvenc", Codec: "h264", Accel: gpu.AccelNVENC}, nil, "yuv420p")
	require.NoError(t, err)
	require.Equal(t, "NVENC_UNAVAILABLE", fail.Code)
	require.Equal(t, 1, starts(), "nothing is tried on a device that is not there")

	if _, err := os.Stat("/dev/nvidiactl"); err != nil {
		card := gpu.Device{Kind: gpu.KindNVIDIA, ID: "GPU-1", Name: "NVIDIA H200", Driver: "550"}
		fail, err = p.Usable(t.Context(), tool, gpu.Encoder{Name: "h264_nvenc", Codec: "h264", Accel: gpu.AccelNVENC}, &card, "yuv420p")
		require.NoError(t, err)
		require.Equal(t, dag.ClassCapability, fail.Class, "%v", fail)
		require.Contains(t, fail.Hint, "no encoder")
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stopping")
	cancel(stop)
	_, err = p.Usable(ctx, tool, gpu.Encoder{Name: "libx265", Codec: "hevc", Accel: gpu.AccelSoftware}, nil, "yuv420p")
	require.ErrorIs(t, err, stop)
}

func TestSlots(t *testing.T) {
	t.Parallel()
	devices := []gpu.Device{{ID: "a"}, {ID: "b"}}
	s := &gpu.Slots{}
	d1, release1, err := s.Acquire(t.Context(), devices)
	require.NoError(t, err)
	d2, release2, err := s.Acquire(t.Context(), devices)
	require.NoError(t, err)
	require.NotEqual(t, d1.ID, d2.ID, "two encodes go to two devices")

	got := make(chan gpu.Device)
	go func() {
		d, _, err := s.Acquire(context.Background(), devices)
		if err != nil {
			t.Error(err)
		}
		got <- d
	}()
	select {
	case <-got:
		t.Fatal("a third slot was given")
	default:
	}
	release2()
	release2() // again: nothing
	require.Equal(t, d2.ID, (<-got).ID)
	require.Equal(t, 1, s.Used(d2.ID))

	stop := errors.New("stopping")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	_, _, err = s.Acquire(ctx, devices)
	require.ErrorIs(t, err, stop)
	release1()
	require.Zero(t, s.Used(d1.ID))
	_, _, err = s.Acquire(t.Context(), nil)
	require.Error(t, err)
}
