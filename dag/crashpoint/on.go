//go:build crash && unix

package crashpoint

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// plan is what the environment asks for. It is the state of the process: there
// is one of it, and only builds for tests have it.
type plan struct {
	mu    sync.Mutex
	name  string
	left  int // hits of name until it acts; 0 when it has
	do    syscall.Signal
	trace *os.File
	seen  map[string]bool
}

var theirs = sync.OnceValue(func() *plan {
	p := &plan{left: 1, do: syscall.SIGKILL, seen: map[string]bool{}}
	name, nth, counted := strings.Cut(os.Getenv("AIRLOCK_CRASH_AT"), "#")
	p.name = name
	if n, err := strconv.Atoi(nth); counted && err == nil {
		p.left = n
	}
	if os.Getenv("AIRLOCK_CRASH_DO") == "stop" {
		p.do = syscall.SIGSTOP
	}
	if path := os.Getenv("AIRLOCK_CRASH_TRACE"); path != "" {
		p.trace, _ = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	}
	return p
})

// Point marks a moment: the process is ended or stopped here when the
// environment asks for it.
func Point(name string) {
	theirs().hit(name, name == theirs().name)
}

// At marks a moment of something that has a name of its own: the point
// "what: moment". A name in AIRLOCK_CRASH_AT whose first part ends in a space
// stands for all that begin with it.
func At(what, moment string) {
	p := theirs()
	wanted := false
	if begin, ok := strings.CutSuffix(p.name, ": "+moment); ok {
		wanted = what == begin || strings.HasSuffix(begin, " ") && strings.HasPrefix(what, begin)
	}
	p.hit(what+": "+moment, wanted)
}

func (p *plan) hit(name string, wanted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trace != nil && !p.seen[name] {
		p.seen[name] = true
		_, _ = p.trace.WriteString(name + "\n")
	}
	if !wanted || p.left == 0 {
		return
	}
	if p.left--; p.left == 0 {
		_ = syscall.Kill(os.Getpid(), p.do)
		// The signal may reach another thread a moment later: this one goes no
		// further before it does. A stopped process goes on here after SIGCONT.
		time.Sleep(100 * time.Millisecond)
	}
}

// Clock puts a machine's clock wrong by AIRLOCK_CRASH_CLOCK, or by what the file
// of that name says at the moment.
func Clock(c dag.Clock) dag.Clock {
	text := os.Getenv("AIRLOCK_CRASH_CLOCK")
	off, err := time.ParseDuration(text)
	if err == nil {
		return wrong{c, func() time.Duration { return off }}
	}
	if text == "" {
		return c
	}
	return wrong{c, func() time.Duration {
		b, err := os.ReadFile(text)
		if err != nil {
			return 0
		}
		off, err := time.ParseDuration(strings.TrimSpace(string(b)))
		if err != nil {
			return 0
		}
		return off
	}}
}

type wrong struct {
	dag.Clock
	off func() time.Duration
}

// Now implements dag.Clock.
func (w wrong) Now() time.Time { return w.Clock.Now().Add(w.off()) }

// Elapsed is that of the clock itself: nobody sets it.
func (w wrong) Elapsed() time.Duration {
	if steady, ok := w.Clock.(interface{ Elapsed() time.Duration }); ok {
		return steady.Elapsed()
	}
	return time.Duration(w.Clock.Now().UnixNano())
}
