package gpu

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/dag/proc"
)

// Kind is the family of a device.
type Kind string

// Kinds of device.
const (
	KindNVIDIA Kind = "nvidia"
	KindRender Kind = "render" // a DRM render node: VAAPI or Quick Sync
)

// Device is one thing that can encode or decode.
type Device struct {
	Kind Kind `json:"kind"`
	// ID is the UUID of an NVIDIA card or MIG slice, or the path of a render node.
	ID     string `json:"id"`
	Name   string `json:"name,omitempty"`
	Driver string `json:"driver,omitempty"`
}

// Env is what a child process needs in its environment to see this device and
// no other; inside it the device has the index 0.
func (d Device) Env() []string {
	if d.Kind != KindNVIDIA {
		return nil
	}
	return []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=" + d.ID}
}

// decodesOnly are cards of which the maker says that they have no encoder.
func decodesOnly() []string { return []string{"A100", "A30", "H100", "H200", "H800", "GH200"} }

// Note is a word on what is known of the card by its name; "" for nothing. It
// only explains: what decides is the probe.
func (d Device) Note() string {
	for _, word := range strings.FieldsFunc(d.Name, func(r rune) bool { return r == ' ' || r == '-' }) {
		if slices.Contains(decodesOnly(), word) {
			return "an " + word + " has decoders and no encoder"
		}
	}
	return ""
}

// Lister finds devices.
type Lister struct {
	// NvidiaSMI is the program to ask; "nvidia-smi" when empty.
	NvidiaSMI string
	// RenderDir holds the render nodes; "/dev/dri" when empty.
	RenderDir string
}

// Devices lists the machine's devices, NVIDIA's first. A machine without any
// gives an empty list and no error, and so does one without nvidia-smi.
func (l Lister) Devices(ctx context.Context) ([]Device, error) {
	program := l.NvidiaSMI
	if program == "" {
		program = "nvidia-smi"
	}
	var out []Device
	if _, err := exec.LookPath(program); err == nil {
		list, err := run(ctx, program, "-L")
		if err != nil {
			return nil, err
		}
		driver, err := run(ctx, program, "--query-gpu=driver_version", "--format=csv,noheader")
		if err != nil {
			return nil, err
		}
		version, _, _ := strings.Cut(strings.TrimSpace(driver), "\n")
		out = ParseList(list, strings.TrimSpace(version))
	}
	dir := l.RenderDir
	if dir == "" {
		dir = "/dev/dri"
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return out, nil //nolint:nilerr // no such folder: no such devices
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "renderD") {
			out = append(out, Device{Kind: KindRender, ID: filepath.Join(dir, e.Name())})
		}
	}
	return out, nil
}

// run gives the standard output of a program; a failure of it is an empty text
// (a driver that does not answer is a machine without its cards).
func run(ctx context.Context, argv ...string) (string, error) {
	var out bytes.Buffer
	res, err := proc.Run(ctx, proc.Command{Argv: argv, Stdout: &out})
	switch {
	case err != nil:
		return "", fmt.Errorf("ask %s: %w", argv[0], err)
	case res.Stopped != nil:
		return "", res.Stopped
	case res.ExitCode != 0:
		return "", nil
	default:
		return out.String(), nil
	}
}

var (
	cardLine  = regexp.MustCompile(`^GPU \d+: (.*) \(UUID: (GPU-[0-9A-Za-z-]+)\)`)
	sliceLine = regexp.MustCompile(`^\s+MIG (.*) Device\s+\d+: \(UUID: (MIG-[0-9A-Za-z/-]+)\)`)
)

// ParseList reads `nvidia-smi -L`. A card that is cut into MIG slices gives its
// slices and not itself.
func ParseList(text, driver string) []Device {
	var out []Device
	card := -1
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if m := cardLine.FindStringSubmatch(line); m != nil {
			card = len(out)
			out = append(out, Device{Kind: KindNVIDIA, ID: m[2], Name: m[1], Driver: driver})
			continue
		}
		if m := sliceLine.FindStringSubmatch(line); m != nil && card >= 0 {
			base, _, _ := strings.Cut(out[card].Name, " MIG ")
			slice := Device{Kind: KindNVIDIA, ID: m[2], Name: base + " MIG " + m[1], Driver: driver}
			if strings.HasPrefix(out[card].ID, "GPU-") { // the first one takes its card's place
				out[card] = slice
				continue
			}
			out = append(out, slice)
		}
	}
	return out
}
