//go:build linux

package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-dag/airlock/dag"
)

// killWait is how long a process may take to vanish after SIGKILL.
const killWait = 5 * time.Second

// A process that becomes another program has no environment for some
// microseconds, or until a busy machine lets it go on. It is looked at again
// each execPause, for execWait at the longest.
const (
	execPause = time.Millisecond
	execWait  = time.Second
)

// Sweep ends every process whose environment has MarkerEnv with this value, or
// with a value that begins with it and a slash, whatever its group or session:
// SIGTERM and SIGCONT once, SIGKILL when grace has passed (at once when it is
// 0). It goes on until none is left, so that one which forks meanwhile does
// not get away, and returns how many it ended, when they have: with their files
// closed and their locks let go. The error names processes that
// would not end. This process is never touched; nor is one that replaced its
// own environment (`env -i`) or that another user owns.
func Sweep(marker string, grace time.Duration) (int, error) {
	if marker == "" {
		return 0, errors.New("sweep: an empty marker would mean every attempt")
	}
	seen := map[string]bool{}
	defer collect(seen)
	if len(marked(marker, seen, syscall.SIGTERM, syscall.SIGCONT)) == 0 {
		return 0, nil
	}
	clock := dag.SystemClock{}
	if grace > 0 {
		end := clock.After(grace)
	wait:
		for {
			select {
			case <-end:
				break wait
			case <-clock.After(pollInterval):
				if len(marked(marker, seen)) == 0 && len(running(seen)) == 0 {
					return len(seen), nil
				}
			}
		}
	}
	end := clock.After(killWait)
	for {
		marked(marker, seen, syscall.SIGKILL)
		left := running(seen)
		if len(left) == 0 {
			return len(seen), nil
		}
		select {
		case <-clock.After(pollInterval):
		case <-end:
			return len(seen), fmt.Errorf("sweep: processes %s did not end after SIGKILL", strings.Join(left, ", "))
		}
	}
}

// running lists those of the seen processes that have not ended. One that is
// ending has no environment any more, and may still hold files and their locks.
func running(seen map[string]bool) []string {
	var out []string
	for id := range seen {
		pid, start, _ := strings.Cut(id, "@")
		n, err := strconv.Atoi(pid)
		if err != nil {
			continue
		}
		if f := statFields(n); len(f) > statStart && f[statStart] == start && f[0] != "Z" && f[0] != "X" {
			out = append(out, pid)
		}
	}
	slices.Sort(out)
	return out
}

// marked sends the signals to each marked process, notes it in seen, and lists
// them.
func marked(marker string, seen map[string]bool, sigs ...syscall.Signal) []Process {
	var out []Process
	visit(marker, func(p Process, handle *os.Process) {
		seen[strconv.Itoa(p.PID)+"@"+strconv.FormatUint(p.StartTicks, 10)] = true
		for _, sig := range sigs {
			_ = handle.Signal(sig) // gone meanwhile: the next look will not find it
		}
		out = append(out, p)
	})
	return out
}

// Leftovers lists the processes that Sweep with the same text would end.
func Leftovers(prefix string) ([]Process, error) {
	if prefix == "" {
		return nil, errors.New("leftovers: an empty marker would mean every attempt")
	}
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		return nil, fmt.Errorf("leftovers: processes cannot be listed: %w", err)
	}
	var out []Process
	visit(prefix, func(p Process, _ *os.Process) { out = append(out, p) })
	return out, nil
}

// SweepUnless ends the processes that Leftovers lists for a prefix, but for
// those whose marker keep wants to live, and returns how many it ended. A
// worker that starts up uses it to end what a killed one left behind, and asks
// the state database which attempts are still held.
func SweepUnless(prefix string, keep func(marker string) bool, grace time.Duration) (int, error) {
	left, err := Leftovers(prefix)
	if err != nil {
		return 0, err
	}
	asked := map[string]bool{}
	total := 0
	var failed error
	for _, p := range left {
		if asked[p.Marker] {
			continue
		}
		asked[p.Marker] = true
		if keep(p.Marker) {
			continue
		}
		n, err := Sweep(p.Marker, grace)
		total += n
		failed = errors.Join(failed, err)
	}
	return total, failed
}

// visit calls f for every marked process with a handle on it. The handle is
// taken before the environment is read, so that a number which was given to a
// new process meanwhile is never signalled. Processes that are becoming another
// program show their mark when they have: they are looked at again.
func visit(marker string, f func(Process, *os.Process)) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	self := os.Getpid()
	pids := make([]int, 0, len(entries))
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != self {
			pids = append(pids, pid)
		}
	}
	var look reader
	clock := dag.SystemClock{}
	end := clock.Elapsed() + execWait
	for {
		if pids = look.through(pids, marker, f); len(pids) == 0 || clock.Elapsed() > end {
			return
		}
		<-clock.After(execPause)
	}
}

// through calls f for each of the processes that is marked, and gives those that
// cannot tell yet.
func (r *reader) through(pids []int, marker string, f func(Process, *os.Process)) (changing []int) {
	for _, pid := range pids {
		_, found := r.markerOf(pid, marker)
		if found == unmarked { // the cheap look first: most are not ours
			continue
		}
		handle, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		value, found := r.markerOf(pid, marker)
		switch found {
		case isMarked:
			p := describe(pid)
			p.Marker = value
			f(p, handle)
		case isChanging:
			changing = append(changing, pid)
		case unmarked:
		}
		_ = handle.Release()
	}
	return changing
}

// collect waits for swept orphans where this process is the first one of a
// container and has inherited them.
func collect(seen map[string]bool) {
	if os.Getpid() != 1 {
		return
	}
	for id := range seen {
		pid, _, _ := strings.Cut(id, "@")
		if n, err := strconv.Atoi(pid); err == nil {
			_, _ = syscall.Wait4(n, nil, syscall.WNOHANG, nil)
		}
	}
}

// groupRuns tells whether a process group has a member that is more than an
// exit status nobody has collected.
func groupRuns(pgid int) bool {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return true
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if f := statFields(pid); len(f) > 2 && f[2] == strconv.Itoa(pgid) && f[0] != "Z" && f[0] != "X" {
			return true
		}
	}
	return false
}

// reader reads small files of many processes one after the other, with one
// buffer and no more than the three calls that each takes: every step of a shell
// looks at all processes of the machine when it ends.
type reader struct{ buf []byte }

// file reads a file; what it gives is good until the next one, and is nil only
// for one that cannot be read.
func (r *reader) file(path string) []byte {
	fd, err := retried(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	if r.buf == nil {
		r.buf = make([]byte, 8<<10)
	}
	length := 0
	for {
		n, err := retried(func() (int, error) { return unix.Read(fd, r.buf[length:]) })
		if err != nil {
			return nil
		}
		length += n
		// A read gives what there is, up to a page at a time.
		if n == 0 || length == n && n < os.Getpagesize() && n < len(r.buf) {
			return r.buf[:length]
		}
		if length == len(r.buf) {
			r.buf = append(r.buf, make([]byte, len(r.buf))...)
		}
	}
}

// retried runs a system call again that a signal interrupted.
func retried(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// mark is what a look at a process finds.
type mark int

const (
	unmarked mark = iota
	isMarked
	isChanging // it is becoming another program, and cannot tell
)

// markerOf reads the marker of a process and tells whether it belongs to the
// wanted one.
func (r *reader) markerOf(pid int, want string) (string, mark) {
	env := r.file("/proc/" + strconv.Itoa(pid) + "/environ")
	if env == nil {
		return "", unmarked
	}
	if len(env) == 0 {
		if r.isChanging(pid) {
			return "", isChanging
		}
		return "", unmarked
	}
	value, ok := lookupEnv(env, MarkerEnv)
	if !ok || (value != want && !strings.HasPrefix(value, strings.TrimSuffix(want, "/")+"/")) {
		return "", unmarked
	}
	return value, isMarked
}

// isChanging tells whether a process whose environment read as empty has one all
// the same: between the old program and the new one, while the kernel loads it,
// there is a moment without. A kernel thread and one that has ended have none at
// all, and some are started with an empty one.
func (r *reader) isChanging(pid int) bool {
	dir := "/proc/" + strconv.Itoa(pid)
	var program [1]byte
	if _, err := unix.Readlink(dir+"/exe", program[:]); err != nil {
		return false // the cheap look first: of kernel threads there are hundreds
	}
	f := statFields(pid)
	if len(f) <= statEnvEnd || f[0] == "Z" || f[0] == "X" {
		return false
	}
	return f[statStartCode] == "0" || f[statEnvStart] != f[statEnvEnd]
}

// Where statFields has when the process started, and addresses in its memory: of
// the program, which is 0 until all of the new one is in place, and the bounds of
// its environment.
const (
	statStart     = 19
	statStartCode = 23
	statEnvStart  = 47
	statEnvEnd    = 48
)

// lookupEnv finds a variable in an environment as /proc shows it.
func lookupEnv(env []byte, name string) (string, bool) {
	key := []byte(name + "=")
	if !bytes.Contains(env, key) { // most have none
		return "", false
	}
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, key); ok {
			return string(value), true
		}
	}
	return "", false
}

// describe reads what a person wants to know of a process; what cannot be read
// stays zero.
func describe(pid int) Process {
	p := Process{PID: pid}
	dir := "/proc/" + strconv.Itoa(pid)
	if args, err := os.ReadFile(dir + "/cmdline"); err == nil {
		p.Args = strings.Split(strings.TrimRight(string(args), "\x00"), "\x00")
	}
	if f := statFields(pid); len(f) > statStart {
		p.PPID, _ = strconv.Atoi(f[1])
		p.StartTicks, _ = strconv.ParseUint(f[statStart], 10, 64)
	}
	return p
}

// statFields are the fields of /proc/PID/stat after the command's name, which
// stands in parentheses and may hold anything: state, parent, group, session,
// ..., see statStart.
func statFields(pid int) []string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
}
