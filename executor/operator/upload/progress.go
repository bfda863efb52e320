package upload

import (
	"fmt"
	"io"
	"time"

	"github.com/airlock-dag/airlock/executor/operator"
)

// progressEvery is the least time between two reports.
const progressEvery = 500 * time.Millisecond

// progress is told of n more bytes. A part that is sent again counts twice, so
// the share is held below the whole until the copy is verified.
func (a *attempt) progress(n int) {
	if !a.sending.Load() {
		return
	}
	sent := a.sent.Add(int64(n))
	p := operator.Progress{Fraction: -1}
	took := a.t.Clock.Now().Sub(a.begun)
	last := a.reported.Load()
	if took < time.Duration(last)+progressEvery || !a.reported.CompareAndSwap(last, int64(took)) {
		return
	}
	if a.total > 0 {
		p.Fraction = min(float64(sent)/float64(a.total), 0.99)
		if sent < a.total {
			p.ETA = time.Duration(float64(took) * float64(a.total-sent) / float64(sent))
		}
	}
	p.Text = fmt.Sprintf("%.1f MB/s", float64(sent)/1e6/took.Seconds())
	a.t.Progress(p)
}

// limited reads at most n bytes of r and closes it.
func limited(r io.ReadCloser, n int64) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(r, n), r}
}
