package cli

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/airlock-dag/airlock/sql/merge"
)

type dlqRowsExportCmd struct {
	File string `arg:"" default:"-" help:"The file to write; - for the standard output."`
	rowMatch
	Status string `placeholder:"STATUS" help:"Only with this status: quarantined (open), resolved, dropped, expired."`
	Format string `enum:"csv,jsonl,raw" default:"csv" help:"csv or jsonl: rows of the table, with place and reason. raw: the rows as they were read, behind the header of their file."`
}

// exportPage is how many letters are held in memory at once.
const exportPage = 1000

// Run writes rows, page by page.
func (c dlqRowsExportCmd) Run(ctx context.Context, s *session) (err error) {
	filter, err := rowFilter{rowMatch: c.rowMatch, Status: c.Status}.filter(s)
	if err != nil {
		return err
	}
	db, err := s.target(ctx, c.ConnID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	out := s.env.Stdout
	if c.File != "-" {
		// The rows may hold what is nobody else's business.
		f, err := os.OpenFile(s.path(c.File), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return wrong("write "+c.File, "name a file in a folder that is there", "%w", err)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		out = f
	}
	w := bufio.NewWriter(out)
	write, err := rowWriter(c.Format, w)
	if err != nil {
		return err
	}
	n := 0
	filter.Limit = exportPage
	for {
		letters, err := merge.RowLetters(ctx, db, filter)
		if err != nil {
			return err
		}
		for _, l := range letters {
			if err := write(l); err != nil {
				return err
			}
		}
		n += len(letters)
		if len(letters) < exportPage {
			break
		}
		filter.After = letters[len(letters)-1].ID
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(s.env.Stderr, "%s written\n", count(n, "row"))
	return nil
}

// rowWriter writes one letter in a format.
func rowWriter(format string, w io.Writer) (func(merge.RowLetter) error, error) {
	switch format {
	case "jsonl":
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		return func(l merge.RowLetter) error { return encoder.Encode(showRow(l)) }, nil
	case "raw":
		return rawWriter(w), nil
	}
	c := csv.NewWriter(w)
	titles := []string{
		"id", "dag_id", "run_id", "task_id", "map_index", "batch_id", "source", "source_line", "byte_offset", "row_key", "column_name", "error_code",
		"error_message", "status", "return_count", "enqueued_at", "expires_at", "raw", "raw_base64", "original_raw",
	}
	if err := c.Write(titles); err != nil {
		return nil, err
	}
	stamp := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000000") }
	return func(l merge.RowLetter) error {
		offset := ""
		if l.ByteOffset != nil {
			offset = strconv.FormatInt(*l.ByteOffset, 10)
		}
		err := c.Write([]string{
			strconv.FormatInt(l.ID, 10), l.DagID, l.RunID, l.TaskID, strconv.Itoa(l.MapIndex), l.BatchID, l.Source, strconv.FormatInt(l.SourceLine, 10), offset,
			deref(l.RowKey), deref(l.ColumnName), l.ErrorCode, l.ErrorMessage, l.Status, strconv.Itoa(l.ReturnCount), stamp(l.EnqueuedAt), stamp(l.ExpiresAt),
			l.Raw, showRow(l).RawBase64, deref(l.OriginalRaw),
		})
		c.Flush()
		return errors.Join(err, c.Error())
	}, nil
}

// rawWriter writes the rows' own bytes, and a header when it is another one than
// before. UTF-16 begins with its mark.
func rawWriter(w io.Writer) func(merge.RowLetter) error {
	header, begun := "", false
	return func(l merge.RowLetter) error {
		end, err := l.Encode("\n")
		if err != nil {
			return err
		}
		text := ""
		if !begun && len(end) > 1 {
			text = "\ufeff"
		}
		begun = true
		if h := l.Header(); h != "" && h != header {
			header = h
			text += h + "\n"
		}
		before, err := l.Encode(text)
		if err != nil {
			return err
		}
		_, err = w.Write(slices.Concat(before, []byte(l.Raw), end))
		return err
	}
}
