package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/airlock-dag/airlock/dag"
)

// recordsAtOnce is how many letters are read at a time for a file.
const recordsAtOnce = 200

type dlqExportCmd struct {
	File string `arg:"" help:"A file for JSON lines, or - for the standard output."`
	letterMatch
	Status string `placeholder:"STATUS" help:"Only with this status: sealed, quarantined, replaying, resolved, dropped, expired."`
	Limit  int    `placeholder:"N" help:"How many at most; 0 for all."`
}

// Run writes letters with everything in them. Secrets in payloads were masked
// when the letters were sealed.
func (c dlqExportCmd) Run(ctx context.Context, s *session) error {
	f, err := letterFilter{letterMatch: c.letterMatch, Status: c.Status, Limit: c.Limit}.filter(s)
	if err != nil {
		return err
	}
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	list, err := st.Letters(ctx, f)
	if err != nil {
		return err
	}
	ids := make([]int64, len(list))
	for i, l := range list {
		ids[i] = l.ID
	}
	if err := s.exportLetters(ctx, c.File, ids); err != nil {
		return err
	}
	if c.File != "-" {
		fmt.Fprintf(s.env.Stdout, "%s written to %s\n", count(len(ids), "letter"), c.File)
	}
	return nil
}

// exportLetters writes letters to a file, one on each line. The file is synced
// before the function returns: an expiry may follow.
func (s *session) exportLetters(ctx context.Context, name string, ids []int64) (err error) {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	out := s.env.Stdout
	if name != "-" {
		file, ferr := os.OpenFile(s.path(name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if ferr != nil {
			return wrong("write "+name, "give a file that can be written", "%w", ferr)
		}
		defer func() { err = errors.Join(err, file.Sync(), file.Close()) }()
		out = file
	}
	w := bufio.NewWriter(out)
	for part := range slices.Chunk(ids, recordsAtOnce) {
		records, err := st.LetterRecords(ctx, dag.LetterFilter{IDs: part, Limit: -1})
		if err != nil {
			return err
		}
		for i := range records {
			line, err := json.Marshal(records[i])
			if err != nil {
				return err
			}
			if _, err := w.Write(append(line, '\n')); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

type dlqImportCmd struct {
	File string `arg:"" help:"A file with JSON lines, or - for the standard input."`
	outputFlag
}

// importCounts is what an import did.
type importCounts struct {
	Added    int `json:"added"`
	Restored int `json:"restored"`
	There    int `json:"there"`
	Refused  int `json:"refused"`
}

// Run brings letters back, line by line. A line that cannot be brought back is
// told and does not stop the others.
func (c dlqImportCmd) Run(ctx context.Context, s *session) error {
	content, err := s.readFile(c.File)
	if err != nil {
		return err
	}
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	var n importCounts
	line := 0
	for text := range bytes.Lines(content) {
		line++
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		var r dag.LetterRecord
		status, err := dag.ImportStatus(""), json.Unmarshal(text, &r)
		if err == nil {
			status, err = st.ImportLetter(ctx, r, s.actor())
		}
		if err != nil && (ctx.Err() != nil || dag.CodeOf(err) == dag.ErrInternal && r.JobID != "") {
			return err
		}
		switch {
		case err != nil:
			n.Refused++
			fmt.Fprintf(s.env.Stderr, "%s:%d: %v\n", c.File, line, err)
		case status == dag.ImportAdded:
			n.Added++
		case status == dag.ImportRestored:
			n.Restored++
		default:
			n.There++
		}
	}
	if err := printPairs(s.env.Stdout, c.Output, n, []pair{
		{"added", n.Added}, {"restored", n.Restored}, {"there", n.There}, {"refused", n.Refused},
	}); err != nil {
		return err
	}
	if n.Refused > 0 {
		return errReported
	}
	return nil
}
