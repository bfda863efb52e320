package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/airlock-dag/airlock/dag"
)

// maxRecordLine bounds a line of a file with letters: the largest payload and
// its edit, every byte of them escaped, with all that stands around them.
const maxRecordLine = 16*dag.MaxPayload + 1<<20

// recordsAtOnce is how many letters are read at a time for a file.
const recordsAtOnce = 50

type dlqExportCmd struct {
	File string `arg:"" help:"A file for JSON lines, or - for the standard output."`
	letterMatch
	Status string `placeholder:"STATUS" help:"Only with this status: sealed, quarantined, replaying, resolved, dropped, expired."`
	Limit  int    `placeholder:"N" help:"How many at most; 0 for all."`
}

// Run writes letters with everything in them. Secrets in payloads were masked
// when the letters were sealed.
func (c dlqExportCmd) Run(ctx context.Context, s *session) error {
	f, err := letterFilter{letterMatch: c.letterMatch, Status: c.Status, Limit: c.Limit}.filter(ctx, s)
	if err != nil {
		return err
	}
	n, err := s.exportLetters(ctx, c.File, f, f.Status)
	if err != nil {
		return err
	}
	if c.File != "-" {
		fmt.Fprintf(s.env.Stdout, "%s written to %s\n", count(n, "letter"), c.File)
	}
	return nil
}

// exportLetters writes the letters of a filter that have one of the statuses to
// a file, one on each line, and counts them. It holds few of them at a time. The
// file is synced before the function returns: an expiry may follow.
func (s *session) exportLetters(ctx context.Context, name string, f dag.LetterFilter, statuses ...dag.LetterStatus) (n int, err error) {
	st, err := s.store(ctx)
	if err != nil {
		return 0, err
	}
	out := s.env.Stdout
	if name != "-" {
		file, ferr := os.OpenFile(s.path(name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if ferr != nil {
			return 0, wrong("write "+name, "give a file that can be written", "%w", ferr)
		}
		defer func() { err = errors.Join(err, file.Sync(), file.Close()) }()
		out = file
	}
	w := bufio.NewWriter(out)
	most := f.Limit
	for _, status := range statuses {
		for f.Status, f.After = status, 0; ; {
			f.Limit = recordsAtOnce
			if most > 0 {
				if f.Limit = min(recordsAtOnce, most-n); f.Limit == 0 {
					return n, w.Flush()
				}
			}
			records, err := st.LetterRecords(ctx, f)
			if err != nil {
				return n, err
			}
			for i := range records {
				line, err := json.Marshal(records[i])
				if err != nil {
					return n, err
				}
				if _, err := w.Write(append(line, '\n')); err != nil {
					return n, err
				}
			}
			if n += len(records); len(records) < f.Limit {
				break
			}
			f.After = records[len(records)-1].ID
		}
	}
	return n, w.Flush()
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
	file, err := s.openFile(c.File)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	var n importCounts
	line := 0
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxRecordLine)
	for lines.Scan() {
		line++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
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
	err = lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = fmt.Errorf("%s:%d: the line has more than %d bytes, as no letter has", c.File, line+1, maxRecordLine)
	}
	if err := errors.Join(err, printPairs(s.env.Stdout, c.Output, n, []pair{
		{"added", n.Added}, {"restored", n.Restored}, {"there", n.There}, {"refused", n.Refused},
	})); err != nil {
		return err
	}
	if n.Refused > 0 {
		return errReported
	}
	return nil
}
