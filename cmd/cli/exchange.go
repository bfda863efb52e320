package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// importFlags and exportFlags are those of the import and export commands of
// pools, variables and connections.
type importFlags struct {
	File       string `arg:"" help:"A file (.json, .yaml, .env), or - for the standard input."`
	FileFormat string `name:"file-format" enum:",json,yaml,env" default:"" help:"json, yaml or env; by the file's ending when it is not given."`
}

type exportFlags struct {
	File       string `arg:"" help:"A file (.json, .yaml, .env), or - for the standard output."`
	FileFormat string `name:"file-format" enum:",json,yaml,env" default:"" help:"json, yaml or env; by the file's ending when it is not given."`
}

// read reads a file of names and what belongs to each, as JSON text.
func (f importFlags) read(s *session) (map[string]json.RawMessage, error) {
	format, err := fileFormat(f.FileFormat, f.File)
	if err != nil {
		return nil, err
	}
	content, err := s.readFile(f.File)
	if err != nil {
		return nil, err
	}
	entries := map[string]json.RawMessage{}
	switch format {
	case "json":
		err = json.Unmarshal(content, &entries)
	case "yaml":
		var loose map[string]any
		if err = yaml.Load(content, &loose); err == nil {
			for name, v := range loose {
				if entries[name], err = json.Marshal(v); err != nil {
					break
				}
			}
		}
	case "env":
		entries, err = readEnvFile(content)
	}
	if err != nil {
		// The cause is not shown: it may quote a part of the file that is secret.
		return nil, wrong("read "+f.File, "see docs/commands.md for the form", "it is no %s of names and what belongs to each", format)
	}
	return entries, nil
}

// readEnvFile reads NAME=value lines; values are texts.
func readEnvFile(content []byte) (map[string]json.RawMessage, error) {
	entries := map[string]json.RawMessage{}
	for line := range bytes.Lines(content) {
		text := strings.TrimSpace(string(line))
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("a line without =")
		}
		quoted, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		entries[strings.TrimSpace(name)] = quoted
	}
	return entries, nil
}

// write writes names and what belongs to each. text gives the one-line form
// that env files need.
func (f exportFlags) write(s *session, entries map[string]any, text func(name string) (string, error)) error {
	format, err := fileFormat(f.FileFormat, f.File)
	if err != nil {
		return err
	}
	var b strings.Builder
	if format == "env" {
		for _, name := range slices.Sorted(maps.Keys(entries)) {
			value, err := text(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s=%s\n", name, value)
		}
	} else if err := printValue(&b, format, entries); err != nil {
		return err
	}
	if err := s.writeFile(f.File, []byte(b.String())); err != nil {
		return err
	}
	if f.File != "-" {
		fmt.Fprintf(s.env.Stdout, "%s written to %s\n", count(len(entries), "entry"), f.File)
	}
	return nil
}

// envValue is a value for an env file, which holds one line for each.
func envValue(name, value string) (string, error) {
	if strings.ContainsAny(value, "\r\n") {
		return "", wrong("write "+name, "use json or yaml", "its value has several lines, which an env file cannot hold")
	}
	return value, nil
}
