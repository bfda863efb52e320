package upload

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/executor/operator/httpcall"
	"github.com/airlock-dag/airlock/executor/operator/mediafile"
)

// Values of the key verify.
const (
	verifyChecksum = "checksum"
	verifyRead     = "read"
	verifySize     = "size"
)

const (
	defaultPartSize = 16 << 20
	// minPartSize and maxParts are the limits of S3.
	minPartSize     = 5 << 20
	maxPartSize     = 5 << 30
	maxParts        = 10_000
	defaultParallel = 4
	maxParallel     = 64
	defaultStall    = 2 * time.Minute
)

// Operator puts files into stores; New makes one.
type Operator struct {
	calls  *httpcall.Caller
	limits *limits
	live   *liveUploads
}

// New makes the operator.
func New(calls *httpcall.Caller) *Operator {
	return &Operator{calls: calls, limits: newLimits(), live: newLiveUploads()}
}

// Spec implements operator.Operator.
func (*Operator) Spec() dag.OperatorSpec {
	return dag.OperatorSpec{
		Name: "upload",
		Doc:  "Puts one file under one key into a folder, an S3-compatible bucket or below an HTTP address; what is there already is skipped.",
		Fields: []dag.Field{
			{Name: "path", Type: dag.FieldAny, Required: true, Templated: true, Mappable: true, Doc: "The file: a path, or the record of a transcode or probe step; a relative path starts at the DAG file's folder."},
			{Name: "conn_id", Type: dag.FieldString, Templated: true, Mappable: true, Doc: "Connection to the store: of type s3 or aws, http or https, file or fs."},
			{Name: "target", Type: dag.FieldString, Templated: true, Mappable: true, Doc: "Where to, when the connection does not say it all: a folder, file://, s3://bucket/prefix or https://host/path."},
			{Name: "key", Type: dag.FieldString, Templated: true, Mappable: true, Doc: "The name below the target; {sha256}, {asset_sha256}, {profile}, {name}, {stem} and {ext} stand for those of the file."},
			{Name: "overwrite", Type: dag.FieldBool, Default: false, Doc: "Put the file in the place of other content under its key."},
			{Name: "verify", Type: dag.FieldString, Enum: []string{verifyChecksum, verifyRead, verifySize}, Default: verifyChecksum, Templated: true, Doc: "How the store's copy is compared with the file."},
			{Name: "content_type", Type: dag.FieldString, Templated: true, Mappable: true, Doc: "The media type; by the key's ending when not given."},
			{Name: "metadata", Type: dag.FieldMap, Templated: true, Mappable: true, Doc: "Texts that an S3 store keeps with the object."},
			{Name: "headers", Type: dag.FieldMap, Templated: true, Mappable: true, Doc: "Headers besides those of an HTTP connection."},
			{Name: "part_size", Type: dag.FieldInt, Default: defaultPartSize, Templated: true, Doc: "Bytes in a part; a larger file goes to S3 in several parts."},
			{Name: "parallel", Type: dag.FieldInt, Default: defaultParallel, Templated: true, Doc: "How many parts of one file are sent at once."},
			{Name: "bytes_per_second", Type: dag.FieldInt, Default: 0, Templated: true, Doc: "The most that one worker sends to this target in a second; 0 for no limit."},
			{Name: "requests_per_second", Type: dag.FieldFloat, Default: 0.0, Templated: true, Doc: "The most requests of one worker to this target in a second; 0 for no limit."},
			{Name: "stall_timeout", Type: dag.FieldDuration, Default: defaultStall.Seconds(), Doc: "How long the transfer may go without an advance."},
			{Name: "allow_empty", Type: dag.FieldBool, Default: false, Doc: "Take a file without bytes."},
		},
		Validate:   validate,
		ValidateAt: func(args map[string]any, at dag.Place) []dag.Problem { return mediafile.Folder(args, "path", at) },
	}
}

func validate(args map[string]any) []dag.Problem {
	var out []dag.Problem
	bad := func(path, hint, format string, v ...any) {
		out = append(out, dag.Problem{Path: path, Severity: dag.SeverityError, Code: "bad-value", Message: fmt.Sprintf(format, v...), Hint: hint})
	}
	if args["target"] == nil && args["conn_id"] == nil {
		bad("target", "add target: ./published, target: s3://bucket/prefix or a conn_id", "neither target nor conn_id says where to upload to")
	}
	if target, ok := args["target"].(string); ok && !templated(target) {
		scheme, _, whole := strings.Cut(target, "://")
		kind := strings.ToLower(scheme)
		kinds := []string{"s3", "s3a", "aws", "http", "https", "file", "fs", "local"}
		switch {
		case whole && !slices.Contains(kinds, kind):
			hint := "the kinds are s3, http, https and file"
			if near := dag.Nearest(kind, kinds); near != "" {
				hint = "did you mean " + near + "? " + hint
			}
			bad("target", hint, "%q is no kind of store that upload knows", scheme)
		case whole && (kind == "s3" || kind == "s3a" || kind == "aws") && args["conn_id"] == nil:
			bad("target", "add conn_id: a connection of type aws or s3 with the access key as login and the secret key as password", "target is an S3 bucket, and no conn_id says with which keys")
		}
	}
	if key, ok := args["key"].(string); ok && !templated(key) {
		if err := checkKeyTemplate(key); err != nil {
			bad("key", "the words that may stand in braces are "+strings.Join(placeholders(), ", "), "%v", err)
		}
	}
	for name, limits := range map[string][2]int64{"part_size": {minPartSize, maxPartSize}, "parallel": {1, maxParallel}, "bytes_per_second": {0, 1 << 50}} {
		if n, ok := whole(args[name]); ok && (n < limits[0] || n > limits[1]) {
			bad(name, "", "%s is %d; it must be from %d to %d", name, n, limits[0], limits[1])
		}
	}
	if n, ok := number(args["requests_per_second"]); ok && !(n >= 0 && n <= 1e6) {
		bad("requests_per_second", "", "requests_per_second is %v; it must be from 0 to 1000000", n)
	}
	if s, ok := number(args["stall_timeout"]); ok && !(s >= 1 && s <= 86400) {
		bad("stall_timeout", "", "stall_timeout is %v seconds; it must be from 1 second to a day", s)
	}
	return out
}

func templated(s string) bool { return strings.Contains(s, "{{") || strings.Contains(s, "{%") }

// defaultKey is made from the content.
const defaultKey = "{sha256}{ext}"

func placeholders() []string {
	return []string{"{sha256}", "{asset_sha256}", "{profile}", "{name}", "{stem}", "{ext}"}
}

// checkKeyTemplate finds words in braces that nothing stands for.
func checkKeyTemplate(key string) error {
	_, err := expandKey(key, func(string) (string, error) { return "x", nil })
	return err
}

// expandKey puts values in the place of words in braces.
func expandKey(key string, value func(name string) (string, error)) (string, error) {
	var b strings.Builder
	for rest := key; rest != ""; {
		before, after, found := strings.Cut(rest, "{")
		b.WriteString(before)
		if !found {
			break
		}
		name, after, closed := strings.Cut(after, "}")
		if !closed {
			return "", fmt.Errorf("key %q has a { without a }", key)
		}
		if !known(name) {
			return "", fmt.Errorf("key %q has {%s}, which stands for nothing", key, name)
		}
		v, err := value(name)
		if err != nil {
			return "", err
		}
		b.WriteString(v)
		rest = after
	}
	return b.String(), nil
}

func known(name string) bool {
	for _, p := range placeholders() {
		if p == "{"+name+"}" {
			return true
		}
	}
	return false
}

// maxKey is the most bytes that S3 takes.
const maxKey = 1024

// checkKey refuses keys that lead out of the target or that stores read
// differently.
func checkKey(key string) error {
	switch {
	case key == "" || strings.HasSuffix(key, "/"):
		return fmt.Errorf("key %q names no file", key)
	case len(key) > maxKey:
		return fmt.Errorf("the key has %d bytes; the most is %d", len(key), maxKey)
	case strings.HasPrefix(key, "/") || path.Clean(key) != key || key == ".." || strings.HasPrefix(key, "../"):
		return fmt.Errorf("key %q is no plain path below the target", key)
	case strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' || r == '\uFFFD' }):
		return fmt.Errorf("key %q has characters that not every store takes", key)
	}
	return nil
}
