package probe

import (
	"cmp"
	"context"
	"os"
	"path/filepath"

	"github.com/airlock-dag/airlock/executor/ffmpeg"
)

// Missing implements operator.Prober: whether ffmpeg and ffprobe can be run.
func (o *Operator) Missing(ctx context.Context, args map[string]any, _ string) (string, error) {
	_, err := ffmpeg.Detect(ctx, text(args, "ffmpeg", cmp.Or(o.FFmpeg, "ffmpeg")), text(args, "ffprobe", cmp.Or(o.FFprobe, "ffprobe")), "")
	switch {
	case err == nil:
		return "", nil
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	default:
		return "codec still missing: " + err.Error(), nil
	}
}

// InputGone implements operator.Prober.
func (o *Operator) InputGone(args map[string]any, dir string) string {
	path := text(args, "path", "")
	if path == "" {
		return "" // the step itself says what is wrong with it
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if _, err := os.Stat(path); err != nil {
		return "input gone: " + err.Error()
	}
	return ""
}
