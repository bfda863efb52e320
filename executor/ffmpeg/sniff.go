package ffmpeg

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Content is what the first bytes of a file look like, before ffmpeg sees it.
type Content string

// Kinds of content. ContentUnknown is for ffprobe to find out.
const (
	ContentUnknown  Content = "unknown"
	ContentEmpty    Content = "empty"
	ContentPlaylist Content = "playlist" // it names other files: refused
	ContentText     Content = "text"
)

// SniffSize is how many bytes Sniff wants to see.
const SniffSize = 4096

// Sniff looks at the head of a file. A playlist makes ffmpeg open whatever it
// names, so it is found here, before any of ffmpeg's demuxers sees it.
func Sniff(head []byte) Content {
	if len(head) == 0 {
		return ContentEmpty
	}
	text := strings.TrimLeft(strings.TrimPrefix(string(head), "\ufeff"), " \t\r\n")
	lower := strings.ToLower(clip(text, 512))
	for _, mark := range []string{
		"#extm3u", "ffconcat version", "[playlist]", "<asx", "<smil", "<?wpl",
	} {
		if strings.HasPrefix(lower, mark) {
			return ContentPlaylist
		}
	}
	if strings.HasPrefix(lower, "<?xml") && (strings.Contains(lower, "<mpd") || strings.Contains(lower, "<smil") || strings.Contains(lower, "<playlist")) {
		return ContentPlaylist
	}
	if strings.HasPrefix(lower, "<mpd") {
		return ContentPlaylist
	}
	if isText(head) {
		return ContentText
	}
	return ContentUnknown
}

// isText tells whether every byte is part of valid UTF-8 without control
// characters other than white space.
func isText(head []byte) bool {
	if bytes.IndexByte(head, 0) >= 0 {
		return false
	}
	for len(head) > 0 {
		r, n := utf8.DecodeRune(head)
		if r == utf8.RuneError && n == 1 {
			return len(head) < utf8.UTFMax && !utf8.FullRune(head) // cut in the middle of a character
		}
		if r < ' ' && r != '\n' && r != '\r' && r != '\t' && r != '\f' {
			return false
		}
		head = head[n:]
	}
	return true
}
