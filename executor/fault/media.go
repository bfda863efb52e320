package fault

import "github.com/airlock-dag/airlock/dag"

// mediaCodes are what the steps probe and transcode say of a file, of ffmpeg
// and of the machine's encoders. Package executor/ffmpeg has the tables that
// lead to them.
func mediaCodes() []Code {
	const (
		transient  = dag.ClassTransient
		permanent  = dag.ClassPermanent
		config     = dag.ClassConfiguration
		capability = dag.ClassCapability
	)
	return []Code{
		{"INPUT_MISSING", permanent, "", "the media file does not exist", "check the path; a relative one starts at the DAG file's folder"},
		{"INPUT_EMPTY", permanent, "", "the media file has no bytes", "it is the usual sign of an upload that has not finished; send the file again"},
		{"INPUT_CHANGING", transient, "", "the media file changed while it was read", "let its producer rename the finished file into place"},
		{CodeSealedBefore, dag.ClassPermanent, "", "no failure: with `skip_sealed` a file is skipped whose dead letter stands open", "replay, resolve or drop the letter"},
		{"POISONED_INPUT", dag.ClassPoison, "", "this input has failed in too many attempts, of whatever task, and nobody opens it until it is released", "look at what failed, then run `airlock inputs release`"},
		{"INPUT_TOO_LONG", permanent, "", "the input lasts longer than the profile allows", "raise the profile's max_duration, or look for a gap in the timestamps"},
		{"NOT_MEDIA", permanent, "", "the file is not media that ffmpeg can read", "check what the producer sent under this name"},
		{"PLAYLIST_REFUSED", permanent, "", "the file is a playlist and names other files or addresses", "fetch what it names in a step of its own"},
		{"TRUNCATED", permanent, "", "the file ends before its index", "fetch it again"},
		{"NO_STREAMS", permanent, "", "the file has neither video nor sound", ""},
		{"NO_VIDEO_STREAM", permanent, "", "the file has no video; a cover picture does not count", "use an audio profile"},
		{"NO_AUDIO_STREAM", permanent, "", "the file has no sound", "use a profile that does not require it"},
		{"DECODE_ERRORS", permanent, "", "more of the input is damaged than max_decode_errors allows", "fetch it again, or raise max_decode_errors to take the loss"},

		{"DURATION_MISMATCH", permanent, "", "input or output is shorter or longer than the input's index declares", "compare the input with its source; nothing was published"},
		{"PACKETS_MISMATCH", permanent, "", "the output lacks frames or sound that the input has", "compare the input with its source; nothing was published"},
		{"STREAMS_MISMATCH", permanent, "", "the output does not have the streams that the profile asks for", ""},
		{"CODEC_MISMATCH", permanent, "", "the output's codec or format is not the profile's", ""},
		{"SIZE_MISMATCH", permanent, "", "the output's width or height is not the expected one", ""},
		{"OUTPUT_UNREADABLE", transient, "", "the output that ffmpeg wrote cannot be read back", ""},
		{"OUTPUT_TOO_LARGE", permanent, "", "the output passed its greatest size", "raise max_output_size, or look for a gap in the timestamps"},
		{"TOO_MANY_FRAMES", permanent, "", "the output passed its greatest number of frames", "raise max_frames, or look for a gap in the timestamps"},

		{"FFMPEG_MISSING", config, "", "the worker has no such ffmpeg or ffprobe", "install it, or name the program with ffmpeg and ffprobe"},
		{"FFMPEG_BAD_OPTION", config, "", "this ffmpeg does not know an option", "check the profile's args"},
		{"FFMPEG_BAD_ARGUMENT", config, "", "this ffmpeg does not take a value", "check the profile's values"},
		{"FFMPEG_UNKNOWN_FILTER", config, "", "this ffmpeg lacks a filter", "check the profile's args"},
		{"ODD_SIZE", config, "", "the encoder refuses an odd width or height", "let the profile round to an even size"},
		{"CODEC_NOT_IN_CONTAINER", config, "", "the container does not take the codec", "choose another container"},
		{"OUTPUT_DIR_MISSING", config, "", "the output folder does not exist", "make it"},

		{"UNKNOWN_ENCODER", capability, "", "this build of ffmpeg lacks the encoder", "install one that has it"},
		{"NO_USABLE_ENCODER", capability, "", "no encoder that the step may use works on this machine", "set fallback: on_capability, or run the queue on another worker"},
		{"NVENC_UNAVAILABLE", capability, "", "NVIDIA's encoder does not work here", "set fallback: on_capability"},
		{"CUDA_UNAVAILABLE", capability, "", "no CUDA device answers", "set fallback: on_capability"},
		{"VAAPI_UNAVAILABLE", capability, "", "no VAAPI device can be used", "set fallback: on_capability"},
		{"QSV_UNAVAILABLE", capability, "", "no Quick Sync device can be used", "set fallback: on_capability"},
		{"NVENC_SESSION_LIMIT", transient, "", "all encoder sessions of the GPU are in use", "run fewer encodes at once on this GPU"},

		{"STARTUP_TIMEOUT", transient, "", "ffmpeg produced nothing in its startup_timeout", "raise it if the input is slow to open"},
		{"FFMPEG_STOPPED", transient, "", "somebody sent ffmpeg a signal to end", ""},
		{"FFMPEG_FAILED", transient, "", "ffmpeg failed in a way that no table knows", ""},
	}
}

// CodePoisonedInput is that of an attempt whose media input is not to be
// opened any more.
const CodePoisonedInput = "POISONED_INPUT"

// CodeSealedBefore is that of a skip: the file's dead letter stands open.
const CodeSealedBefore = "SEALED_BEFORE"

// BlamesInput tells whether a failure may be the media input's own fault, so
// that it counts towards the limit past which nobody opens that input: damage,
// and all that ends or hangs the process which reads it. What a profile asks
// for, what the machine lacks and what a person did do not count.
func BlamesInput(e *dag.TaskError) bool {
	if e == nil {
		return false
	}
	switch e.Code {
	case "NOT_MEDIA", "TRUNCATED", "NO_STREAMS", "DECODE_ERRORS", "DURATION_MISMATCH", "PACKETS_MISMATCH",
		"OUTPUT_UNREADABLE", "OUTPUT_TOO_LARGE", "TOO_MANY_FRAMES", "FFMPEG_FAILED", "STARTUP_TIMEOUT",
		CodeStalled, CodeTimeout, CodeKilledSignal, CodeOOMKilled, CodeWorkerLost:
		return true
	default:
		return false
	}
}
