package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/airlock-dag/airlock/cmd/app"
	"github.com/airlock-dag/airlock/dag"
)

// shownAtMost is how many changed letters a command lists.
const shownAtMost = 1000

// letterChoice says which letters an act is done to: ids, or a filter.
type letterChoice struct {
	Letters []int64 `arg:"" optional:"" name:"id" help:"The letters' ids; or say which by the flags."`
	letterMatch
	Reason string `placeholder:"TEXT" help:"Why, for the audit."`
	Yes    bool   `short:"y" help:"Do not ask."`
	outputFlag
}

// do does an act to the chosen letters and lists them. needReason refuses one
// without a reason.
func (c letterChoice) do(ctx context.Context, s *session, act dag.LetterAct, needReason bool) error {
	f, err := c.match(ctx, s)
	if err != nil {
		return err
	}
	f.IDs = append(f.IDs, c.Letters...)
	if needReason && strings.TrimSpace(c.Reason) == "" {
		return wrong(string(act)+" letters", "add --reason TEXT: the audit keeps it", "no reason is given")
	}
	if f.DagID == "" && f.TaskID == "" && f.RunID == "" && f.Queue == "" && f.ErrorClass == "" && f.ErrorCode == "" && f.Fingerprint == "" &&
		f.Since == nil && f.Until == nil && len(f.IDs) == 0 {
		return wrong(string(act)+" letters", "name letters by their ids, or by --fingerprint, --dag, --error-code and the like", "it is not said which letters")
	}
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	if len(f.IDs) == 0 && !c.Yes {
		if err := s.confirm(fmt.Sprintf("%s all letters that match?", strings.ToUpper(string(act)[:1])+string(act)[1:])); err != nil {
			return err
		}
	}
	var letters []dag.DeadLetter
	n, err := st.ActOnLetters(ctx, f, act, c.Reason, s.actor(), func(some []dag.DeadLetter) {
		letters = append(letters, some[:min(len(some), shownAtMost-len(letters))]...)
	})
	if err != nil {
		if n > 0 {
			err = fmt.Errorf("%w; %s changed before that", err, count(n, "letter"))
		}
		return err
	}
	switch {
	case n == 0:
		fmt.Fprintln(s.env.Stderr, "nothing matches: no letter is changed")
	case n > len(letters):
		fmt.Fprintf(s.env.Stderr, "%s changed; the first %d:\n", count(n, "letter"), len(letters))
	}
	return printRows(s.env.Stdout, c.Output, letters,
		col("id", func(l dag.DeadLetter) any { return l.ID }),
		col("job_id", func(l dag.DeadLetter) any { return l.JobID }),
		col("error_code", func(l dag.DeadLetter) any { return l.ErrorCode }),
		col("status", func(l dag.DeadLetter) any { return string(l.Status) }),
	)
}

type dlqQuarantineCmd struct{ letterChoice }

// Run puts sealed letters into quarantine.
func (c dlqQuarantineCmd) Run(ctx context.Context, s *session) error {
	return c.do(ctx, s, dag.ActQuarantine, false)
}

type dlqReleaseCmd struct{ letterChoice }

// Run takes letters out of quarantine.
func (c dlqReleaseCmd) Run(ctx context.Context, s *session) error {
	return c.do(ctx, s, dag.ActRelease, false)
}

type dlqResolveCmd struct{ letterChoice }

// Run closes letters; a reason is due, because nothing else will say why.
func (c dlqResolveCmd) Run(ctx context.Context, s *session) error {
	return c.do(ctx, s, dag.ActResolve, true)
}

type dlqEditCmd struct {
	ID     int64             `arg:"" name:"id" help:"The letter's id."`
	File   string            `placeholder:"FILE" help:"The whole new payload, a JSON object; - for the standard input."`
	Set    map[string]string `placeholder:"KEY=VALUE" help:"Give one key another value: a text where it has one, else JSON or a text. May be repeated."`
	Reason string            `placeholder:"TEXT" help:"Why, for the audit."`
	outputFlag
}

// Run gives a letter another payload and shows the difference.
func (c dlqEditCmd) Run(ctx context.Context, s *session) error {
	if (c.File == "") == (len(c.Set) == 0) {
		return wrong(fmt.Sprintf("edit letter %d", c.ID), "give --file FILE, or --set KEY=VALUE; `airlock dlq show ID --payload` prints the payload",
			"the new payload is to come from a file or from keys, from one of them")
	}
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	var payload json.RawMessage
	if c.File != "" {
		if payload, err = s.readFile(c.File); err != nil {
			return err
		}
	} else {
		l, err := st.Letter(ctx, c.ID)
		if err != nil {
			return err
		}
		if err := c.known(ctx, s, l); err != nil {
			return err
		}
		if payload, err = withKeys(l.Payload, c.Set); err != nil {
			return err
		}
	}
	edit, err := st.EditLetter(ctx, c.ID, payload, c.Reason, s.actor())
	if err != nil {
		return err
	}
	if c.Output != "table" {
		return printPairs(s.env.Stdout, c.Output, edit, []pair{{"id", edit.ID}, {"dead_letter_id", edit.LetterID}, {"new_payload_hash", edit.NewHash}})
	}
	printDiff(s.env.Stdout, edit.Diff)
	fmt.Fprintf(s.env.Stderr, "letter %d edited: `airlock dlq replay --ids %d` shows what a replay would do\n", c.ID, c.ID)
	return nil
}

// known refuses keys that neither the payload has nor the step takes: a misspelt
// one would change nothing in the replay, silently.
func (c dlqEditCmd) known(ctx context.Context, s *session, l dag.DeadLetter) error {
	has := map[string]json.RawMessage{}
	if json.Unmarshal(l.Payload, &has) != nil {
		return nil //nolint:nilerr // withKeys says so
	}
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	page, err := st.ReplayPage(ctx, dag.LetterFilter{IDs: []int64{l.ID}}, "")
	if err != nil {
		return err
	}
	known := slices.Sorted(maps.Keys(has))
	if len(page) == 1 {
		for _, spec := range app.Operators().Specs() {
			if spec.Name != page[0].Instance.Operator {
				continue
			}
			for _, f := range spec.Fields {
				known = append(known, f.Name)
			}
		}
	}
	slices.Sort(known)
	known = slices.Compact(known)
	for _, key := range slices.Sorted(maps.Keys(c.Set)) {
		if slices.Contains(known, key) {
			continue
		}
		hint := "there are: " + strings.Join(known, ", ") + "; --file FILE gives any payload"
		if near := dag.Nearest(key, known); near != "" {
			hint = "did you mean " + near + "? " + hint
		}
		return wrong(fmt.Sprintf("edit letter %d", c.ID), hint, "the payload has no key %q, and the step takes none of that name", key)
	}
	return nil
}

// withKeys is a payload with some keys set.
func withKeys(payload json.RawMessage, set map[string]string) (json.RawMessage, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(payload, &keys); err != nil || keys == nil {
		return nil, wrong("edit the payload", "give the whole payload with --file", "the present payload is no JSON object")
	}
	for k, v := range set {
		// A key that holds a text keeps one: bash_command=true is a command, and
		// show=42 a name. Another type is given quoted or with --file.
		var old *string
		isText := json.Unmarshal(keys[k], &old) == nil && old != nil
		if json.Valid([]byte(v)) && (!isText || strings.HasPrefix(strings.TrimSpace(v), `"`)) {
			keys[k] = json.RawMessage(v)
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		keys[k] = text
	}
	return json.Marshal(keys)
}

// printDiff prints what an edit changed, a line for each old and new value.
func printDiff(w io.Writer, diff []dag.PayloadChange) {
	for _, d := range diff {
		if d.Old != nil {
			fmt.Fprintf(w, "- %s: %s\n", d.Key, d.Old)
		}
		if d.New != nil {
			fmt.Fprintf(w, "+ %s: %s\n", d.Key, d.New)
		}
	}
}

type dlqExpireCmd struct {
	DryRun  bool   `name:"dry-run" help:"Only tell what would expire."`
	Archive string `placeholder:"FILE" help:"Write the letters there first, as dlq export does."`
	outputFlag
}

// expiry is what an expiry did and what is ahead.
type expiry struct {
	Expired int `json:"expired"`
	// Soon counts the open letters that expire within 48 hours.
	Soon   int  `json:"expiring_within_48h"`
	DryRun bool `json:"dry_run"`
}

// Run closes the letters whose time is over, and warns of those that are next.
func (c dlqExpireCmd) Run(ctx context.Context, s *session) error {
	st, err := s.store(ctx)
	if err != nil {
		return err
	}
	now, err := st.Now(ctx)
	if err != nil {
		return err
	}
	warn := now.Add(dag.LetterWarning)
	out := expiry{DryRun: c.DryRun}
	for _, status := range []dag.LetterStatus{dag.LetterSealed, dag.LetterQuarantined} {
		due, err := st.CountLetters(ctx, dag.LetterFilter{Status: status, ExpiresBy: &now})
		if err != nil {
			return err
		}
		soon, err := st.CountLetters(ctx, dag.LetterFilter{Status: status, ExpiresBy: &warn})
		if err != nil {
			return err
		}
		out.Expired += due
		out.Soon += soon - due
	}
	if !c.DryRun && out.Expired > 0 {
		f := dag.LetterFilter{ExpiresBy: &now}
		if c.Archive != "" {
			// What is sealed again meanwhile has another expiry: what is archived, or
			// less, is what expires.
			if _, err := s.exportLetters(ctx, c.Archive, f, dag.LetterSealed, dag.LetterQuarantined); err != nil {
				return err
			}
		}
		bar := s.newBar("expire")
		done := 0
		out.Expired, err = st.ActOnLetters(ctx, f, dag.ActExpire, "its time is over", s.actor(), func(some []dag.DeadLetter) {
			done += len(some)
			bar.set(done, out.Expired)
		})
		bar.stop()
		if err != nil {
			return err
		}
	}
	if out.Soon > 0 {
		fmt.Fprintf(s.env.Stderr, "%s will expire within 48 hours\n", count(out.Soon, "open letter"))
	}
	return printPairs(s.env.Stdout, c.Output, out, []pair{{"expired", out.Expired}, {"expiring_within_48h", out.Soon}, {"dry_run", out.DryRun}})
}
