package config

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/plainfile"
)

// keyFile holds the Fernet key in the home folder.
const keyFile = "fernet.key"

// homeFolder is AIRLOCK_HOME or ~/airlock, absolute.
func homeFolder(env map[string]string, workDir string) (string, error) {
	if home := env["AIRLOCK_HOME"]; home != "" {
		return absolute(expandTilde(home, env["HOME"]), workDir), nil
	}
	if user := env["HOME"]; user != "" {
		return filepath.Join(user, "airlock"), nil
	}
	return "", &dag.Error{
		Code: dag.ErrInvalid, Op: "find the home folder", Hint: "set AIRLOCK_HOME to a folder that Airlock may write to",
		Err: errors.New("neither AIRLOCK_HOME nor HOME is set"),
	}
}

// expandTilde undoes the ~ that a quoted path keeps.
func expandTilde(path, userHome string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && userHome != "" {
		return filepath.Join(userHome, rest)
	}
	return path
}

func absolute(path, base string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(base, path)
}

// Prepare makes the home folder and, where no key is set, the file fernet.key
// with a new key (mode 0600), and puts the key in c. Processes that do it at
// once end up with the same key.
func (c *Config) Prepare() error {
	if err := os.MkdirAll(c.Home, 0o750); err != nil {
		return &dag.Error{Code: dag.ErrInvalid, Op: "make the home folder", Hint: "set AIRLOCK_HOME to a folder that Airlock may write to", Err: err}
	}
	if c.FernetKey != "" {
		return nil
	}
	if err := writeKey(c.Home); err != nil {
		return &dag.Error{Code: dag.ErrInvalid, Op: "make the key for stored passwords", Hint: "set AIRLOCK__CORE__FERNET_KEY, or make the home folder writable", Err: err}
	}
	key, err := readKey(c.Home)
	c.FernetKey = key
	return err
}

// writeKey puts a new key beside the place and links it there, which fails when
// another process was first: that one's key counts.
func writeKey(home string) error {
	key := make([]byte, 32)
	_, _ = rand.Read(key)                          // never fails since Go 1.24
	file, err := os.CreateTemp(home, keyFile+".*") // made with mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = fmt.Fprintln(file, base64.URLEncoding.EncodeToString(key))
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Link(file.Name(), filepath.Join(home, keyFile)); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// readKey reads the key file; no file gives no key.
func readKey(home string) (Secret, error) {
	name := filepath.Join(home, keyFile)
	content, err := plainfile.Read(name, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", &dag.Error{Code: dag.ErrInvalid, Op: "read the key for stored passwords", Hint: "it must be readable by the user that runs Airlock", Err: err}
	}
	key := strings.TrimSpace(string(content))
	if raw, err := base64.URLEncoding.DecodeString(key); err != nil || len(raw) != 32 {
		return "", &dag.Error{
			Code: dag.ErrInvalid, Op: "read the key for stored passwords",
			Hint: "put the right key back from a copy; without it stored passwords cannot be read",
			Err:  fmt.Errorf("%s does not hold a Fernet key (32 bytes in URL-safe base64)", name),
		}
	}
	return Secret(key), nil
}
