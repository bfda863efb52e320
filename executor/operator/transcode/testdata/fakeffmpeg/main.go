// Command fakeffmpeg stands in for ffmpeg in tests. What it does is the name of
// the folder that it lies in; where it has nothing of its own to do it runs the
// real ffmpeg.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	mode := filepath.Base(filepath.Dir(os.Args[0]))
	args := os.Args[1:]
	if slices.Contains(args, "-version") { // what the real one says, as it was told
		text, err := os.ReadFile(filepath.Join(filepath.Dir(os.Args[0]), "version"))
		if err != nil {
			real(args)
		}
		fmt.Print(string(text))
		os.Exit(0)
	}
	nvenc := slices.Contains(args, "h264_nvenc")
	probing := args[len(args)-1] == "-" && strings.Contains(strings.Join(args, " "), "testsrc2")
	if probing && !nvenc { // the processor's encoders work
		os.Exit(0)
	}
	if probing && slices.Contains([]string{"session-limit", "session-later", "card-fails", "card-works", "no-cuda-decode"}, mode) {
		os.Exit(0)
	}
	switch mode {
	case "short": // ends with 0 after half a second of output
		real(slices.Insert(args, len(args)-1, "-t", "0.5"))
	case "nofile": // ends with 0 and writes nothing
		os.Exit(0)
	case "garbage": // ends with 0 and writes what is no media
		write(args, []byte("not a movie"))
		os.Exit(0)
	case "frozen": // says the same for ever
		for {
			fmt.Print("frame=5\nout_time_us=200000\ntotal_size=48\nspeed=1x\nprogress=continue\n")
			time.Sleep(50 * time.Millisecond)
		}
	case "silent":
		hang()
	case "deaf": // ignores SIGTERM, too
		signal.Ignore(syscall.SIGTERM)
		write(args, []byte("half"))
		hang()
	case "swells": // fills the disk and says nothing
		write(args, make([]byte, 200_000))
		hang()
	case "status255":
		os.Exit(255)
	case "flood": // much more on stderr than a pipe holds, then the real work
		line := strings.Repeat("x", 1<<16) + "\n"
		for range 1600 { // 100 MiB
			fmt.Fprint(os.Stderr, "[aac @ 0x55d0c0ffee00] [warning] "+line)
		}
		real(args)
	case "session-limit": // NVENC opens in the probe and has no session left for the encode
		if nvenc && !probing {
			noSession()
		}
		real(software(args))
	case "third-piece-fails":
		if strings.Contains(args[len(args)-1], "/00002-") {
			fmt.Fprintln(os.Stderr, "[error] something new")
			os.Exit(1)
		}
		real(args)
	case "session-later": // likewise, until somebody lets go of one
		if _, err := os.Stat(filepath.Join(filepath.Dir(os.Args[0]), "free")); err != nil && nvenc && !probing {
			noSession()
		}
		real(software(args))
	case "three-sessions":
		if n := strings.Count(strings.Join(args, " "), "h264_nvenc"); n > 3 {
			noSession()
		}
		real(software(args))
	case "no-encoder": // the card has decoders only, as an H200
		if nvenc {
			fmt.Fprintln(os.Stderr, "[h264_nvenc @ 0x5581] [error] OpenEncodeSessionEx failed: unsupported device (2): (no details)")
			fmt.Fprintln(os.Stderr, "[h264_nvenc @ 0x5581] [error] No capable devices found")
			os.Exit(255)
		}
		real(software(args))
	case "fork": // leaves a child behind that holds the pipes and is deaf to SIGTERM
		if slices.Contains(args, "-progress") && !probing {
			child := exec.Command("sh", "-c", "trap '' TERM; sleep 3600 & wait; sleep 3600")
			child.Stdout, child.Stderr = os.Stdout, os.Stderr
			if err := child.Start(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(70)
			}
			fmt.Fprintln(os.Stderr, "[warning] forked a child")
		}
		real(args)
	case "no-cuda-decode": // the card encodes, and does not decode this codec
		if slices.Contains(args, "cuda") {
			fmt.Fprintln(os.Stderr, "[h264 @ 0x5581] [error] No device available for decoder: device type cuda needed for codec h264.")
			os.Exit(255)
		}
		real(software(args))
	case "card-fails": // works in the probe and not in the encode
		if nvenc && !probing {
			fmt.Fprintln(os.Stderr, "[AVHWDeviceContext @ 0x5581] [error] cu->cuInit(0) failed -> CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected")
			os.Exit(255)
		}
		real(software(args))
	case "card-works":
		real(software(args))
	default:
		fmt.Fprintln(os.Stderr, "no such mode:", mode)
		os.Exit(70)
	}
}

// software replaces NVENC and its options, so that the test has an encode.
func software(args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-hwaccel", args[i] == "-gpu", args[i] == "-rc", args[i] == "-cq":
			i++
		case args[i] == "-preset":
			out = append(out, "-preset", "ultrafast")
			i++
		case args[i] == "-b:v":
			i++
		case args[i] == "h264_nvenc":
			out = append(out, "libx264")
		default:
			out = append(out, args[i])
		}
	}
	return out
}

// noSession says what NVENC says when all sessions are in use.
func noSession() {
	fmt.Fprintln(os.Stderr, "[h264_nvenc @ 0x5581] [error] OpenEncodeSessionEx failed: out of memory (10): (no details)")
	fmt.Fprintln(os.Stderr, "[error] Error while opening encoder - maybe incorrect parameters such as bit_rate, rate, width or height.")
	os.Exit(255)
}

func write(args []string, data []byte) {
	path := strings.TrimPrefix(args[len(args)-1], "file:")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func hang() {
	for {
		time.Sleep(time.Hour)
	}
}

func real(args []string) {
	path, err := exec.LookPath("ffmpeg")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(70)
	}
	err = syscall.Exec(path, append([]string{"ffmpeg"}, args...), os.Environ())
	fmt.Fprintln(os.Stderr, err)
	os.Exit(70)
}
