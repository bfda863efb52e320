package ffmpeg

// Error codes of media steps, a closed list. docs/operators/transcode.md says
// what each means and what to do.
const (
	// About the input.
	CodeInputMissing    = "INPUT_MISSING"
	CodeInputEmpty      = "INPUT_EMPTY"
	CodeInputChanging   = "INPUT_CHANGING"
	CodeHashMismatch    = "HASH_MISMATCH"
	CodeIOError         = "IO_ERROR"
	CodeNotMedia        = "NOT_MEDIA"
	CodePlaylistRefused = "PLAYLIST_REFUSED"
	CodeTruncated       = "TRUNCATED"
	CodeNoStreams       = "NO_STREAMS"
	CodeNoVideoStream   = "NO_VIDEO_STREAM"
	CodeNoAudioStream   = "NO_AUDIO_STREAM"
	CodeDecodeErrors    = "DECODE_ERRORS"
	CodeInputTooLong    = "INPUT_TOO_LONG"

	// About the output.
	CodeDurationMismatch = "DURATION_MISMATCH"
	CodePacketsMismatch  = "PACKETS_MISMATCH"
	CodeStreamsMismatch  = "STREAMS_MISMATCH"
	CodeCodecMismatch    = "CODEC_MISMATCH"
	CodeSizeMismatch     = "SIZE_MISMATCH"
	CodeOutputUnreadable = "OUTPUT_UNREADABLE"
	CodeOutputTooLarge   = "OUTPUT_TOO_LARGE"
	CodeTooManyFrames    = "TOO_MANY_FRAMES"

	// About the step's settings.
	CodeBadOption        = "FFMPEG_BAD_OPTION"
	CodeBadArgument      = "FFMPEG_BAD_ARGUMENT"
	CodeUnknownFilter    = "FFMPEG_UNKNOWN_FILTER"
	CodeOddSize          = "ODD_SIZE"
	CodeCodecNotInMuxer  = "CODEC_NOT_IN_CONTAINER"
	CodeOutputDirMissing = "OUTPUT_DIR_MISSING"
	CodePermissionDenied = "PERMISSION_DENIED"
	CodeFFmpegMissing    = "FFMPEG_MISSING"

	// About what this machine can do.
	CodeUnknownEncoder   = "UNKNOWN_ENCODER"
	CodeNoUsableEncoder  = "NO_USABLE_ENCODER"
	CodeNVENCUnavailable = "NVENC_UNAVAILABLE"
	CodeCUDAUnavailable  = "CUDA_UNAVAILABLE"
	CodeVAAPIUnavailable = "VAAPI_UNAVAILABLE"
	CodeQSVUnavailable   = "QSV_UNAVAILABLE"

	// About resources and the world outside.
	CodeNoSpace           = "NO_SPACE"
	CodeNVENCSessionLimit = "NVENC_SESSION_LIMIT"
	CodeOutOfMemory       = "RESOURCE_EXHAUSTED"
	CodeConnectionRefused = "CONNECTION_REFUSED"
	CodeNameNotResolved   = "DNS_ERROR"
	CodeHTTPRefused       = "HTTP_403"
	CodeHTTPNotFound      = "HTTP_404"
	CodeHTTPThrottled     = "HTTP_429"
	CodeHTTPServerError   = "HTTP_500"

	// About the process.
	CodeStalled        = "STALLED"
	CodeStartupTimeout = "STARTUP_TIMEOUT"
	CodeKilled         = "KILLED_SIGNAL"
	CodeOOMKilled      = "OOM_KILLED"
	CodeStopped        = "FFMPEG_STOPPED"
	CodeFailed         = "FFMPEG_FAILED"
)
