package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// EditLetter gives an open letter another payload. The old one, the difference
// and who did it are kept, the hash is computed anew, and a replay hands what
// was changed to the step. A payload that somebody changed behind the desk's
// back is not edited: that would make good what is wrong.
func (s *Store) EditLetter(ctx context.Context, id int64, payload json.RawMessage, reason, actor string) (dag.LetterEdit, error) {
	var edit dag.LetterEdit
	fail := func(code dag.ErrCode, hint, format string, args ...any) error {
		return &dag.Error{Code: code, Op: fmt.Sprintf("edit letter %d", id), Hint: hint, Err: fmt.Errorf(format, args...)}
	}
	canonical, err := dag.CanonicalJSON(payload)
	var fresh map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(canonical, &fresh)
	}
	if err != nil || fresh == nil {
		return edit, fail(dag.ErrInvalid, "give a JSON object", "the new payload is no JSON object")
	}
	if len(canonical) > dag.MaxPayload {
		return edit, fail(dag.ErrInvalid, "", "the new payload has %d bytes, the limit is %d", len(canonical), dag.MaxPayload)
	}
	err = s.write(ctx, fmt.Sprintf("edit letter %d", id), func(ctx context.Context, t *tx) error {
		var rows []caseRow
		if err := t.SelectContext(ctx, &rows, "SELECT "+letterColumns+", payload, task_instance_id, fence, payload_edit FROM dead_letter WHERE id = ?"+
			s.db.ForUpdate(), id); err != nil {
			return err
		}
		if len(rows) == 0 {
			return fail(dag.ErrNotFound, "airlock dlq list shows those that there are", "there is none")
		}
		l := rows[0].model()
		if l.Status != dag.LetterSealed && l.Status != dag.LetterQuarantined {
			return fail(dag.ErrConflict, "", "it is %s, not sealed or quarantined", l.Status)
		}
		if dag.PayloadHash(l.Payload) != l.OriginalPayloadHash {
			return fail(dag.ErrConflict, "bring the sealed payload back with airlock dlq import, or resolve the letter", "its payload was tampered with")
		}
		var old map[string]json.RawMessage
		if err := json.Unmarshal(l.Payload, &old); err != nil || old == nil {
			return fail(dag.ErrConflict, "resolve it, and run the task again", "its payload is no JSON object")
		}
		edit = dag.LetterEdit{
			LetterID: id, OldPayload: l.Payload, OldHash: l.OriginalPayloadHash, NewHash: dag.PayloadHash(canonical), Diff: difference(old, fresh),
			Reason: reason, Actor: actor, EditedAt: t.now,
		}
		if len(edit.Diff) == 0 {
			return fail(dag.ErrConflict, "", "the new payload is the old one")
		}
		changes := map[string]json.RawMessage{}
		if rows[0].PayloadEdit != nil {
			if err := json.Unmarshal([]byte(*rows[0].PayloadEdit), &changes); err != nil {
				return fmt.Errorf("an earlier edit cannot be read: %w", err)
			}
		}
		for _, d := range edit.Diff {
			if bytes.Contains(d.New, []byte(`"`+dag.Masked+`"`)) {
				return fail(dag.ErrInvalid, "leave such keys as they are, or write the whole value", "the new value of %s holds a masked secret", d.Key)
			}
			if changes[d.Key] = d.New; d.New == nil {
				changes[d.Key] = json.RawMessage("null")
			}
		}
		return t.writeEdit(ctx, &edit, canonical, changes)
	})
	return edit, err
}

func (t *tx) writeEdit(ctx context.Context, e *dag.LetterEdit, payload json.RawMessage, changes map[string]json.RawMessage) error {
	diff, err := json.Marshal(e.Diff)
	if err != nil {
		return err
	}
	overlay, err := json.Marshal(changes)
	if err != nil {
		return err
	}
	if e.ID, err = t.insert(ctx, `INSERT INTO dead_letter_edit (dead_letter_id, old_payload, old_payload_hash, new_payload_hash, diff, reason, actor, edited_at)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, e.LetterID, string(e.OldPayload), e.OldHash, e.NewHash, string(diff), clean(e.Reason), short(e.Actor, 250), t.at); err != nil {
		return err
	}
	n, err := t.exec(ctx, "UPDATE dead_letter SET payload = ?, original_payload_hash = ?, payload_edit = ?, updated_at = ? WHERE id = ?",
		string(payload), e.NewHash, string(overlay), t.at, e.LetterID)
	if err == nil && n != 1 {
		err = errors.New("the letter was not there any more")
	}
	if err != nil {
		return err
	}
	return t.audit(ctx, dag.AuditEntry{
		Actor: e.Actor, Action: "letter.edit", Subject: fmt.Sprint(e.LetterID), Detail: mustJSON(map[string]any{"edit_id": e.ID, "reason": e.Reason}),
	})
}

// difference lists the keys in which two payloads differ, sorted.
func difference(old, fresh map[string]json.RawMessage) []dag.PayloadChange {
	keys := maps.Clone(old)
	maps.Copy(keys, fresh)
	var out []dag.PayloadChange
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if !bytes.Equal(canonicalOf(old[k]), canonicalOf(fresh[k])) {
			out = append(out, dag.PayloadChange{Key: k, Old: old[k], New: fresh[k]})
		}
	}
	return out
}

func canonicalOf(v json.RawMessage) []byte {
	if c, err := dag.CanonicalJSON(v); err == nil {
		return c
	}
	return v
}

// LetterEdits lists the edits of a letter, oldest first.
func (s *Store) LetterEdits(ctx context.Context, id int64) ([]dag.LetterEdit, error) {
	var rows []struct {
		ID       int64        `db:"id"`
		Payload  string       `db:"old_payload"`
		Old      string       `db:"old_payload_hash"`
		New      string       `db:"new_payload_hash"`
		Diff     string       `db:"diff"`
		Reason   string       `db:"reason"`
		Actor    string       `db:"actor"`
		EditedAt dialect.Time `db:"edited_at"`
	}
	if err := s.db.Reader().SelectContext(ctx, &rows, `SELECT id, old_payload, old_payload_hash, new_payload_hash, diff, reason, actor, edited_at
 FROM dead_letter_edit WHERE dead_letter_id = ? ORDER BY id`, id); err != nil {
		return nil, fmt.Errorf("edits of letter %d: %w", id, err)
	}
	out := make([]dag.LetterEdit, len(rows))
	for i, r := range rows {
		out[i] = dag.LetterEdit{
			ID: r.ID, LetterID: id, OldPayload: json.RawMessage(r.Payload), OldHash: r.Old, NewHash: r.New, Reason: r.Reason, Actor: r.Actor,
			EditedAt: r.EditedAt.Time,
		}
		if err := json.Unmarshal([]byte(r.Diff), &out[i].Diff); err != nil {
			return nil, fmt.Errorf("edit %d of letter %d: %w", r.ID, id, err)
		}
	}
	return out, nil
}
