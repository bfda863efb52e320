package integration

import (
	"bytes"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/sqltest"
)

// line is the wire between Airlock and its databases, as a test wants it: a
// proxy that forwards to a server, cuts what is connected, holds packets for a
// while, and swallows the server's answer to a COMMIT.
type line struct {
	addr string

	mu       sync.Mutex
	server   string
	open     map[net.Conn]bool
	held     chan struct{} // closed when packets may pass again
	swallow  int           // how many answers to COMMIT are still to be lost
	swallows int           // how many were
	after    string        // where connections go once an answer was lost
	only     string        // what a transaction must hold for its answer to be lost
}

// newLine starts a proxy to a server; it ends with the test.
func newLine(t testing.TB, server string) *line {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &line{addr: l.Addr().String(), server: server, open: map[net.Conn]bool{}, held: make(chan struct{})}
	close(p.held)
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		p.pass()
		p.cut()
	})
	return p
}

// to forwards new connections to another server from now on.
func (p *line) to(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server, p.after, p.only = server, "", ""
}

// cut breaks every connection that is open now.
func (p *line) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
}

// hold lets no packet pass until pass is called.
func (p *line) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = make(chan struct{})
}

// pass ends hold.
func (p *line) pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.held:
	default:
		close(p.held)
	}
}

// loseCommits loses the server's answers to the next n COMMITs, with their
// connections.
func (p *line) loseCommits(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallow = n
}

// loseCommitAndServer loses the answer to the COMMIT of the next transaction
// with a statement that holds a text, and nobody answers after it until to is
// called.
func (p *line) loseCommitAndServer(statement string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallow, p.only, p.after = 1, statement, "127.0.0.1:1"
}

// lost is how many answers to COMMIT were lost so far.
func (p *line) lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.swallows
}

func (p *line) wait() {
	p.mu.Lock()
	held := p.held
	p.mu.Unlock()
	<-held
}

// takes tells whether this packet's answer is to be lost. of tells whether the
// connection's transaction is of the kind that is meant.
func (p *line) takes(packet []byte, of *bool, own ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.only != "" && bytes.Contains(packet, []byte(p.only)) {
		*of = true
	}
	if p.swallow == 0 || !sqltest.EndsInCommit(packet) || p.only != "" && !*of {
		return false
	}
	p.swallow--
	p.swallows++
	if p.after != "" {
		p.server = p.after
		for c := range p.open {
			if !slices.Contains(own, c) {
				_ = c.Close()
			}
		}
	}
	return true
}

// keep notes that both ends are open, unless the server that was dialled is no
// longer the one that is meant: nobody would cut this connection then.
func (p *line) keep(server string, ends ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != server {
		return false
	}
	for _, c := range ends {
		p.open[c] = true
	}
	return true
}

func (p *line) drop(ends ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range ends {
		delete(p.open, c)
	}
}

func (p *line) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	p.wait()
	p.mu.Lock()
	server := p.server
	p.mu.Unlock()
	up, err := net.DialTimeout("tcp", server, 10*time.Second)
	if err != nil {
		return
	}
	defer func() { _ = up.Close() }()
	if !p.keep(server, client, up) {
		return
	}
	defer p.drop(client, up)
	var mu sync.Mutex
	dumb := false // the answer is not to reach the client
	go func() {
		defer func() { _ = client.Close(); _ = up.Close() }()
		buf := make([]byte, 64<<10)
		var answers sqltest.Answers
		for {
			n, err := up.Read(buf)
			if err != nil {
				return
			}
			p.wait()
			mu.Lock()
			lose := dumb
			mu.Unlock()
			if lose && !answers.Done(buf[:n]) {
				continue
			}
			if lose {
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	meant := false
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		p.wait()
		if p.takes(buf[:n], &meant, client, up) {
			mu.Lock()
			dumb = true
			mu.Unlock()
		}
		if _, err := up.Write(buf[:n]); err != nil {
			return
		}
	}
}
