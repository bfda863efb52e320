package dagtest

import (
	"errors"
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
	for range 100 {
		if port := firstPort + rand.IntN(lastPort-firstPort); !listens(port) {
			return port, nil
		}
	}
	return 0, errors.New("somebody listens on each of a hundred ports")
}

// listens tells whether somebody listens on a port. Whoever listens on it to see
// has it for a moment longer, in a child that is started meanwhile.
func listens(port int) bool {
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err == nil {
		_ = c.Close()
	}
	return err == nil
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
	other, err := l.Accept() // a connection that nobody accepts is reset with the listener
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	return c.LocalAddr().String()
}
