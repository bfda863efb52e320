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
	text := s.rest
	if bytes.Contains(text, []byte(" @ 0x")) {
		text = address.ReplaceAll(text, nil)
	}
	s.rest = s.rest[:0]
	if mayTellOfDamage(text) && decodeError.Match(text) {
		s.damage++
	}
	s.tail = append(append(s.tail, text...), '\n')
	if len(s.tail) > 2*TailSize {
		s.tail = append([]byte(nil), s.tail[len(s.tail)-TailSize:]...)
	}
}

// mayTellOfDamage is a quick look before decodeError's slow one: a build that
// complains about every packet writes hundreds of MiB.
func mayTellOfDamage(line []byte) bool {
	for _, part := range damageWords() {
		if bytes.Contains(line, part) {
			return true
		}
	}
	return false
}

// damageWords has a part of each of decodeError's words without the letters that
// ffmpeg writes now large and now small.
func damageWords() [8][]byte {
	return [8][]byte{
		[]byte("submitting packet"), []byte("while decoding"), []byte("ecoding error"), []byte("nvalid "),
		[]byte("splitting the input"), []byte("orrupt input"), []byte("artial file"), []byte("issing picture"),
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
