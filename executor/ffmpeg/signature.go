package ffmpeg

import (
	"regexp"

	"github.com/airlock-dag/airlock/dag"
)

// Signature is one line of the table that gives meaning to stderr. The
// patterns of one rank are tried on each line, the last line first; a later
// rank only when no line has a pattern of the earlier ones.
type Signature struct {
	// Rank is 1 for words that name the cause, up to LastRank for words that
	// many failures share.
	Rank int
	// Since and Until are the first and last major version that the line is
	// for; 0 is no bound.
	Since, Until int
	Pattern      *regexp.Regexp
	Class        dag.ErrorClass
	Code         string
	Hint         string
}

// Applies tells whether the signature is meant for a major version; a version
// that is not known (0) takes all of them.
func (s Signature) Applies(major int) bool {
	return major == 0 || (major >= s.Since && (s.Until == 0 || major <= s.Until))
}

// LastRank is the greatest rank in the table.
const LastRank = 4

func sig(rank int, class dag.ErrorClass, code, pattern, hint string) Signature {
	return Signature{Rank: rank, Class: class, Code: code, Pattern: regexp.MustCompile(`(?i)` + pattern), Hint: hint}
}

func (s Signature) since(major int) Signature { s.Since = major; return s }
func (s Signature) until(major int) Signature { s.Until = major; return s }

// Signatures is the table, in the order in which its lines are tried. It was
// measured with 5.1, 7.0, 7.1 and 9.0; the NVENC session texts come from the
// encoder's source.
func Signatures() []Signature {
	const (
		permanent     = dag.ClassPermanent
		transient     = dag.ClassTransient
		configuration = dag.ClassConfiguration
		capability    = dag.ClassCapability
	)
	return []Signature{
		// Resources first: they hide behind other words.
		sig(1, transient, CodeNoSpace, `no space left on device|disk quota exceeded`, "make room on the output's file system"),
		sig(1, transient, CodeNVENCSessionLimit, `openencodesessionex failed: out of memory \(10\)|incompatible client key \(21\)|too many concurrent sessions`, "all encoder sessions of the GPU are in use; lower the number of slots"),
		// What the machine cannot do.
		sig(1, capability, CodeNVENCUnavailable, `cannot load libcuda|cannot load libnvidia-encode|cannot load nvcuda|unsupported device \(2\)|no capable devices found|no nvenc capable devices|driver does not support the required nvenc api|minimum required nvidia driver|10 bit encode not supported|doesn't support required nvenc features`, "no NVIDIA encoder can be used here; set fallback: on_capability or accelerator: cpu"),
		sig(1, capability, CodeCUDAUnavailable, `cuda_error_no_device|cuinit\(0\) failed|no device available for decoder: device type cuda|could not dynamically load cuda|cuda_error_(unknown|not_initialized|device_unavailable)`, "no CUDA device answers; set fallback: on_capability or accelerator: cpu"),
		sig(1, capability, CodeVAAPIUnavailable, `no va display found|failed to initialise vaapi connection|unrecognized option 'vaapi_device'|no device available for decoder: device type vaapi|driver does not support .* rc mode|no usable encoding (entrypoint|profile) found`, "no VAAPI device can be used here"),
		sig(1, capability, CodeQSVUnavailable, `mfx session|selected ratecontrol mode is unsupported|no device available for decoder: device type qsv`, "no Quick Sync device can be used here"),
		sig(1, capability, CodeUnknownEncoder, `unknown encoder|encoder not found`, "this build of ffmpeg lacks the encoder; install one that has it"),
		// The input.
		sig(1, permanent, CodePlaylistRefused, `protocol '[^']*' not on whitelist|not detecting m3u8|error when loading first segment`, "the file names other files or addresses; fetch them in a step of their own"),
		sig(2, permanent, CodeNotMedia, `detected only with low score of 1\b`, "the input is not media that this ffmpeg can read"),
		sig(3, permanent, CodeTruncated, `moov atom not found`, "the file ends before its index; fetch it again"),
		sig(1, permanent, CodeNoVideoStream, `stream map '0:v[^']*' matches no streams`, "the input has no video; choose an audio profile").until(8),
		sig(1, permanent, CodeNoAudioStream, `stream map '0:a[^']*' matches no streams`, "the input has no audio; set audio to optional").until(8),
		// 9.0 leaves the map's text out of that line and names it in the next.
		sig(1, permanent, CodeNoVideoStream, `failed to set value '0:v[^']*' for option 'map'`, "the input has no video; choose an audio profile").since(7),
		sig(1, permanent, CodeNoAudioStream, `failed to set value '0:a[^']*' for option 'map'`, "the input has no audio; set audio to optional").since(7),
		// The step's settings.
		sig(1, configuration, CodeOddSize, `(width|height) not divisible by 2`, "let the profile round to an even size"),
		sig(1, configuration, CodeCodecNotInMuxer, `only .* are supported for|codec not currently supported in container`, "choose a container that takes the codec"),
		sig(1, configuration, CodeUnknownFilter, `no such filter|filter not found`, "check the profile's filters against this ffmpeg"),
		sig(1, configuration, CodeBadOption, `unrecognized option`, "check the profile's extra arguments against this ffmpeg"),
		sig(1, configuration, CodeBadArgument, `error setting preset|invalid preset|undefined constant|suitable output format|unable to choose an output format`, "check the profile's values"),
		sig(1, configuration, CodePermissionDenied, `permission denied`, "give the worker's user the right to read the input and to write the output folder"),
		// The network, for inputs that are addresses.
		sig(1, transient, CodeConnectionRefused, `connection refused|connection timed out|connection reset`, ""),
		sig(1, transient, CodeNameNotResolved, `failed to resolve hostname`, ""),
		sig(1, transient, CodeHTTPThrottled, `server returned 429|429 too many requests`, "ffmpeg hides Retry-After; fetch the file in a step of its own").since(6),
		sig(1, transient, CodeHTTPThrottled, `server returned 4XX`, "this ffmpeg does not say which status it was").until(5),
		sig(1, transient, CodeHTTPServerError, `server returned 5\d\d`, ""),
		sig(1, permanent, CodeHTTPNotFound, `server returned 404`, "the address has no file"),
		sig(1, permanent, CodeHTTPRefused, `server returned 40[13]`, "the server does not let this worker in"),
		// Words that many failures share.
		sig(4, configuration, CodeCodecNotInMuxer, `could not write header`, "choose a container that takes the codec"),
		sig(4, configuration, CodeOutputDirMissing, `error opening output.*no such file`, "make the output folder").since(6),
		sig(4, permanent, CodeInputMissing, `error opening input.*no such file`, "the input is gone").since(6),
		sig(4, configuration, CodeBadOption, `option not found`, "check the profile's extra arguments against this ffmpeg"),
		sig(4, permanent, CodeInputMissing, `: no such file or directory\s*$`, "the input is gone"),
		sig(4, permanent, CodeNoStreams, `does not contain any stream|matches no streams`, "the input lacks what the profile asks for"),
		sig(4, permanent, CodeDecodeErrors, decodeError.String()[len(`(?i)`):], "the input is damaged; fetch it again or raise max_decode_errors"),
		sig(4, permanent, CodeNotMedia, `invalid data found when processing input`, "the input is not media that this ffmpeg can read"),
		sig(4, transient, CodeOutOfMemory, `cannot allocate memory`, ""),
		sig(4, capability, CodeNoUsableEncoder, `device creation failed|device setup failed for decoder`, "the hardware device cannot be used"),
		sig(4, configuration, CodeBadArgument, `invalid argument`, "check the profile's values"),
	}
}

// ExitMeaning is what an exit status says by itself, where it says anything.
type ExitMeaning struct {
	Since, Until int // major versions; 0 is no bound
	ExitCode     int
	Class        dag.ErrorClass
	Code         string
}

// ExitMeanings is the table of exit statuses. From version 7 on a status is
// the low byte of the error number: 256 - errno for a system error. 1, 8 and
// 255 are not here: they are what unrelated failures share.
func ExitMeanings() []ExitMeaning {
	return []ExitMeaning{
		{Since: 0, ExitCode: 69, Class: dag.ClassPermanent, Code: CodeDecodeErrors},
		{Since: 6, ExitCode: 145, Class: dag.ClassTransient, Code: CodeConnectionRefused},
		{Since: 6, ExitCode: 171, Class: dag.ClassCapability, Code: CodeQSVUnavailable},
		{Since: 6, ExitCode: 183, Class: dag.ClassPermanent, Code: CodeNotMedia},
		{Since: 6, ExitCode: 228, Class: dag.ClassTransient, Code: CodeNoSpace},
		{Since: 6, ExitCode: 234, Class: dag.ClassConfiguration, Code: CodeBadArgument},
		{Since: 6, ExitCode: 243, Class: dag.ClassConfiguration, Code: CodePermissionDenied},
		{Since: 6, ExitCode: 244, Class: dag.ClassTransient, Code: CodeOutOfMemory},
		{Since: 6, ExitCode: 254, Class: dag.ClassPermanent, Code: CodeInputMissing},
	}
}
