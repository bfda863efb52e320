package upload

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/fault"
)

// settings are the step's keys, read.
type settings struct {
	file              asset
	connID, target    string
	key               string
	overwrite         bool
	verify            string
	contentType       string
	metadata          map[string]string
	headers           any
	partSize          int64
	parallel          int
	bytesPerSecond    int64
	requestsPerSecond float64
	stall             time.Duration
	allowEmpty        bool
}

// asset is the file to send, with what an earlier step said of it.
type asset struct {
	path string // absolute
	// sha256 of the file's bytes as a record says; "" when nobody said it.
	sha256 string
	// assetSHA256 is that of the source that the file was made from.
	assetSHA256, profile string
	// key is the record's own.
	key string
}

// readSettings reads rendered arguments; a template may have made a text of a
// number, so texts of numbers are numbers. dir is where relative paths start.
func readSettings(args map[string]any, dir string) (*settings, *dag.TaskError) {
	s := &settings{
		verify: verifyChecksum, partSize: defaultPartSize, parallel: defaultParallel, stall: defaultStall, headers: args["headers"],
	}
	var first error
	read := func(key string, f func(v any) error) {
		if v := args[key]; v != nil && first == nil {
			if err := f(v); err != nil {
				first = fmt.Errorf("%s is %v: %w", key, shownValue(v), err)
			}
		}
	}
	read("path", func(v any) (err error) { s.file, err = readAsset(v, dir); return err })
	for key, to := range map[string]*string{"conn_id": &s.connID, "target": &s.target, "key": &s.key, "content_type": &s.contentType} {
		read(key, func(v any) error { return readText(v, to) })
	}
	read("verify", func(v any) error {
		if err := readText(v, &s.verify); err != nil || slices.Contains([]string{verifyChecksum, verifyRead, verifySize}, s.verify) {
			return err
		}
		return fmt.Errorf("it must be %s, %s or %s", verifyChecksum, verifyRead, verifySize)
	})
	read("overwrite", func(v any) error { return readBool(v, &s.overwrite) })
	read("allow_empty", func(v any) error { return readBool(v, &s.allowEmpty) })
	parallel := int64(s.parallel)
	read("part_size", func(v any) error { return readWhole(v, minPartSize, maxPartSize, &s.partSize) })
	read("parallel", func(v any) error { return readWhole(v, 1, maxParallel, &parallel) })
	read("bytes_per_second", func(v any) error { return readWhole(v, 0, 1<<50, &s.bytesPerSecond) })
	s.parallel = int(parallel)
	read("requests_per_second", func(v any) error {
		n, ok := number(v)
		if !ok || !(n >= 0 && n <= 1e6) {
			return fmt.Errorf("it must be a number from 0 to 1000000")
		}
		s.requestsPerSecond = n
		return nil
	})
	read("stall_timeout", func(v any) error {
		n, ok := number(v)
		if !ok || !(n > 0 && n <= 86400) {
			return fmt.Errorf("it must be a number of seconds, at most 86400")
		}
		s.stall = time.Duration(n * float64(time.Second))
		return nil
	})
	read("metadata", func(v any) (err error) { s.metadata, err = readMetadata(v); return err })
	switch {
	case first != nil:
	case s.file.path == "":
		first = fmt.Errorf("path is missing")
	case s.target == "" && s.connID == "":
		first = fmt.Errorf("neither target nor conn_id says where to upload to")
	}
	if first != nil {
		return nil, fault.New(fault.CodeInvalidArgument, first.Error())
	}
	return s, nil
}

// shownValue cuts what a person typed to a length for a message.
func shownValue(v any) string { return dag.CutText(fmt.Sprintf("%v", v), 200) }

func readAsset(v any, dir string) (asset, error) {
	var a asset
	switch x := v.(type) {
	case string:
		a.path = x
	case map[string]any:
		a.path, _ = x["path"].(string)
		if a.path == "" {
			return a, fmt.Errorf("the record has no path")
		}
		a.assetSHA256, _ = x["asset_sha256"].(string)
		a.profile, _ = x["profile"].(string)
		a.key, _ = x["key"].(string)
		// The file of a transcode step is its output; that of a probe step is the
		// asset itself.
		a.sha256, _ = x["output_sha256"].(string)
		if a.sha256 == "" {
			a.sha256 = a.assetSHA256
		}
		for _, h := range []string{a.sha256, a.assetSHA256} {
			if h != "" && !isSHA256(h) {
				return a, fmt.Errorf("%q is no SHA-256 in lower-case hexadecimal", h)
			}
		}
	default:
		return a, fmt.Errorf("it must be a path, or the record of a transcode or probe step")
	}
	if strings.ContainsRune(a.path, 0) {
		return a, fmt.Errorf("a path cannot hold a zero byte")
	}
	if a.path != "" && !filepath.IsAbs(a.path) {
		a.path = filepath.Join(dir, a.path)
	}
	return a, nil
}

func isSHA256(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

func readText(v any, to *string) error {
	s, ok := v.(string)
	if !ok {
		return fmt.Errorf("it must be a text")
	}
	*to = strings.TrimSpace(s)
	return nil
}

func readBool(v any, to *bool) error {
	switch x := v.(type) {
	case bool:
		*to = x
		return nil
	case string:
		if b, err := strconv.ParseBool(strings.ToLower(strings.TrimSpace(x))); err == nil {
			*to = b
			return nil
		}
	}
	return fmt.Errorf("it must be true or false")
}

func readWhole(v any, low, high int64, to *int64) error {
	n, ok := whole(v)
	if !ok || n < low || n > high {
		return fmt.Errorf("it must be a whole number from %d to %d", low, high)
	}
	*to = n
	return nil
}

// readMetadata takes names and values that HTTP headers can hold.
func readMetadata(v any) (map[string]string, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("it must be a mapping")
	}
	out := make(map[string]string, len(m))
	for name, value := range m {
		text, ok := value.(string)
		if !ok {
			if n, isNumber := number(value); isNumber {
				text, ok = strconv.FormatFloat(n, 'f', -1, 64), true
			}
		}
		name = strings.ToLower(name)
		if !ok || name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" ||
			strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
			return nil, fmt.Errorf("names are letters, digits and -_. and values are texts in ASCII")
		}
		out[name] = text
	}
	return out, nil
}

func number(v any) (float64, bool) {
	switch x := v.(type) {
	case int:
		return float64(x), true
	case int64:
		return float64(x), true
	case float64:
		return x, !math.IsNaN(x)
	case json.Number:
		f, err := x.Float64()
		return f, err == nil
	case string:
		f, err := strconv.ParseFloat(strings.TrimSpace(x), 64)
		return f, err == nil && !math.IsNaN(f)
	default:
		return 0, false
	}
}

func whole(v any) (int64, bool) {
	f, ok := number(v)
	if !ok || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}
