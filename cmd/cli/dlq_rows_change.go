package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
	"github.com/airlock-dag/airlock/sql/merge"
)

type dlqRowsEditCmd struct {
	ID int64 `arg:"" name:"id" help:"The row's id."`
	connIDFlag
	Set    map[string]string `placeholder:"COLUMN=VALUE" help:"Give a column another value; may be there several times."`
	Raw    *string           `placeholder:"TEXT" help:"The whole row as a text; it is written in the encoding of its file."`
	File   string            `placeholder:"FILE" help:"A file with the whole row, byte for byte; - for the standard input."`
	Reason string            `placeholder:"TEXT" help:"Why; kept with the row."`
}

// Run corrects a row.
func (c dlqRowsEditCmd) Run(ctx context.Context, s *session) error {
	given := 0
	for _, there := range []bool{len(c.Set) > 0, c.Raw != nil, c.File != ""} {
		if there {
			given++
		}
	}
	if given != 1 {
		return wrong("edit the row", "give exactly one of --set COLUMN=VALUE, --raw TEXT and --file FILE", "found %d", given)
	}
	return s.changeRows(ctx, c.ConnID, []int64{c.ID}, "dlq_rows.edit", func(db *dialect.DB, id int64) (string, error) {
		l, err := rowLetter(ctx, db, id)
		if err != nil {
			return "", err
		}
		raw, err := c.raw(ctx, s, &l)
		if err != nil {
			return "", err
		}
		if err := merge.EditRow(ctx, db, id, raw, s.hand(c.Reason)); err != nil {
			return "", err
		}
		after := l
		after.Raw = string(raw)
		return fmt.Sprintf("row %d edited\n- %s\n+ %s", id, shorten(bytesText(l.Text()), 200), shorten(bytesText(after.Text()), 200)), nil
	})
}

func (c dlqRowsEditCmd) raw(ctx context.Context, s *session, l *merge.RowLetter) ([]byte, error) {
	switch {
	case c.Raw != nil:
		return l.Encode(*c.Raw)
	case c.File != "":
		text, err := s.readFile(c.File)
		// An editor's last line end is none of the row's.
		return []byte(strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")), err
	default:
		return l.WithFields(ctx, c.Set)
	}
}

// rowIDs are the rows of a decision by hand.
type rowIDs struct {
	IDs []int64 `arg:"" name:"id" help:"The rows' ids."`
	connIDFlag
	Reason string `required:"" placeholder:"TEXT" help:"Why; kept with each row."`
}

type dlqRowsResolveCmd struct{ rowIDs }

// Run closes rows.
func (c dlqRowsResolveCmd) Run(ctx context.Context, s *session) error {
	return c.decide(ctx, s, "resolved", merge.ResolveRow)
}

type dlqRowsDropCmd struct{ rowIDs }

// Run gives rows up.
func (c dlqRowsDropCmd) Run(ctx context.Context, s *session) error {
	return c.decide(ctx, s, "dropped", merge.DropRow)
}

type dlqRowsReleaseCmd struct{ rowIDs }

// Run opens rows again.
func (c dlqRowsReleaseCmd) Run(ctx context.Context, s *session) error {
	return c.decide(ctx, s, "released", merge.ReleaseRow)
}

func (c rowIDs) decide(ctx context.Context, s *session, word string, do func(context.Context, *dialect.DB, int64, merge.RowHand) error) error {
	return s.changeRows(ctx, c.ConnID, c.IDs, "dlq_rows."+word, func(db *dialect.DB, id int64) (string, error) {
		return fmt.Sprintf("row %d %s", id, word), do(ctx, db, id, s.hand(c.Reason))
	})
}

func (s *session) hand(reason string) merge.RowHand {
	return merge.RowHand{Actor: s.actor(), Reason: reason, At: s.env.Clock.Now()}
}

// changeRows changes rows one by one; each change is in the audit log of the
// state database too.
func (s *session) changeRows(ctx context.Context, connID string, ids []int64, action string, do func(*dialect.DB, int64) (string, error)) (err error) {
	db, err := s.target(ctx, connID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, id := range ids {
		said, err := do(db, id)
		if err != nil {
			return err
		}
		fmt.Fprintln(s.env.Stdout, said)
		if err := s.audit(ctx, action, fmt.Sprintf("%s/%d", connID, id)); err != nil {
			return err
		}
	}
	return nil
}

type dlqRowsExpireCmd struct {
	connIDFlag
	DryRun bool `name:"dry-run" help:"Only tell what would expire."`
	outputFlag
}

// Run closes rows whose time is over, and warns of those that are next.
func (c dlqRowsExpireCmd) Run(ctx context.Context, s *session) (err error) {
	db, err := s.target(ctx, c.ConnID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	h := s.hand("its time is over")
	soon, err := merge.ExpiringRows(ctx, db, h.At.Add(dag.LetterWarning))
	if err != nil {
		return err
	}
	out := expiry{DryRun: c.DryRun}
	if c.DryRun {
		out.Expired, err = merge.ExpiringRows(ctx, db, h.At)
	} else if out.Expired, err = merge.ExpireRows(ctx, db, h); err == nil && out.Expired > 0 {
		err = s.audit(ctx, "dlq_rows.expired", fmt.Sprintf("%s: %s", c.ConnID, count(out.Expired, "row")))
	}
	if err != nil {
		return err
	}
	out.Soon = soon - out.Expired
	return printPairs(s.env.Stdout, c.Output, out, []pair{{"expired", out.Expired}, {"expiring_within_48h", out.Soon}, {"dry_run", out.DryRun}})
}
