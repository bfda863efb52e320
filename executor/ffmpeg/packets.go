package ffmpeg

import (
	"bytes"
	"strconv"
	"strings"
)

// PacketArgs are ffprobe's arguments, without the file, for the list that a
// PacketCounter reads. It demuxes the whole file and decodes nothing.
func PacketArgs() []string {
	return []string{
		"-v", "error", "-protocol_whitelist", "file,pipe",
		"-show_entries", "packet=stream_index,pts_time,duration_time,flags",
		"-of", "compact=p=0:nk=0",
	}
}

// Packets sums up one stream's packets. Times are in seconds.
type Packets struct {
	Count int64 `json:"count"`
	// First and End are the least start and the greatest end; both 0 for a
	// stream without timestamps.
	First float64 `json:"first_s"`
	End   float64 `json:"end_s"`
	// Sum of the packets' own durations: less than the span where there is a gap.
	Sum float64 `json:"sum_s"`

	timed bool
}

// Span is the time from the first packet to the end of the last.
func (p Packets) Span() float64 { return p.End - p.First }

// PacketCounter reads ffprobe's packet list as it comes. It is an io.Writer,
// never fails and keeps no packet.
type PacketCounter struct {
	// ByStream has the sums by stream index.
	ByStream map[int]Packets

	rest []byte
}

// Write implements io.Writer.
func (c *PacketCounter) Write(p []byte) (int, error) {
	n := len(p)
	c.rest = append(c.rest, p...)
	for {
		i := bytes.IndexByte(c.rest, '\n')
		if i < 0 {
			break
		}
		c.line(string(c.rest[:i]))
		c.rest = c.rest[i+1:]
	}
	if len(c.rest) > maxProgressLine {
		c.rest = nil
	}
	return n, nil
}

func (c *PacketCounter) line(line string) {
	stream, pts, duration, discard := -1, 0.0, 0.0, false
	timed := false
	for field := range strings.SplitSeq(strings.TrimSpace(line), "|") {
		key, value, ok := strings.Cut(field, "=")
		if !ok {
			continue
		}
		switch key {
		case "stream_index":
			if v, err := strconv.Atoi(value); err == nil && v >= 0 {
				stream = v
			}
		case "pts_time":
			pts, timed = finite(value)
		case "duration_time":
			duration = seconds(value)
		case "flags":
			discard = strings.Contains(value, "D")
		}
	}
	c.add(stream, pts, timed, duration, discard)
}

// add takes one packet in; those of a negative stream are none.
func (c *PacketCounter) add(stream int, pts float64, timed bool, duration float64, discard bool) {
	if stream < 0 || discard { // discarded: the edit list hides it from players
		return
	}
	if c.ByStream == nil {
		c.ByStream = map[int]Packets{}
	}
	p := c.ByStream[stream]
	p.Count++
	p.Sum += duration
	if timed {
		if !p.timed || pts < p.First {
			p.First = pts
		}
		if !p.timed || pts+duration > p.End {
			p.End = pts + duration
		}
		p.timed = true
	}
	c.ByStream[stream] = p
}
