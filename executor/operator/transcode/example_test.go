package transcode_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator/operatortest"
	probestep "github.com/airlock-dag/airlock/executor/operator/probe"
)

// The files that examples/media_ingest.yml works on end as its comments say,
// and filling the inbox again changes nothing.
func TestExampleInbox(t *testing.T) {
	t.Parallel()
	inbox := filepath.Join(t.TempDir(), "inbox")
	script, err := filepath.Abs("../../../examples/scripts/make_clips.sh")
	require.NoError(t, err)
	out, err := exec.Command("bash", script, inbox).CombinedOutput()
	require.NoError(t, err, string(out))
	films, err := filepath.Glob(filepath.Join(inbox, "*.mp4"))
	require.NoError(t, err)
	before := map[string]string{}
	for _, path := range films {
		before[filepath.Base(path)] = hashOf(t, path)
	}
	want := map[string]string{
		"good.mp4": "", "trailer.mp4": "", "audio_only.mp4": "NO_VIDEO_STREAM", "damaged.mp4": "DECODE_ERRORS",
		"truncated.mp4": "DURATION_MISMATCH", "empty.mp4": "INPUT_EMPTY",
	}
	require.Len(t, films, len(want))
	require.FileExists(t, filepath.Join(inbox, "orders-2025-11.csv"))

	catalogue := t.TempDir()
	for name, code := range want {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := operatortest.New(t, map[string]any{"path": filepath.Join(inbox, name)})
			out := (&probestep.Operator{}).Run(t.Context(), f.Task)
			if out.Kind == dag.OutcomeSuccess {
				f = operatortest.New(t, map[string]any{
					"asset": asJSON(t, out.ReturnValue), "profile": "h264-720p", "output_dir": catalogue,
					"accelerator": "auto", "fallback": "on_capability", "verify": "packets", "max_decode_errors": 0,
				})
				out = step().Run(t.Context(), f.Task)
			}
			if code == "" {
				require.Equal(t, dag.OutcomeSuccess, out.Kind, "%v\n%s", out.Err, f.Output)
				return
			}
			require.Equal(t, dag.OutcomeFailed, out.Kind)
			require.Equal(t, code, out.Err.Code, "%v", out.Err)
			require.Equal(t, dag.ClassPermanent, out.Err.Class)

			// In the next run, while the letter stands open.
			if f.Args["skip_sealed"], f.OpenLetter = true, 7; f.Args["profile"] == nil {
				out = (&probestep.Operator{}).Run(t.Context(), f.Task)
			} else {
				out = step().Run(t.Context(), f.Task)
			}
			if code == "INPUT_EMPTY" {
				require.Equal(t, dag.OutcomeFailed, out.Kind)
				return
			}
			require.Equal(t, dag.OutcomeSkipped, out.Kind, "%v", out.Err)
		})
	}

	// Some of it is gone: it comes back with the same bytes.
	other := filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.CopyFS(other, os.DirFS(inbox)))
	require.NoError(t, os.Remove(filepath.Join(other, "damaged.mp4")))
	require.NoError(t, os.Remove(filepath.Join(other, "audio_only.mp4")))
	out, err = exec.Command("bash", script, other).CombinedOutput()
	require.NoError(t, err, string(out))
	for name, hash := range before {
		require.Equal(t, hash, hashOf(t, filepath.Join(other, name)), name)
	}
}
