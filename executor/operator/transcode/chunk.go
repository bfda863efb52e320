package transcode

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/plainfile"
	"github.com/airlock-dag/airlock/executor/ffmpeg"
	"github.com/airlock-dag/airlock/executor/gpu"
	"github.com/airlock-dag/airlock/executor/operator"
)

// maxPieces bounds how many pieces a video is cut into.
const maxPieces = 2000

// codePieces names the failure of a piece that the whole need not have.
const codePieces = "PIECES_MISMATCH"

// chunk is one piece of the video: the frames from start up to end.
type chunk struct {
	start, end float64 // seconds of the input; end is 0 for the last
	frames     int     // that it must have
	path       string  // of its encode
}

// pieces gives the boundaries of the pieces that the video is encoded in, with
// its first and its last frame's instant; nil for one piece. They lie on key
// frames, so that a piece needs nothing of the one before it.
func (a *attempt) pieces(src *source, r rung) []float64 {
	v := a.s.profile.Video
	if a.s.chunk <= 0 || v == nil {
		return nil
	}
	why := ""
	switch {
	case r.encoder.Accel != gpu.AccelSoftware:
		why = "a GPU's sessions are dear to open"
	case v.Bitrate != "":
		why = "a bit rate is aimed at over the whole"
	case len(v.Filters) > 0:
		why = "filters may look at the frames before"
	case v.FPSMode == "cfr", v.MaxFPS > 0 && src.probe.Video().FrameRate > v.MaxFPS:
		why = "frames are repeated or dropped by a count over the whole"
	case len(src.times) == 0 || len(src.keys) == 0:
		why = "the input's frames have no times"
	case src.keys[0] > src.times[0]:
		why = "the input does not begin with a key frame"
	}
	var cuts []float64
	if why == "" {
		if cuts = cutAt(src.times, src.keys, a.s.chunk.Seconds()); cuts == nil {
			why = "it is too short, or has too few key frames"
		}
	}
	if why != "" {
		a.logf("%s: in one piece, because %s", r, why)
		return nil
	}
	return cuts
}

// cutAt chooses key frames that are at least length seconds apart; the last
// piece may be longer by half of that. nil when one piece is all.
func cutAt(times, keys []float64, length float64) []float64 {
	last := times[len(times)-1]
	length = max(length, (last-times[0])/maxPieces)
	cuts := []float64{times[0]}
	for _, k := range keys {
		if k >= cuts[len(cuts)-1]+length && k+length/2 <= last {
			cuts = append(cuts, k)
		}
	}
	if len(cuts) < 2 {
		return nil
	}
	return append(cuts, last)
}

// pieceCount is how many pieces the output was made of; 0 for one.
func (e *encoded) pieceCount() int { return max(len(e.chunks)-1, 0) }

// encodeChunks encodes the pieces side by side, each with one thread, joins
// them and takes the sound from the source in one piece. A piece that an earlier
// attempt finished is taken as it is. The failure has codePieces when
// the pieces do not make up the whole.
func (a *attempt) encodeChunks(ctx context.Context, src *source, r rung, dev *gpu.Device, made *encoded, temporary string) (*dag.TaskError, error) {
	dir := a.out.chunkDir()
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as its parent
		return nil, fmt.Errorf("make the folder of the pieces: %w", err)
	}
	cuts := made.chunks
	list := make([]chunk, len(cuts)-1)
	for i := range list {
		c := chunk{start: cuts[i]}
		upTo := len(src.times)
		if i < len(list)-1 {
			c.end = cuts[i+1]
			upTo = sort.SearchFloat64s(src.times, c.end)
		}
		c.frames = upTo - sort.SearchFloat64s(src.times, c.start)
		list[i] = c
	}
	workers := a.s.chunkWorkers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	done := newChunkMeter(src.length, len(list))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i := range list {
		group.Go(func() error {
			if groupCtx.Err() != nil {
				return context.Cause(groupCtx)
			}
			return a.encodeChunk(groupCtx, src, r, dev, made, dir, i, &list[i], func(b ffmpeg.Progress, finished bool) {
				fraction, left, speed := done.update(i, list[i], b, finished)
				a.t.Progress(operator.Progress{
					Fraction: fraction, ETA: left, Text: fmt.Sprintf("%d of %d pieces, %s", done.count(), len(list), r.encoder.Name),
					Measures: map[string]float64{"speed": speed, "pieces": float64(len(list)), "pieces_done": float64(done.count())},
				})
			})
		})
	}
	if err := group.Wait(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var fail *dag.TaskError
		if errors.As(err, &fail) {
			return fail, nil
		}
		return nil, err
	}
	return a.join(ctx, src, made, dir, list, temporary)
}

// chunkManifest is the proof beside a piece.
type chunkManifest struct {
	Key    string `json:"key"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	Frames int    `json:"frames"`
}

// encodeChunk makes one piece, unless it is there.
func (a *attempt) encodeChunk(ctx context.Context, src *source, r rung, dev *gpu.Device, made *encoded, dir string, i int, c *chunk, progress func(ffmpeg.Progress, bool)) error {
	p := a.plan(src)
	p.threads = 1
	args := p.chunkArgs(r, dev, *c)
	// All that decides what the piece is: its input, where it lies and how it is made.
	sum := sha256.Sum256([]byte(strings.Join(append([]string{src.input.SHA256, a.tool.Version.Text}, args[slices.Index(args, "-map"):]...), "\x00") +
		fmt.Sprintf("\x00%v\x00%v", c.start, c.end)))
	key := hex.EncodeToString(sum[:])
	c.path = filepath.Join(dir, fmt.Sprintf("%05d-%s.mp4", i, key[:16]))
	if chunkDone(ctx, c.path, key, c.frames) {
		a.logf("piece %d is there already", i)
		progress(ffmpeg.Progress{}, true)
		return nil
	}
	// The name is this attempt's alone: where the lock of the output cannot be
	// had, one that lost its lease may still be writing.
	temporary := fmt.Sprintf("%s.%d-%d.part", c.path, a.t.TI.ID, a.t.TI.Fence)
	defer os.Remove(temporary) //nolint:errcheck // it is not there when all went well
	job := a.job(src, append(args, "-f", "mp4", ffmpeg.FileURL(temporary)), temporary, dev)
	job.OnProgress = func(b ffmpeg.Progress) { progress(b, false) }
	end, err := a.run1(ctx, fmt.Sprintf("piece %d", i), job, made)
	if err != nil {
		return err
	}
	if fail := end.Classify(); fail != nil {
		return a.underStrict(fail)
	}
	packets, err := a.tool.Packets(ctx, temporary)
	if err != nil {
		return err
	}
	if got := packets[0].Count; got != int64(c.frames) {
		return &dag.TaskError{Class: dag.ClassPermanent, Code: codePieces, Message: fmt.Sprintf("piece %d has %d frames, the input %d there", i, got, c.frames)}
	}
	if err := syncFile(temporary); err != nil {
		return err
	}
	in, err := ffmpeg.ReadInput(ctx, temporary)
	if err != nil {
		return err
	}
	data, err := json.Marshal(chunkManifest{Key: key, SHA256: in.SHA256, Size: in.Size, Frames: c.frames})
	if err != nil {
		return fmt.Errorf("write the proof of a piece: %w", err)
	}
	if err := os.Rename(temporary, c.path); err != nil {
		return fmt.Errorf("name a piece: %w", err)
	}
	progress(ffmpeg.Progress{}, true)
	return writeSynced(c.path+".json", data)
}

// chunkDone tells whether a piece is there and is what its proof says.
func chunkDone(ctx context.Context, path, key string, frames int) bool {
	data, err := plainfile.Read(path+".json", 0)
	if err != nil {
		return false
	}
	var m chunkManifest
	if json.Unmarshal(data, &m) != nil || m.Key != key || m.Frames != frames {
		return false
	}
	in, err := ffmpeg.ReadInput(ctx, path)
	return err == nil && in.SHA256 == m.SHA256 && in.Size == m.Size
}

// chunkArgs encode one piece of the video, without the output's name. Seeking
// before the input goes to a key frame and drops what lies before the instant.
func (p plan) chunkArgs(r rung, dev *gpu.Device, c chunk) []string {
	var a []string
	from := c.start - p.source.Format.Start
	if from > 0 {
		a = append(a, "-ss", micros(from))
	}
	if c.end > 0 {
		a = append(a, "-to", micros(c.end-p.source.Format.Start))
	}
	a = append(a, "-threads", "1")
	a = append(a, p.inputArgs(r, dev)...)
	v := p.videoStream()
	a = append(a, "-map", fmt.Sprintf("0:%d", v.Index))
	a = append(a, p.videoArgs(r, v)...)
	if p.deterministic {
		a = append(a, bitExact()...)
	}
	a = append(a, "-threads", "1", "-filter_threads", "1", "-map_metadata", "-1", "-map_chapters", "-1")
	return append(a, p.profile.Args...)
}

func micros(seconds float64) string { return strconv.FormatFloat(seconds, 'f', 6, 64) }

// join puts the pieces behind each other and adds the rest of the source.
func (a *attempt) join(ctx context.Context, src *source, made *encoded, dir string, list []chunk, temporary string) (*dag.TaskError, error) {
	var text strings.Builder
	text.WriteString("ffconcat version 1.0\n")
	for _, c := range list {
		fmt.Fprintf(&text, "file '%s'\n", filepath.Base(c.path))
		if c.end > 0 {
			fmt.Fprintf(&text, "duration %s\n", micros(c.end-c.start))
		}
	}
	names := filepath.Join(dir, fmt.Sprintf("list.%d-%d.ffconcat", a.t.TI.ID, a.t.TI.Fence))
	if err := os.WriteFile(names, []byte(text.String()), 0o600); err != nil {
		return nil, fmt.Errorf("write the list of the pieces: %w", err)
	}
	p := a.plan(src)
	if p.threads == 0 {
		p.threads = 1
	}
	job := a.job(src, p.joinArgs(list[0].start, names, temporary), temporary, nil)
	job.OnProgress = func(ffmpeg.Progress) {
		a.t.Progress(operator.Progress{Fraction: ffmpeg.Unverified, Text: "joining the pieces"})
	}
	end, err := a.run1(ctx, "join", job, made)
	if err != nil {
		return nil, err
	}
	made.stderr = end.Stderr
	if fail := end.Classify(); fail != nil {
		return a.underStrict(fail), nil
	}
	return nil, nil
}

// joinArgs copy the video of the pieces and make the rest from the source, as
// far apart as they are there.
func (p plan) joinArgs(start float64, names, output string) []string {
	var a []string
	if offset := start - p.source.Format.Start; offset > 0 {
		a = append(a, "-itsoffset", micros(offset))
	}
	a = append(a, "-f", "concat", "-protocol_whitelist", "file,pipe", "-i", ffmpeg.FileURL(names))
	if p.strict {
		a = append(a, "-xerror")
	}
	a = append(a, "-f", p.source.Format.Demuxer(), "-protocol_whitelist", "file,pipe", "-i", ffmpeg.FileURL(p.input))
	a = append(a, "-map", "0:v:0", "-c:v", "copy")
	if p.profile.Video.Codec == "hevc" && (p.profile.container().muxer == "mp4" || p.profile.container().muxer == "mov") {
		a = append(a, "-tag:v", "hvc1")
	}
	a = append(a, p.otherStreams(1)...)
	if p.deterministic {
		a = append(a, bitExact()...)
	}
	a = append(a, "-threads", strconv.Itoa(max(p.encoderThreads(), 1)))
	return append(a, p.outputArgs(1, output)...)
}

// chunkMeter turns the progress of pieces side by side into one.
type chunkMeter struct {
	total time.Duration

	mu       sync.Mutex
	at       []time.Duration
	finished map[int]bool
	meter    ffmpeg.Meter
	speeds   []float64
}

func newChunkMeter(total time.Duration, n int) *chunkMeter {
	return &chunkMeter{total: total, at: make([]time.Duration, n), speeds: make([]float64, n), finished: map[int]bool{}, meter: ffmpeg.Meter{Total: total}}
}

func (m *chunkMeter) update(i int, c chunk, b ffmpeg.Progress, finished bool) (fraction float64, left time.Duration, speed float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if finished {
		end := c.end
		if end == 0 {
			end = m.total.Seconds()
		}
		m.at[i], m.speeds[i], m.finished[i] = time.Duration(max(end-c.start, 0)*float64(time.Second)), 0, true
	} else {
		m.at[i], m.speeds[i] = max(m.at[i], b.OutTime), b.Speed
	}
	var sum time.Duration
	for j, d := range m.at {
		sum += d
		speed += max(m.speeds[j], 0)
	}
	fraction, left = m.meter.Update(ffmpeg.Progress{OutTime: sum, Speed: speed})
	return fraction, left, speed
}

func (m *chunkMeter) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.finished)
}
