//go:build linux

package proc

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// oomWatch compares the kernel's count of processes that it killed for memory
// in this process's cgroup, before and after a child ran. The child is in the
// same cgroup. It cannot tell two children that ran at the same time apart.
type oomWatch struct {
	file   string
	before int64
}

func newOOMWatch() oomWatch {
	for _, file := range oomFiles() {
		if n, ok := oomKills(file); ok {
			return oomWatch{file: file, before: n}
		}
	}
	return oomWatch{}
}

// grew tells whether the count rose since the watch began.
func (w oomWatch) grew() bool {
	if w.file == "" {
		return false
	}
	n, ok := oomKills(w.file)
	return ok && n > w.before
}

// oomFiles lists where the count may stand: cgroup version 2, then 1, each by
// this process's path and, for a container that sees only its own part, at the
// top.
func oomFiles() []string {
	const root = "/sys/fs/cgroup"
	var out []string
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[0] == "0" && parts[1] == "":
			out = append(out, filepath.Join(root, parts[2], "memory.events"), filepath.Join(root, "memory.events"))
		case strings.Contains(","+parts[1]+",", ",memory,"):
			out = append(out, filepath.Join(root, "memory", parts[2], "memory.oom_control"),
				filepath.Join(root, "memory", "memory.oom_control"))
		}
	}
	return out
}

// oomKills reads the line "oom_kill N" of a file.
func oomKills(file string) (int64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	sc := bufio.NewScanner(bytes.NewReader(text))
	for sc.Scan() {
		if rest, ok := strings.CutPrefix(sc.Text(), "oom_kill "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
