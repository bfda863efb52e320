package transcode

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator"
)

// Missing implements operator.Prober: it makes a small encode with each encoder
// that the step allows until one works.
func (o *Operator) Missing(ctx context.Context, args map[string]any, dir string) (string, error) {
	s, fail := readSettings(args, dir, o)
	if fail != nil {
		return "", nil //nolint:nilerr // the step itself says what is wrong with it
	}
	tool, err := o.Versions.Detect(ctx, s.ffmpeg, s.ffprobe, "")
	if err != nil {
		return missingTool(ctx, err)
	}
	a := &attempt{op: o, s: s, tool: tool, t: &operator.Task{Log: io.Discard, Detail: func(any) {}}}
	devices := a.devices(ctx)
	var reasons []string
	works := false
	for _, r := range a.ladder(false) {
		_, fail, err := a.usable(ctx, nil, r, devices)
		if err != nil {
			return "", err
		}
		if works = fail == nil; works {
			break
		}
		reasons = append(reasons, r.encoder.Name+": "+fail.Message)
	}
	if !works {
		codec := s.requireEncoder
		if codec == "" && s.profile.Video != nil {
			codec = s.profile.Video.Codec
		}
		return "codec still missing: no usable encoder for " + codec + " (" + strings.Join(reasons, "; ") + ")", nil
	}
	return "", nil
}

// InputGone implements operator.Prober.
func (o *Operator) InputGone(args map[string]any, dir string) string {
	s, fail := readSettings(args, dir, o)
	if fail != nil {
		return ""
	}
	if _, err := os.Stat(s.path); err != nil {
		return "input gone: " + err.Error()
	}
	return ""
}

// missingTool is the word on a tool that cannot be run.
func missingTool(ctx context.Context, err error) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	var fail *dag.TaskError
	if errors.As(err, &fail) {
		return "codec still missing: " + fail.Message, nil
	}
	return "codec still missing: " + err.Error(), nil
}
