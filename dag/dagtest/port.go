package dagtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports below those from which systems give one to whoever asks for any.
const (
	firstPort = 15_000
	lastPort  = 32_000
)

// FreePort gives a port of 127.0.0.1 that nobody listens on, for a server that
// has to be told its port. It lies where the system takes no ports from for
// connections and for servers that ask for any, so that nobody gets it by chance
// before the server does, or while that is away and comes back.
func FreePort() (int, error) {
	var err error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}

// NobodyListens gives an address of this machine that refuses connections as
// long as the test runs: a connection's own end has it.
func NobodyListens(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.LocalAddr().String()
}
