package upload

import (
	"fmt"
	"io"
	"time"

	"github.com/airlock-dag/airlock/executor/operator"
)

// progress is told of n more bytes. A part that is sent again counts twice, so
// the share is held below the whole until the copy is verified.
func (a *attempt) progress(n int) {
	if !a.sending.Load() {
		return
	}
	sent := a.sent.Add(int64(n))
	p := operator.Progress{Fraction: -1}
	took := a.t.Clock.Now().Sub(a.begun)
	if a.total > 0 {
		p.Fraction = min(float64(sent)/float64(a.total), 0.99)
		if sent < a.total && took > time.Second {
			p.ETA = time.Duration(float64(took) * float64(a.total-sent) / float64(sent))
		}
	}
	if took > 0 {
		p.Text = fmt.Sprintf("%.1f MB/s", float64(sent)/1e6/took.Seconds())
	}
	a.t.Progress(p)
}

// limited reads at most n bytes of r and closes it.
func limited(r io.ReadCloser, n int64) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(r, n), r}
}
