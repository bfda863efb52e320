package cli

import (
	"fmt"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/proc"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/ffmpeg"
)

// classifyFFmpeg reads what ffmpeg wrote by the tables of its release, as the
// media steps do; then the task's own rules are asked.
func (c classifyCmd) classifyFFmpeg(e fault.Evidence, task *dag.Task) (dag.TaskError, []string, error) {
	collected := &ffmpeg.Stderr{}
	_, _ = collected.Write([]byte(e.Stderr + "\n")) // it never fails
	version, why, err := c.ffmpegVersion(e.Stderr)
	if err != nil {
		return dag.TaskError{}, nil, err
	}
	end := ffmpeg.Ending{
		Stderr: collected.Tail(), Version: version, DecodeErrors: collected.DecodeErrors(),
		Result: proc.Result{ExitCode: unknownExit, OutOfMemory: e.OutOfMemory},
	}
	if e.ExitCode != nil {
		end.Result.ExitCode = *e.ExitCode
	} else {
		why = append(why, "no --exit-code is given: taken for a failure")
	}
	if signal, ok := fault.ParseSignal(e.Signal); e.Signal != "" && ok {
		end.Result.ExitCode, end.Result.Signal = -1, signal
	}
	if n := end.DecodeErrors; n > 0 {
		why = append(why, fmt.Sprintf("%d lines tell of damaged input; max_decode_errors of the step says whether that is too many", n))
	}
	fail, evidence := end.Explain()
	why = append(why, evidence...)
	if fail == nil {
		return dag.TaskError{Message: "no failure is seen: the step goes on to compare the output with its input"}, why, nil
	}
	if e.ExitCode == nil {
		fail.ExitCode = nil
	}
	if own := fault.Apply(task, fail, end.Stderr); own.Class != fail.Class || own.Code != fail.Code {
		why = append(why, fmt.Sprintf("the step's own rules make it %s, %s", own.Code, own.Class))
		fail = own
	}
	return *fail, why, nil
}

// unknownExit stands for a status that nobody gave: it is in no table.
const unknownExit = 1

// ffmpegVersion is the release that a log is of: as the flag says, else as its
// banner says, else unknown.
func (c classifyCmd) ffmpegVersion(log string) (ffmpeg.Version, []string, error) {
	if c.FFmpeg != "" {
		v, err := ffmpeg.ParseVersion("ffmpeg version " + c.FFmpeg + "\n")
		if err != nil || v.Major == 0 {
			return v, nil, wrong("classify", "write 5.1, 7.1.5 or 9.0", "%q is no release of ffmpeg", c.FFmpeg)
		}
		return v, []string{fmt.Sprintf("the tables of release %d are used, as --ffmpeg-version says", v.Major)}, nil
	}
	if i := strings.Index(log, "ffmpeg version "); i >= 0 {
		if v, err := ffmpeg.ParseVersion(log[i:]); err == nil && v.Major > 0 {
			return v, []string{fmt.Sprintf("the log is of ffmpeg %s: the tables of release %d are used", v.Text, v.Major)}, nil
		}
	}
	return ffmpeg.Version{}, []string{"the release is not known: the tables of all are used"}, nil
}
