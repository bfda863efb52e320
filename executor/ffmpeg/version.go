package ffmpeg

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Version is the release of an ffmpeg or ffprobe binary.
type Version struct {
	Major int `json:"major"`
	Minor int `json:"minor"`
	// Text is what the binary calls itself: "5.1.9-0+deb12u1".
	Text string `json:"text"`
	// Libraries are the versions of libavcodec and its sisters, by name.
	Libraries map[string]string `json:"libraries,omitempty"`
}

var (
	versionLine = regexp.MustCompile(`^(?:ffmpeg|ffprobe) version (\S+)`)
	versionNum  = regexp.MustCompile(`^[nvN]?-?(\d+)\.(\d+)`)
	libraryLine = regexp.MustCompile(`^(lib\w+)\s+(\d+)\.\s*(\d+)\.\s*(\d+)`)
)

// ParseVersion reads the output of `ffmpeg -version`. A build from the main
// branch has no release number; its libavcodec then tells which release it
// comes nearest to.
func ParseVersion(out string) (Version, error) {
	var v Version
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\r\n")
		if m := versionLine.FindStringSubmatch(line); m != nil && v.Text == "" {
			v.Text = m[1]
			if n := versionNum.FindStringSubmatch(m[1]); n != nil {
				v.Major, _ = strconv.Atoi(n[1])
				v.Minor, _ = strconv.Atoi(n[2])
			}
			continue
		}
		if m := libraryLine.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			if v.Libraries == nil {
				v.Libraries = map[string]string{}
			}
			v.Libraries[m[1]] = m[2] + "." + m[3] + "." + m[4]
		}
	}
	if v.Text == "" {
		return Version{}, fmt.Errorf("no version line in %q", clip(out, 120))
	}
	if v.Major == 0 {
		v.Major = majorOfAvcodec(v.Libraries["libavcodec"])
	}
	return v, nil
}

// majorOfAvcodec maps libavcodec's major number to ffmpeg's: 59 came with 5,
// 60 with 6, 61 with 7, and so on. 0 when the text is not a version.
func majorOfAvcodec(lib string) int {
	major, _, _ := strings.Cut(lib, ".")
	n, err := strconv.Atoi(major)
	if err != nil || n < 55 {
		return 0
	}
	return n - 54
}

// clip shortens a text to at most n bytes, at a character's edge.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
