package fault

import (
	"strconv"
	"strings"
	"syscall"
)

// signalNames has the signals that end processes, by their Linux numbers.
func signalNames() map[syscall.Signal]string {
	return map[syscall.Signal]string{
		1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
		9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
		24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
	}
}

// SignalName is a signal's name with SIG, or its number for one without.
func SignalName(sig syscall.Signal) string {
	if name, ok := signalNames()[sig]; ok {
		return name
	}
	return strconv.Itoa(int(sig))
}

// ParseSignal reads a name with or without SIG, or a number.
func ParseSignal(text string) (syscall.Signal, bool) {
	text = strings.ToUpper(strings.TrimSpace(text))
	if n, err := strconv.Atoi(text); err == nil {
		return syscall.Signal(n), n > 0 && n < 65
	}
	if !strings.HasPrefix(text, "SIG") {
		text = "SIG" + text
	}
	for sig, name := range signalNames() {
		if name == text {
			return sig, true
		}
	}
	return 0, false
}
