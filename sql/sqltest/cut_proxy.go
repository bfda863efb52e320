package sqltest

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// CutProxy stands between a client and a server, counts the round trips and
// breaks the line once, at the next COMMIT after Arm.
type CutProxy struct {
	// Addr is host:port to connect to.
	Addr       string
	server     string
	dropAnswer bool
	armed      atomic.Bool
	cuts       atomic.Int32
	trips      atomic.Int64
	hold       atomic.Pointer[hold]
}

// hold is what is to be done before a text passes.
type hold struct {
	text []byte
	do   func()
}

// CutAtCommit starts a proxy to a server. dropAnswer lets the server get the
// COMMIT and drops its answer; else the request is dropped. The client sees the
// same error both times.
func CutAtCommit(tb testing.TB, server string, dropAnswer bool) *CutProxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &CutProxy{Addr: l.Addr().String(), server: server, dropAnswer: dropAnswer}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() { p.serve(client) })
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		open.Wait()
	})
	return p
}

// Arm makes the next COMMIT the one that is cut.
func (p *CutProxy) Arm() { p.armed.Store(true) }

// Before does something before the next statement that has a text in it reaches the
// server, once: what other clients do between two statements of one.
func (p *CutProxy) Before(text string, do func()) { p.hold.Store(&hold{[]byte(text), do}) }

// Cuts counts the cut lines.
func (p *CutProxy) Cuts() int { return int(p.cuts.Load()) }

// Trips counts what clients sent, which a client of this protocol does once a
// round trip: packets of up to 64 KiB each count as one.
func (p *CutProxy) Trips() int { return int(p.trips.Load()) }

func (p *CutProxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	up, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer func() { _ = up.Close() }()
	var cut atomic.Bool
	answered := make(chan struct{})
	var back sync.WaitGroup
	back.Go(func() {
		defer close(answered)
		buf := make([]byte, 64<<10)
		var answers Answers
		for {
			n, err := up.Read(buf)
			if err == nil && cut.Load() && !answers.Done(buf[:n]) {
				continue
			}
			if err != nil || cut.Load() {
				_ = client.Close()
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	defer back.Wait()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			_ = up.Close()
			return
		}
		p.trips.Add(1)
		if h := p.hold.Load(); h != nil && bytes.Contains(buf[:n], h.text) && p.hold.CompareAndSwap(h, nil) {
			h.do()
		}
		if EndsInCommit(buf[:n]) && p.armed.CompareAndSwap(true, false) {
			p.cuts.Add(1)
			cut.Store(true)
			if p.dropAnswer {
				_, _ = up.Write(buf[:n])
				<-answered
			}
			_ = up.Close()
			return
		}
		if _, err := up.Write(buf[:n]); err != nil {
			return
		}
	}
}
