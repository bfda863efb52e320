package email_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// smtpServer speaks as much SMTP as a test needs. Answers to commands can be
// replaced: "" closes the connection, "-" says nothing at all.
type smtpServer struct {
	listener net.Listener
	answers  map[string]string
	greeting string
	done     chan struct{}

	mu       sync.Mutex
	messages []string
	rcpts    []string
}

func newServer(t *testing.T, answers map[string]string) *smtpServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &smtpServer{listener: l, answers: answers, greeting: "220 test ready", done: make(chan struct{})}
	if g, ok := answers["GREETING"]; ok {
		s.greeting = g
	}
	var g sync.WaitGroup
	g.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			g.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		close(s.done)
		_ = l.Close()
		g.Wait()
	})
	return s
}

func (s *smtpServer) port() int { return s.listener.Addr().(*net.TCPAddr).Port }

func (s *smtpServer) serve(c net.Conn) {
	defer c.Close()
	go func() { <-s.done; _ = c.Close() }()
	say := func(line string) bool {
		switch line {
		case "":
			return false
		case "-":
			<-s.done
			return false
		}
		_, err := fmt.Fprint(c, line+"\r\n")
		return err == nil
	}
	if !say(s.greeting) {
		return
	}
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		verb = strings.ToUpper(verb)
		answer, own := s.answers[verb]
		if verb == "RCPT" { // one for an address goes before
			address := strings.TrimSuffix(strings.TrimPrefix(rest, "TO:<"), ">")
			if a, ok := s.answers[address]; ok {
				answer, own = a, true
			}
		}
		if !own {
			answer = map[string]string{
				"EHLO": "250-test\r\n250 AUTH PLAIN LOGIN", "DATA": "354 go on", "QUIT": "221 bye", "AUTH": "235 welcome", "RSET": "250 ok", "NOOP": "250 ok",
			}[verb]
			if answer == "" {
				answer = "250 ok"
			}
		}
		if verb == "RCPT" && !own {
			s.mu.Lock()
			s.rcpts = append(s.rcpts, rest)
			s.mu.Unlock()
		}
		if !say(answer) {
			return
		}
		if verb != "DATA" || !strings.HasPrefix(answer, "354") {
			continue
		}
		var body strings.Builder
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			if line == ".\r\n" {
				break
			}
			body.WriteString(line)
		}
		s.mu.Lock()
		s.messages = append(s.messages, body.String())
		s.mu.Unlock()
		end, own := s.answers["."]
		if !own {
			end = "250 taken"
		}
		if !say(end) {
			return
		}
	}
}

func (s *smtpServer) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.messages...)
}
