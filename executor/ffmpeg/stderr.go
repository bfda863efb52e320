package ffmpeg

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
)

// TailSize is how much of the end of stderr is kept, in bytes.
const TailSize = 64 << 10

var (
	address = regexp.MustCompile(` @ 0x[0-9a-fA-F]+`)
	// decodeError finds a line that says that a piece of the input could not be
	// decoded. None of them changes the exit status.
	decodeError = regexp.MustCompile(`(?i)error submitting packet to decoder|error while decoding|decoding error|invalid nal unit|error splitting the input into nal|corrupt input packet|partial file|missing picture in access unit`)
)

// Stderr collects what ffmpeg says: the tail of it, and how many lines tell of
// damaged input, counted over all of it. It is an io.Writer, safe for
// concurrent use, and never fails: a pipe that is not read stops the encode.
type Stderr struct {
	mu     sync.Mutex
	rest   []byte
	tail   []byte
	damage int
	total  int64
}

// Write implements io.Writer.
func (s *Stderr) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(p)
	s.total += int64(n)
	for len(p) > 0 {
		i := bytes.IndexAny(p, "\r\n")
		if i < 0 {
			s.rest = append(s.rest, p...)
			if len(s.rest) > TailSize/4 { // a line without an end
				s.line()
			}
			break
		}
		s.rest = append(s.rest, p[:i]...)
		s.line()
		p = p[i+1:]
	}
	return n, nil
}

// line takes the collected line into the tail.
func (s *Stderr) line() {
	if len(s.rest) == 0 {
		return
	}
	text := address.ReplaceAll(s.rest, nil)
	s.rest = s.rest[:0]
	if decodeError.Match(text) {
		s.damage++
	}
	s.tail = append(append(s.tail, text...), '\n')
	if len(s.tail) > 2*TailSize {
		s.tail = append([]byte(nil), s.tail[len(s.tail)-TailSize:]...)
	}
}

// Tail is the end of what was written, with the addresses cut from the names
// in brackets: two failures of one kind then have one text.
func (s *Stderr) Tail() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rest) > 0 {
		s.line()
	}
	tail := s.tail
	if len(tail) > TailSize {
		tail = tail[len(tail)-TailSize:]
		if i := bytes.IndexByte(tail, '\n'); i >= 0 {
			tail = tail[i+1:]
		}
	}
	return strings.ToValidUTF8(string(tail), "�")
}

// DecodeErrors is the number of lines so far that tell of damaged input.
func (s *Stderr) DecodeErrors() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.damage
}
