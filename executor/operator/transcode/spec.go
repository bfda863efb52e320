package transcode

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
	"github.com/airlock-dag/airlock/executor/operator/mediafile"
)

// Values of the step's keys.
const (
	accelAuto = "auto"
	accelGPU  = "gpu"
	accelCPU  = "cpu"

	fallbackNever        = "never"
	fallbackOnCapability = "on_capability"
	fallbackAlways       = "always"

	verifyDuration = "duration"
	verifyPackets  = "packets"
	verifyFull     = "full"
)

// Defaults of the step's keys.
const (
	defaultStall   = 2 * time.Minute
	defaultStartup = 5 * time.Minute
	// defaultSessionWait is how long an attempt waits for an encoder session of a
	// GPU before it comes back later.
	defaultSessionWait = 2 * time.Minute
	// defaultMinFree is what must stay free on the target's file system besides
	// the expected output, in bytes.
	defaultMinFree = 64 << 20
)

// Spec implements operator.Operator.
func (o *Operator) Spec() dag.OperatorSpec {
	return dag.OperatorSpec{
		Name: "transcode",
		Doc:  "Encodes a media file by a profile and publishes it, verified, as derived/{profile}/{asset_sha256}.mp4 with a manifest beside it; what is there already is skipped.",
		Fields: []dag.Field{
			{Name: "asset", Type: dag.FieldAny, Templated: true, Mappable: true, Doc: "The record of a probe step, or a path."},
			{Name: "path", Type: dag.FieldString, Templated: true, Mappable: true, Doc: "The file to encode, in place of asset; a relative path starts at the DAG file's folder."},
			{Name: "profile", Type: dag.FieldAny, Required: true, Templated: true, Mappable: true, Doc: "The name of a profile (built in, or from profiles.yml beside the DAG), or a mapping that is one."},
			{Name: "output_dir", Type: dag.FieldString, Required: true, Templated: true, Mappable: true, Doc: "The catalogue's folder; it is made when it is not there."},
			{Name: "accelerator", Type: dag.FieldString, Enum: []string{accelAuto, accelGPU, accelCPU}, Default: accelAuto, Templated: true, Doc: "Which encoders may be used first: any that works, a GPU's, or the processor's."},
			{Name: "fallback", Type: dag.FieldString, Enum: []string{fallbackNever, fallbackOnCapability, fallbackAlways}, Default: fallbackOnCapability, Templated: true, Doc: "When to go on with the next encoder inside the same attempt."},
			{Name: "require_encoder", Type: dag.FieldString, Templated: true, Doc: "Only this encoder of ffmpeg's, by name; an output of another one does not count as done."},
			{Name: "verify", Type: dag.FieldString, Enum: []string{verifyDuration, verifyPackets, verifyFull}, Default: verifyPackets, Templated: true, Doc: "How closely the output is compared with its input."},
			{Name: "max_decode_errors", Type: dag.FieldInt, Default: 0, Templated: true, Doc: "How many lines about damaged input are taken."},
			{Name: "strict", Type: dag.FieldBool, Default: false, Doc: "End at the first decode error."},
			{Name: "deterministic", Type: dag.FieldBool, Default: false, Doc: "The same bytes at each run: one thread, no time stamps, no hardware."},
			{Name: "threads", Type: dag.FieldInt, Default: 0, Templated: true, Doc: "Encoder threads; 0 lets the encoder choose."},
			{Name: "chunk_duration", Type: dag.FieldDuration, Default: 0.0, Doc: "Encode the video in pieces of about this length, side by side and with one thread each; 0 for one piece."},
			{Name: "chunk_workers", Type: dag.FieldInt, Default: 0, Templated: true, Doc: "How many pieces are encoded at once; 0 for as many as there are processors."},
			{Name: "session_wait", Type: dag.FieldDuration, Default: defaultSessionWait.Seconds(), Doc: "How long to wait for a free encoder session of a GPU before the step comes back later."},
			{Name: "stall_timeout", Type: dag.FieldDuration, Default: defaultStall.Seconds(), Doc: "How long ffmpeg may go without an advance."},
			{Name: "startup_timeout", Type: dag.FieldDuration, Default: defaultStartup.Seconds(), Doc: "How long ffmpeg may take until its first advance."},
			{Name: "max_output_size", Type: dag.FieldInt, Default: 0, Templated: true, Doc: "The greatest output in bytes; 0 for fifty times the input and 64 MiB."},
			{Name: "max_frames", Type: dag.FieldInt, Default: 0, Templated: true, Doc: "The most video frames; 0 for ten times what the input declares and 1000."},
			{Name: "min_free", Type: dag.FieldInt, Default: defaultMinFree, Templated: true, Doc: "Bytes that must stay free on the target's file system besides the expected output."},
			{Name: "realtime", Type: dag.FieldBool, Default: false, Doc: "Read the input no faster than it plays, to leave the machine to others."},
			mediafile.SkipSealed(),
			{Name: "ffmpeg", Type: dag.FieldString, Templated: true, Doc: "The ffmpeg program, by name or path."},
			{Name: "ffprobe", Type: dag.FieldString, Templated: true, Doc: "The ffprobe program, by name or path."},
		},
		OneOf:      [][]string{{"asset", "path"}},
		ValidateAt: o.validate,
	}
}

// settings are the step's keys, read.
type settings struct {
	path string // of the input, absolute
	// sha256 of the input as a probe step found it; "" when there was none.
	sha256          string
	profile         *Profile
	outputDir       string
	accelerator     string
	fallback        string
	requireEncoder  string
	verify          string
	maxDecodeErrors int
	strict          bool
	deterministic   bool
	threads         int
	chunk           time.Duration
	chunkWorkers    int
	stall, startup  time.Duration
	sessionWait     time.Duration
	maxOutputSize   int64
	maxFrames       int64
	minFree         int64
	realtime        bool
	ffmpeg, ffprobe string
}

// readSettings reads rendered arguments; a template may have made a text of a
// number, so texts of numbers are numbers. dir is where relative paths start.
func readSettings(args map[string]any, dir string, o *Operator) (*settings, *dag.TaskError) {
	return read(args, dir, o, func(v any) (*Profile, error) { return o.profiles.find(v, dir) })
}

// read is readSettings with profiles from anywhere.
func read(args map[string]any, dir string, o *Operator, find func(any) (*Profile, error)) (*settings, *dag.TaskError) {
	r := &reader{args: args}
	s := &settings{
		accelerator:     r.choice("accelerator", accelAuto, accelGPU, accelCPU),
		fallback:        r.choice("fallback", fallbackOnCapability, fallbackNever, fallbackAlways),
		verify:          r.choice("verify", verifyPackets, verifyDuration, verifyFull),
		requireEncoder:  r.text("require_encoder", ""),
		maxDecodeErrors: int(r.integer("max_decode_errors", 0)),
		strict:          r.boolean("strict"),
		deterministic:   r.boolean("deterministic"),
		threads:         int(r.integer("threads", 0)),
		chunk:           r.duration("chunk_duration", 0),
		chunkWorkers:    int(r.integer("chunk_workers", 0)),
		sessionWait:     r.duration("session_wait", defaultSessionWait),
		stall:           r.duration("stall_timeout", defaultStall),
		startup:         r.duration("startup_timeout", defaultStartup),
		maxOutputSize:   r.integer("max_output_size", 0),
		maxFrames:       r.integer("max_frames", 0),
		minFree:         r.integer("min_free", defaultMinFree),
		realtime:        r.boolean("realtime"),
		ffmpeg:          r.text("ffmpeg", cmp.Or(o.FFmpeg, "ffmpeg")),
		ffprobe:         r.text("ffprobe", cmp.Or(o.FFprobe, "ffprobe")),
		outputDir:       r.text("output_dir", ""),
	}
	if s.outputDir == "" {
		r.fail("output_dir is missing")
	}
	s.outputDir = absolute(s.outputDir, dir)
	r.asset(s, dir)
	r.profile(s, find)
	r.repeatable(s)
	if r.err != nil {
		return nil, r.err
	}
	return s, nil
}

// reader reads arguments and keeps the first mistake.
type reader struct {
	args map[string]any
	err  *dag.TaskError
}

func (r *reader) fail(format string, a ...any) {
	if r.err == nil {
		r.err = fault.New(fault.CodeInvalidArgument, fmt.Sprintf(format, a...))
	}
}

func (r *reader) text(key, otherwise string) string {
	switch v := r.args[key].(type) {
	case nil:
		return otherwise
	case string:
		if v == "" {
			return otherwise
		}
		return v
	default:
		r.fail("%s is %v, and must be a text", key, v)
		return otherwise
	}
}

// choice reads one of some words, the first of which is the default.
func (r *reader) choice(key string, words ...string) string {
	v := r.text(key, words[0])
	if !slices.Contains(words, v) {
		slices.Sort(words)
		r.fail("%s is %q, and must be one of %s", key, v, strings.Join(words, ", "))
	}
	return v
}

func (r *reader) integer(key string, otherwise int64) int64 {
	text := ""
	switch v := r.args[key].(type) {
	case nil:
		return otherwise
	case int:
		text = strconv.Itoa(v)
	case int64:
		text = strconv.FormatInt(v, 10)
	case float64:
		text = strconv.FormatFloat(v, 'f', -1, 64)
	case json.Number:
		text = v.String()
	case string:
		text = strings.TrimSpace(v)
	default:
		text = fmt.Sprint(v)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		r.fail("%s is %v, and must be a whole number, 0 or more", key, r.args[key])
		return otherwise
	}
	return n
}

func (r *reader) boolean(key string) bool {
	switch v := r.args[key].(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		if b, err := strconv.ParseBool(strings.ToLower(v)); err == nil {
			return b
		}
	}
	r.fail("%s is %v, and must be true or false", key, r.args[key])
	return false
}

func (r *reader) duration(key string, otherwise time.Duration) time.Duration {
	switch v := r.args[key].(type) {
	case nil:
		return otherwise
	case float64:
		if v >= 0 && v < 1e9 {
			return time.Duration(v * float64(time.Second))
		}
	case int:
		if v >= 0 && v < 1e9 {
			return time.Duration(v) * time.Second
		}
	}
	r.fail("%s is %v, and must be a duration", key, r.args[key])
	return otherwise
}

// asset reads where the input is, and its hash if a probe step found it.
func (r *reader) asset(s *settings, dir string) {
	switch v := r.args["asset"].(type) {
	case nil:
		s.path = r.text("path", "")
	case string:
		s.path = v
		if strings.HasPrefix(strings.TrimSpace(v), "{") { // a record that a template made a text of
			var m map[string]any
			if err := json.Unmarshal([]byte(v), &m); err != nil {
				r.fail("asset is neither a path nor a record of a probe step: %v", err)
				return
			}
			r.record(s, m)
		}
	case map[string]any:
		r.record(s, v)
	default:
		r.fail("asset is %v, and must be the record of a probe step or a path", v)
		return
	}
	if s.path == "" {
		r.fail("neither asset nor path says which file to encode")
		return
	}
	s.path = absolute(s.path, dir)
}

func (r *reader) record(s *settings, m map[string]any) {
	s.path, _ = m["path"].(string)
	hash, present := m["asset_sha256"]
	if !present || hash == nil {
		return
	}
	s.sha256, _ = hash.(string)
	if len(s.sha256) != 64 || strings.Trim(s.sha256, "0123456789abcdef") != "" {
		r.fail("asset_sha256 is %v, and must be 64 lower-case hexadecimal digits", hash)
	}
}

// repeatable refuses what would make another file at each run.
func (r *reader) repeatable(s *settings) {
	if !s.deterministic || r.err != nil {
		return
	}
	switch {
	case s.accelerator == accelGPU:
		r.fail("deterministic: a GPU's encoder does not give the same bytes each time; set accelerator: cpu or auto")
	case s.requireEncoder != "" && !slices.Contains(repeatable(), s.requireEncoder):
		r.fail("deterministic: %s is not known to give the same bytes each time; there are %s", s.requireEncoder, strings.Join(repeatable(), ", "))
	case s.threads > 1:
		r.fail("deterministic: with %d threads an encoder does not give the same bytes each time; leave threads out, or use chunk_duration", s.threads)
	}
	for i, arg := range s.profile.Args {
		name, _, _ := strings.Cut(arg, ":")
		switch name {
		case "-threads", "-x264-params", "-x264opts", "-x265-params", "-svtav1-params", "-fflags", "-flags", "-map_metadata", "-filter_threads", "-filter_complex_threads":
			r.fail("deterministic: the profile's args set %s, which decides about it", arg)
		}
		if name == "-metadata" && i+1 < len(s.profile.Args) {
			r.noClock(s.profile.Args[i+1])
		}
	}
	if m := s.profile.Metadata; m != nil {
		for key, value := range m.Set {
			r.noClock(key + "=" + value)
		}
	}
}

// noClock refuses a tag that ffmpeg fills in with the time of day.
func (r *reader) noClock(tag string) {
	if key, value, _ := strings.Cut(tag, "="); strings.EqualFold(key, "creation_time") && strings.EqualFold(strings.TrimSpace(value), "now") {
		r.fail("deterministic: the tag %s is another one at each run", tag)
	}
}

func (r *reader) profile(s *settings, find func(any) (*Profile, error)) {
	var err error
	if s.profile, err = find(r.args["profile"]); err != nil {
		r.fail("%v", err)
	}
}

func absolute(path, dir string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
