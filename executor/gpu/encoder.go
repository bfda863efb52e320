package gpu

import "slices"

// Accel is the way an encoder works.
type Accel string

// Ways to encode.
const (
	AccelNVENC    Accel = "nvenc"
	AccelVAAPI    Accel = "vaapi"
	AccelQSV      Accel = "qsv"
	AccelSoftware Accel = "software"
)

// Encoder is one of ffmpeg's video encoders.
type Encoder struct {
	Name  string // ffmpeg's name: "h264_nvenc"
	Codec string // what it makes: "h264"
	Accel Accel
}

// Kind of device that the encoder runs on; "" for the processor.
func (e Encoder) Kind() Kind {
	switch e.Accel {
	case AccelNVENC:
		return KindNVIDIA
	case AccelVAAPI, AccelQSV:
		return KindRender
	case AccelSoftware:
		return ""
	default:
		return ""
	}
}

// Encoders lists the encoders of a codec, the preferred ones first. It is
// empty for a codec that is not known.
func Encoders(codec string) []Encoder {
	all := []Encoder{
		{"h264_nvenc", "h264", AccelNVENC}, {"h264_vaapi", "h264", AccelVAAPI}, {"h264_qsv", "h264", AccelQSV}, {"libx264", "h264", AccelSoftware},
		{"hevc_nvenc", "hevc", AccelNVENC}, {"hevc_vaapi", "hevc", AccelVAAPI}, {"hevc_qsv", "hevc", AccelQSV}, {"libx265", "hevc", AccelSoftware},
		{"av1_nvenc", "av1", AccelNVENC}, {"av1_vaapi", "av1", AccelVAAPI}, {"av1_qsv", "av1", AccelQSV}, {"libsvtav1", "av1", AccelSoftware}, {"libaom-av1", "av1", AccelSoftware},
	}
	return slices.DeleteFunc(all, func(e Encoder) bool { return e.Codec != codec })
}
