package ffmpeg_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/proc"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/ffmpeg"
)

// recording reads testdata/recordings/<version>/<name>.txt: what that release
// wrote to stderr and how it ended.
func recording(t *testing.T, version, name string) ffmpeg.Ending {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "recordings", version, name+".txt"))
	require.NoError(t, err)
	first, rest, _ := strings.Cut(string(data), "\n")
	code, err := strconv.Atoi(strings.TrimPrefix(first, "exit "))
	require.NoError(t, err)
	major, err := strconv.Atoi(strings.Split(version, ".")[0])
	require.NoError(t, err)
	return ffmpeg.Ending{
		Result:  proc.Result{ExitCode: code},
		Stderr:  rest,
		Version: ffmpeg.Version{Major: major},
		Input:   "/out/nope.mp4",
		Output:  "/out/no/such/o.mp4",
	}
}

func TestRecordedEndings(t *testing.T) {
	t.Parallel()
	type want struct {
		class dag.ErrorClass
		code  string
	}
	permanent, transient, configuration, capability := dag.ClassPermanent, dag.ClassTransient, dag.ClassConfiguration, dag.ClassCapability
	wants := map[string]want{
		"input_missing":          {permanent, "INPUT_MISSING"},
		"output_folder_missing":  {configuration, "OUTPUT_DIR_MISSING"},
		"not_media":              {permanent, "NOT_MEDIA"},
		"empty":                  {permanent, "NOT_MEDIA"},
		"truncated_no_moov":      {permanent, "TRUNCATED"},
		"playlist":               {permanent, "PLAYLIST_REFUSED"},
		"unknown_encoder":        {capability, "UNKNOWN_ENCODER"},
		"unknown_option":         {configuration, "FFMPEG_BAD_OPTION"},
		"unknown_filter":         {configuration, "FFMPEG_UNKNOWN_FILTER"},
		"bad_filter_arguments":   {configuration, "FFMPEG_BAD_ARGUMENT"},
		"bad_preset":             {configuration, "FFMPEG_BAD_ARGUMENT"},
		"no_video_stream":        {permanent, "NO_VIDEO_STREAM"},
		"odd_size":               {configuration, "ODD_SIZE"},
		"codec_not_in_container": {configuration, "CODEC_NOT_IN_CONTAINER"},
		"unknown_suffix":         {configuration, "FFMPEG_BAD_ARGUMENT"},
		"connection_refused":     {transient, "CONNECTION_REFUSED"},
		"name_not_resolved":      {transient, "DNS_ERROR"},
		"nvenc_no_driver":        {capability, "NVENC_UNAVAILABLE"},
		"hwaccel_cuda_no_device": {capability, "CUDA_UNAVAILABLE"},
		"vaapi_no_device":        {capability, "VAAPI_UNAVAILABLE"},
		"qsv_no_device":          {capability, "QSV_UNAVAILABLE"},
		"no_space":               {transient, "NO_SPACE"},
		"no_space_ts":            {transient, "NO_SPACE"},
		"sigterm":                {transient, "FFMPEG_STOPPED"},
	}
	// The build of 7.0 has neither NVENC nor QSV: it does not know the encoders.
	exceptions := map[string]want{
		"7.0/nvenc_no_driver": {capability, "UNKNOWN_ENCODER"},
		"7.0/qsv_no_device":   {capability, "UNKNOWN_ENCODER"},
	}
	// These end with 0 and are for the verification to find.
	silent := map[string]bool{"good": true, "corrupt_middle": true, "truncated_with_moov": true}

	files, err := filepath.Glob("testdata/recordings/*/*.txt")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 80)
	for _, file := range files {
		version := filepath.Base(filepath.Dir(file))
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(version+"/"+name, func(t *testing.T) {
			t.Parallel()
			got := recording(t, version, name).Classify()
			if silent[name] {
				require.Nil(t, got)
				return
			}
			w, ok := exceptions[version+"/"+name]
			if !ok {
				w, ok = wants[name]
			}
			require.True(t, ok, "no expectation for %s", name)
			require.NotNil(t, got)
			require.Equal(t, w.class, got.Class, "%v", got)
			require.Equal(t, w.code, got.Code, "%v", got)
			require.NotEmpty(t, got.Message)
			require.NotNil(t, got.ExitCode)
		})
	}
}

// Texts of NVIDIA's encoder as users have reported them; no machine with such
// a card was at hand.
func TestEncoderSessionTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line  string
		class dag.ErrorClass
		code  string
	}{
		{"[h264_nvenc] [error] OpenEncodeSessionEx failed: out of memory (10): (no details)", dag.ClassTransient, "NVENC_SESSION_LIMIT"},
		{"[h264_nvenc] [error] OpenEncodeSessionEx failed: unsupported device (2): (no details)", dag.ClassCapability, "NVENC_UNAVAILABLE"},
		{"[h264_nvenc] [error] No capable devices found", dag.ClassCapability, "NVENC_UNAVAILABLE"},
		{"[AVHWDeviceContext] [error] cu->cuInit(0) failed -> CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected", dag.ClassCapability, "CUDA_UNAVAILABLE"},
	} {
		for _, major := range []int{5, 7, 9} {
			e := ffmpeg.Ending{Result: proc.Result{ExitCode: 255}, Version: ffmpeg.Version{Major: major},
				Stderr: c.line + "\n[error] Error while opening encoder - maybe incorrect parameters such as bit_rate, rate, width or height.\n[error] Error opening output files: Operation not permitted\n"}
			got := e.Classify()
			require.Equal(t, c.code, got.Code, c.line)
			require.Equal(t, c.class, got.Class, c.line)
		}
	}
}

func TestEvidenceHasAnOrder(t *testing.T) {
	t.Parallel()
	text := "[error] x.mp4: No space left on device\n"
	stalled := &ffmpeg.StopError{Class: dag.ClassTransient, Code: ffmpeg.CodeStalled, Message: "no progress for 2m0s"}

	// What we did comes before what ffmpeg says.
	got := ffmpeg.Ending{Result: proc.Result{ExitCode: 255, Stopped: stalled}, Stderr: text}.Classify()
	require.Equal(t, "STALLED", got.Code)

	// A signal comes before what ffmpeg says, and spends the crash budget.
	got = ffmpeg.Ending{Result: proc.Result{ExitCode: -1, Signal: syscall.SIGKILL}, Stderr: text}.Classify()
	require.Equal(t, "KILLED_SIGNAL", got.Code)
	require.Equal(t, dag.BudgetCrashes, got.Budget)
	require.Equal(t, "SIGKILL", got.Signal)
	require.Nil(t, got.ExitCode)

	// An unknown ending is transient.
	got = ffmpeg.Ending{Result: proc.Result{ExitCode: 8}, Stderr: "something new\n", Version: ffmpeg.Version{Major: 7}}.Classify()
	require.Equal(t, "FFMPEG_FAILED", got.Code)
	require.Equal(t, dag.ClassTransient, got.Class)

	// A status that says something by itself, in a version where it does.
	e := ffmpeg.Ending{Result: proc.Result{ExitCode: 228}, Version: ffmpeg.Version{Major: 7}}
	require.Equal(t, "NO_SPACE", e.Classify().Code)
	e.Version.Major = 5
	require.Equal(t, "FFMPEG_FAILED", e.Classify().Code)
}

func TestExplainNamesTheEvidence(t *testing.T) {
	t.Parallel()
	fail, why := recording(t, "9.0", "truncated_no_moov").Explain()
	require.Equal(t, "TRUNCATED", fail.Code)
	require.Contains(t, why[0], "moov atom not found")
	fail, why = recording(t, "9.0", "good").Explain()
	require.Nil(t, fail)
	require.Contains(t, why[0], "output decides")
}

func TestSignatureTableIsSound(t *testing.T) {
	t.Parallel()
	code := regexp.MustCompile(`^[A-Z][A-Z0-9_]+$`)
	for _, s := range ffmpeg.Signatures() {
		require.Regexp(t, code, s.Code)
		require.Contains(t, []dag.ErrorClass{dag.ClassPermanent, dag.ClassTransient, dag.ClassConfiguration, dag.ClassCapability}, s.Class)
		require.True(t, s.Rank >= 1 && s.Rank <= ffmpeg.LastRank)
	}
}

// Each code of the tables is on the closed list, with the class that most of
// its findings have.
func TestCodesAreOnTheList(t *testing.T) {
	t.Parallel()
	for _, s := range ffmpeg.Signatures() {
		_, ok := fault.Lookup(s.Code)
		require.True(t, ok, s.Code)
	}
	for _, m := range ffmpeg.ExitMeanings() {
		_, ok := fault.Lookup(m.Code)
		require.True(t, ok, m.Code)
	}
}
