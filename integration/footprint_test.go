package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkStart is a process from its start to its end: what each command of
// the command line costs before it does anything.
func BenchmarkStart(b *testing.B) {
	bin, err := build()
	require.NoError(b, err)
	var cpu time.Duration
	n := 0
	for b.Loop() {
		n++
		cmd := exec.Command(bin, "version")
		require.NoError(b, cmd.Run())
		cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	b.ReportMetric(float64(cpu.Microseconds())/1000/float64(n), "cpu-ms")
}

// idleDAGs is how many DAGs the idle process holds, and idleFor how long it is
// watched.
const (
	idleDAGs = 1000
	idleFor  = 10 * time.Second
)

// BenchmarkIdle is `standalone` with a thousand DAGs, none of them due: the
// memory that it holds and the share of one processor that it takes.
func BenchmarkIdle(b *testing.B) {
	if runtime.GOOS != "linux" {
		b.Skip("reads /proc")
	}
	for b.Loop() {
		h := newHouse(b, "AIRLOCK__SCHEDULER__INTERVAL=1s", "AIRLOCK__WORKER__POLL_INTERVAL=500ms", "AIRLOCK__CALLBACKS__INTERVAL=1s",
			"AIRLOCK__SCHEDULER__DAGS_INTERVAL=30s")
		for i := range idleDAGs {
			h.file(fmt.Sprintf("group%02d/idle%04d.yml", i%50, i), fmt.Sprintf(
				"idle%04d:\n  schedule: \"@yearly\"\n  start_date: 2026-01-01\n  catchup: false\n  tasks:\n"+
					"    one: {operator: empty}\n    two: {operator: empty, dependencies: [one]}\n", i))
		}
		began := time.Now()
		p := h.start("standalone")
		db := func() int {
			if _, err := os.Stat(filepath.Join(h.home, "airlock.db")); err != nil {
				return -1
			}
			return count(h.db(), "SELECT COUNT(*) FROM dag")
		}
		require.Eventually(b, func() bool { return db() == idleDAGs }, patience, 100*time.Millisecond)
		b.ReportMetric(time.Since(began).Seconds(), "s-to-load")
		// Runs that were due at the start must have ended.
		require.Eventually(b, func() bool {
			return count(h.db(), "SELECT COUNT(*) FROM dag_run WHERE state IN ('queued', 'running')") == 0
		}, patience, 200*time.Millisecond)
		before := ticks(b, p.cmd.Process.Pid)
		<-time.After(idleFor)
		used := float64(ticks(b, p.cmd.Process.Pid)-before) / 100 // USER_HZ is 100 wherever Go runs
		b.ReportMetric(100*used/idleFor.Seconds(), "cpu-%")
		b.ReportMetric(float64(resident(b, p.cmd.Process.Pid))/1024, "MiB")
		p.kill()
	}
}

// ticks is the processor time of a process in hundredths of a second.
func ticks(tb testing.TB, pid int) int {
	tb.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(tb, err)
	// The name in brackets may hold anything; utime and stime are the 12th and
	// 13th field after it.
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	require.NoError(tb, err)
	system, err := strconv.Atoi(fields[12])
	require.NoError(tb, err)
	return user + system
}

// resident is the memory that a process has in use, in KiB.
func resident(tb testing.TB, pid int) int {
	tb.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(tb, err)
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			require.NoError(tb, err)
			return kib
		}
	}
	require.Fail(tb, "no VmRSS")
	return 0
}
